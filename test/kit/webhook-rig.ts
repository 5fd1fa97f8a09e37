/**
 * The webhook worker with its dependencies: a real database, a real client that may connect to loopback, and receivers with scripted
 * responses. Events come from messages that the real transaction accepts.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import { silentLog } from '../../src/base/log.ts';
import { seal } from '../../src/base/seal.ts';
import { WEBHOOK_WORK } from '../../src/events/events.ts';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openHttpClient } from '../../src/net/http-client.ts';
import type { Database } from '../../src/storage/database.ts';
import { type DeliveryRow, sealContext } from '../../src/webhooks/endpoints.ts';
import type { LaneLimits } from '../../src/webhooks/lanes.ts';
import { listDeliveriesOperation } from '../../src/webhooks/log-store.ts';
import { newSecret } from '../../src/webhooks/sign.ts';
import { createEndpointOperation, type NewEndpoint } from '../../src/webhooks/store.ts';
import { startWebhooks, type WebhookDeps, type Webhooks } from '../../src/webhooks/worker.ts';
import { backlogOperation } from '../../src/work/work.ts';
import { foundAnswer } from './fake-dns.ts';
import { highLimitAccount } from './high-limit-account.ts';
import { seedMail } from './seed-mail.ts';
import { type Dialect, type TempDatabase, tempDatabase } from './temp-database.ts';
import { type WebhookCatcher, webhookCatcher } from './webhook-catcher.ts';

const loopback = parseCidrs('127.0.0.0/8');
assert.ok(loopback.ok);
const allow = loopback.cidrs;
/** The service's key in these tests. */
export const secretKey = randomBytes(32);

export interface WebhookRig {
  db: TempDatabase;
  accountId: string;
  worker: Webhooks;
  clock: Clock;
  start(): Webhooks;
  catcher(script?: Parameters<WebhookCatcher['answer']>[0]): Promise<WebhookCatcher>;
  endpoint(url: string, fields?: Partial<NewEndpoint>): Promise<{ id: string; secret: string }>;
  /** Creates a message, and with it a Send event. */
  event(recipient?: string): Promise<string>;
  deliveries(id: string): Promise<DeliveryRow[]>;
  depth(): Promise<number>;
}

export interface WorldOptions {
  dialect?: Dialect;
  clock?: Clock;
  limits?: LaneLimits;
  random?: () => number;
  wrap?: (database: Database) => Database;
  deps?: Partial<WebhookDeps>;
}

/** Creates a separate environment; `onClose` receives functions to call at the end, in reverse order. */
export async function webhookRig(
  onClose: (close: () => Promise<void>) => void,
  options: WorldOptions = {},
): Promise<WebhookRig> {
  const db = await tempDatabase(options.dialect);
  onClose(() => db.close());
  const clock: Clock = options.clock ?? { now: () => Date.now() };
  const http = openHttpClient({
    lookup: async (host) => foundAnswer([host]),
    allow,
    connectionsPerOrigin: 200,
  });
  onClose(() => http.close());
  const accountId = newId('acc');
  await highLimitAccount(db.database, accountId);
  const execute = db.database.execute;
  const start = (): Webhooks => {
    const { limits, random } = options;
    const made = startWebhooks({
      database: options.wrap?.(db.database) ?? db.database,
      http,
      clock,
      log: silentLog,
      secretKey,
      pollMs: 20,
      quarantineAfterMs: 0,
      ...(limits ? { limits } : {}),
      ...(random ? { random } : {}),
      ...options.deps,
    });
    onClose(() => made.stop());
    return made;
  };
  return {
    db,
    accountId,
    clock,
    worker: start(),
    start,
    catcher: async (script) => {
      const made = await webhookCatcher(script === undefined ? {} : { script });
      onClose(() => made.close());
      return made;
    },
    endpoint: async (url, fields) => {
      const id = newId('whk');
      const secret = newSecret();
      await execute(createEndpointOperation, {
        id,
        accountId,
        mode: 'live',
        url,
        description: null,
        enabled: true,
        events: JSON.stringify(['Send']),
        secretSealed: seal(secretKey, secret, sealContext(id)),
        nowMs: clock.now(),
        ...fields,
      });
      return { id, secret };
    },
    event: async (recipient) => {
      const to = recipient === undefined ? {} : { recipients: [recipient] };
      const { recipients } = await seedMail(db.database, { accountId, nowMs: clock.now(), ...to });
      return recipients[0]!.messageId;
    },
    deliveries: async (id) =>
      (
        await execute(listDeliveriesOperation, {
          accountId,
          mode: 'live',
          id,
          eventType: null,
          status: null,
          before: null,
          limit: 1_000,
        })
      )?.rows ?? [],
    depth: async () => (await execute(backlogOperation, WEBHOOK_WORK)).depth,
  };
}
