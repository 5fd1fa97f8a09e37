/**
 * The HTTP shell with the routes of one feature on a real database, and callers of any account and mode without keys: X-Id names the
 * account, X-Api-Key the mode.
 */
import type { Account, Caller } from '../../src/accounts/accounts.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Mode } from '../../src/base/mode.ts';
import { createHttpApp } from '../../src/http/app.ts';
import type { RouteDefinition } from '../../src/http/route.ts';
import { type Api, apiClient } from './api.ts';
import { type Dialect, type TempDatabase, tempDatabase } from './temp-database.ts';

export interface FeatureApp {
  temp: TempDatabase;
  port: number;
  api(accountId: string, mode?: Mode): Api;
  /** From now on messages are refused for this reason; without one they are accepted again. */
  setBackPressure(reason?: string): void;
  /** Stops as the service does. */
  stop(options: { deadlineMs: number }): Promise<void>;
  close(): Promise<void>;
}

function callerOf(accountId: string, mode: Mode, changes: Partial<Account>): Caller {
  const settings = { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null } as const;
  return {
    account: {
      id: accountId,
      name: 'Test',
      plan: 'paid',
      status: 'active',
      approvedEmailBytes: 2_000_000,
      createdAt: 0,
      limits: {},
      protectionStatus: 'good',
      twoFactorRequired: false,
      timeZone: 'UTC',
      settings: { ...settings },
      ...changes,
    },
    mode,
    scope: 'full',
    keyId: `key_${accountId}_${mode}`,
    allowedSenders: [],
    allowedNetworks: [],
    actor: { kind: 'key', id: `key_${accountId}_${mode}`, name: 'test' },
  };
}

/** `changes` are applied to every account; it is called for each request. */
export async function featureApp(
  routes: (temp: TempDatabase) => RouteDefinition<Caller>[],
  changes: () => Partial<Account> = () => ({}),
  dialect: Dialect = 'sqlite',
): Promise<FeatureApp> {
  const temp = await tempDatabase(dialect);
  let backPressure: string | undefined;
  const app = createHttpApp<Caller>({
    host: '127.0.0.1',
    port: 0,
    log: silentLog,
    routes: routes(temp),
    backPressure: () => (backPressure === undefined ? undefined : { code: 'OVERLOADED', reason: backPressure }),
    authenticate: (headers) => ({
      ok: true,
      value: callerOf(String(headers['x-id']), headers['x-api-key'] === 'sandbox' ? 'sandbox' : 'live', changes()),
    }),
  });
  const { port } = await app.listen();
  const clients: Api[] = [];
  return {
    temp,
    port,
    api: (accountId, mode = 'live') => {
      const client = apiClient(() => `http://127.0.0.1:${port}`, { accountId, apiKey: mode });
      clients.push(client);
      return client;
    },
    setBackPressure: (reason) => {
      backPressure = reason;
    },
    stop: app.stop,
    close: async () => {
      for (const client of clients) client.close();
      await app.stop({ deadlineMs: 500 });
      await temp.close();
    },
  };
}
