/**
 * Some routes behind the real HTTP shell on a free port, with the real authentication, for tests of a feature without the rest of the
 * service.
 */
import type { Caller } from '../../src/accounts/accounts.ts';
import { createAuthenticator } from '../../src/accounts/accounts.ts';
import type { Clock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createHttpApp } from '../../src/http/app.ts';
import type { RouteDefinition } from '../../src/http/route.ts';
import type { Database } from '../../src/storage/database.ts';

export interface Called {
  status: number;
  headers: Headers;
  /** The parsed JSON, or the text of any other content. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer is what is being tested, so no type is assumed for it
  body: any;
}

export interface CallOptions {
  key: string;
  id: string;
  json?: unknown;
  csv?: string;
}

export interface RouteServer {
  call(method: string, path: string, options: CallOptions): Promise<Called>;
  close(): Promise<void>;
}

export async function serveRoutes(options: {
  routes: RouteDefinition<Caller>[];
  database: Database;
  clock: Clock;
  /** For routes that clear its cache; a new one by default. */
  authenticator?: ReturnType<typeof createAuthenticator>;
}): Promise<RouteServer> {
  const authenticate = options.authenticator ?? createAuthenticator(options);
  const app = createHttpApp<Caller>({
    host: '127.0.0.1',
    port: 0,
    log: silentLog,
    routes: options.routes,
    authenticate: (headers) =>
      authenticate(headers['x-api-key'] as string | undefined, headers['x-id'] as string | undefined),
  });
  const { port } = await app.listen();
  return {
    call: async (method, path, { key, id, json, csv }) => {
      const body = json === undefined ? csv : JSON.stringify(json);
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method,
        headers: {
          'X-Api-Key': key,
          'X-Id': id,
          ...(body === undefined ? {} : { 'Content-Type': csv === undefined ? 'application/json' : 'text/csv' }),
        },
        ...(body === undefined ? {} : { body }),
      });
      const text = await response.text();
      const isJson = response.headers.get('content-type')?.includes('json');
      return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
    },
    close: () => app.stop({ deadlineMs: 1_000 }),
  };
}
