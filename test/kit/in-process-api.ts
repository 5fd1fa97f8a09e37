/**
 * The complete HTTP API in the process of the test, on its own embedded database, without delivery and with an empty DNS: the routes of the
 * router, an account with a live and a sandbox key, and browsers that log in. Emails of the service to users are collected.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import {
  type Account,
  createAccount,
  createAuthenticator,
  createCredentialUses,
  createSmtpAuthenticator,
} from '../../src/accounts/accounts.ts';
import type { Clock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { readConfig, VERSION } from '../../src/config.ts';
import { createFollowers } from '../../src/events/events.ts';
import type { MemberRole, RouteDefinition } from '../../src/http/route.ts';
import { openHttpClient } from '../../src/net/http-client.ts';
import { joinNodes } from '../../src/nodes/nodes.ts';
import { createOperatorKeys } from '../../src/operator/operator.ts';
import { createRequestLog } from '../../src/request-log/request-log.ts';
import { type ApiOptions, apiRoutes, createApi } from '../../src/roles/api.ts';
import { openParts, type Parts } from '../../src/roles/parts.ts';
import { inviteOperation } from '../../src/users/member-store.ts';
import { createSessions } from '../../src/users/sessions.ts';
import { createUser, type UserMail } from '../../src/users/users.ts';
import { type Answer, type Api, apiClient, type JsonObject } from './api.ts';
import { fakeDns } from './fake-dns.ts';

export interface Browser {
  /** The last Set-Cookie; undefined while logged out. */
  cookie: string | undefined;
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
}

export interface InProcessApi {
  parts: Parts;
  accountId: string;
  databaseFile: string;
  port: number;
  url: string;
  account: Account;
  live: Api;
  sandbox: Api;
  routes: RouteDefinition<never>[];
  /** Emails of the service to users, and whether they are sent at all. */
  mails: { to: string; subject: string; text: string }[];
  mail: { canSend: boolean };
  /** Creates a user with a password, in the account if a role is given. */
  user(
    email: string,
    role?: MemberRole,
    accountId?: string,
  ): Promise<{ userId: string; email: string; password: string }>;
  /** `from` is the loopback address of its connections. */
  browser(from?: string): Browser;
  signedIn(email: string, password: string): Promise<Browser>;
  close(): Promise<void>;
}

export interface InProcessApiOptions {
  env?: Record<string, string>;
  clock?: Clock;
}

export async function inProcessApi({ env = {}, clock }: InProcessApiOptions = {}): Promise<InProcessApi> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-api-'));
  const dns = await fakeDns();
  const config = readConfig({
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_DNS_SERVERS: dns.server,
    POSTRIDER_MIN_FREE_BYTES: '1000000',
    ...env,
  });
  const parts = await openParts({ config, log: silentLog, onBroken: assert.fail, ...(clock && { clock }) });
  const http = openHttpClient({ lookup: parts.dns.lookupHost, allow: [], connectionsPerOrigin: 1 });
  const followers = createFollowers(parts);
  const mails: InProcessApi['mails'] = [];
  const mail = {
    canSend: false,
    canSendTo: async (email: string) => !email.startsWith('complained@'),
    sendTo: async (one: Parameters<UserMail['sendTo']>[0]) => mails.push(one) > 0,
  };
  const node = { clock: parts.clock, database: parts.database, log: silentLog, host: 'postrider.test' };
  const nodes = await joinNodes({ ...node, version: VERSION, roles: config.roles });
  const options: ApiOptions = {
    nodes,
    directDispatch: { hasCapacity: () => false, dispatch: () => undefined },
    http,
    followers,
    mail,
    callers: createAuthenticator(parts),
    logins: createSmtpAuthenticator(parts),
    credentialUses: createCredentialUses(parts),
    requestLog: createRequestLog({ ...parts, omitted: parts.metrics.requestsNotRecorded }),
    nudgeDelivery: () => undefined,
    nudgeWebhooks: () => undefined,
    nudgeErasures: () => undefined,
    rateShare: () => 1,
    submissionPorts: () => ({ port: 587, tlsPort: null }),
  };
  const baseUrl = 'http://localhost';
  const routes = apiRoutes({
    parts,
    options,
    callers: options.callers,
    sessions: createSessions({ ...parts, baseUrl }),
    operatorKeys: createOperatorKeys(parts),
    linkBase: { secretKey: parts.secretKey, baseUrl },
  }) as RouteDefinition<never>[];
  const app = createApi(parts, options);
  const { port } = await app.listen();
  const url = `http://localhost:${port}`;
  const { account, apiKey, sandboxApiKey } = await createAccount(parts, { name: 'One', plan: 'enterprise' });
  const client = (key: string) => apiClient(() => `http://127.0.0.1:${port}`, { accountId: account.id, apiKey: key });
  const [live, sandbox] = [client(apiKey), client(sandboxApiKey)];
  const browser = (from = '127.0.0.1'): Browser => openBrowser(port, url, from);
  return {
    parts,
    port,
    url,
    account,
    live,
    sandbox,
    routes,
    mails,
    mail,
    browser,
    accountId: account.id,
    databaseFile: path.join(folder, 'postrider.db'),
    user: async (email, role, accountId = account.id) => {
      const made = await createUser(parts, { email, isOperator: false });
      assert.ok(made.ok);
      if (role !== undefined) await join(parts, { ...made.value, role, accountId });
      return made.value;
    },
    signedIn: async (email, password) => {
      const opened = browser();
      const answer = await opened.call('POST', '/session', { email, password });
      assert.equal(answer.status, 200, answer.text);
      return opened;
    },
    close: async () => {
      live.close();
      sandbox.close();
      await app.stop({ deadlineMs: 500 });
      await followers.stop();
      await http.close();
      await parts.stop();
      await dns.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function join(
  { database, clock }: Parts,
  { userId, email, role, accountId }: { userId: string; email: string; role: MemberRole; accountId: string },
): Promise<void> {
  const nowMs = clock.now();
  const invited = await database.execute(inviteOperation, {
    accountId,
    role,
    mayHaveAtMost: 1_000,
    byOperator: true,
    name: email,
    nowMs,
    user: { id: userId, email, emailVerified: 1, isOperator: 0, passwordHash: null, createdAt: nowMs },
    token: {
      tokenHash: Buffer.alloc(32),
      userId,
      purpose: 'invitation',
      byMail: 0,
      createdAt: nowMs,
      expiresAt: nowMs,
    },
  });
  assert.equal(invited.outcome, 'added');
}

/** Keeps the cookie, and sends the headers that the portal sends. */
export function openBrowser(port: number, origin: string, localAddress: string): Browser {
  const browser: Browser = {
    cookie: undefined,
    call: (method, at, body, headers = {}) =>
      new Promise((resolve, reject) => {
        const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
        const own: Record<string, string> = { origin, 'x-requested-with': 'postrider' };
        if (browser.cookie !== undefined) own.cookie = browser.cookie;
        if (content !== undefined) own['content-type'] = 'application/json';
        const sent = httpRequest(
          { host: '127.0.0.1', port, path: at, method, localAddress, headers: { ...own, ...headers }, agent: false },
          (answer) => {
            const chunks: Buffer[] = [];
            answer.on('data', (chunk: Buffer) => chunks.push(chunk));
            answer.on('error', reject);
            answer.on('end', () => {
              const text = Buffer.concat(chunks).toString('utf8');
              const [set] = answer.headers['set-cookie'] ?? [];
              if (set !== undefined)
                browser.cookie = set.startsWith('postrider_session=;') ? undefined : set.split(';')[0]!;
              const flat = Object.entries(answer.headers).map(([name, value]) => [name, String(value)]);
              const parsed = /^application\/json\b(?!l|-)/.test(String(answer.headers['content-type']))
                ? JSON.parse(text)
                : {};
              resolve({
                status: answer.statusCode ?? 0,
                headers: Object.fromEntries(flat),
                text,
                body: parsed as JsonObject,
              });
            });
          },
        );
        sent.on('error', reject);
        sent.end(content);
      }),
  };
  return browser;
}
