/**
 * The submission listener on a real database, without the rest of the service: an account with a live and a sandbox credential, a verified
 * domain, and a dispatch that records accepted messages. Deliveries do not run.
 */

import assert from 'node:assert/strict';
import path from 'node:path';
import { createAccount, createSmtpAuthenticator, createSmtpCredential } from '../../src/accounts/accounts.ts';
import { systemClock } from '../../src/base/clock.ts';
import { createLog, type Log } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import type { Mode } from '../../src/base/mode.ts';
import { createTrackingLinks } from '../../src/engagement/engagement.ts';
import { createInFlightKeys } from '../../src/idempotency/idempotency.ts';
import type { DeliveryJob } from '../../src/messages/messages.ts';
import type { Cidr } from '../../src/net/address-guard.ts';
import { createSubmit, type Submit } from '../../src/send/send.ts';
import { createLoginGuard, type LoginGuard } from '../../src/smtp/login-guard.ts';
import {
  createSubmissionServer,
  openTlsIdentity,
  type SmtpLimits,
  type SmtpServer,
  type TlsIdentity,
} from '../../src/smtp/smtp.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { testAddressHash } from './address-hash.ts';
import { connectTalker, type Talker } from './smtp-talker.ts';
import { tempDatabase } from './temp-database.ts';

export interface RigCredential {
  id: string;
  username: string;
  password: string;
}

export interface ServerOptions {
  limits?: Partial<SmtpLimits>;
  guard?: LoginGuard;
  closedToMail?(): string | undefined;
  closedToContent?(): string | undefined;
  takeRate?(keyId: string): boolean;
  submit?: Submit;
  blobs?: Blobs;
  tls?: TlsIdentity;
  trustedProxies?: readonly Cidr[];
}

export interface RunningServer {
  server: SmtpServer;
  port: number;
  guard: LoginGuard;
}

/** An accepted sender of live messages. */
export const SENDER = 'shop@verified.example';

export async function smtpRig() {
  const temp = await tempDatabase();
  const { database } = temp;
  const clock = systemClock;
  const { account } = await createAccount({ database, clock }, { name: 'Rig', plan: 'paid' });
  const credential = async (
    mode: Mode,
    accountId = account.id,
    allowedNetworks: string[] = [],
  ): Promise<RigCredential> => {
    const made = await createSmtpCredential({ database, clock }, { accountId, mode, allowedNetworks });
    if (!made.ok) throw new Error(made.failure.message);
    const { smtpCredentialId: id, username, password } = made.value;
    return { id, username, password };
  };
  const credentials = { live: await credential('live'), sandbox: await credential('sandbox') };

  const accepted: DeliveryJob[] = [];
  const lines: string[] = [];
  const log: Log = createLog('debug', (line) => lines.push(line));
  const metrics = createMetrics();
  const blobs = openDiskBlobs(path.join(temp.folder, 'blobs'));
  const submit = createSubmit({
    database,
    blobs,
    clock,
    addressHash: testAddressHash,
    directDispatch: { hasCapacity: () => true, dispatch: (jobs) => void accepted.push(...jobs) },
    inFlight: createInFlightKeys(),
    trackingLinks: createTrackingLinks({ secretKey: Buffer.alloc(32, 1), baseUrl: 'https://mail.test' }),
    isVerified: async (accountId, domain) => accountId === account.id && /(^|\.)verified\.example$/.test(domain),
  });
  const tls = openTlsIdentity({ files: undefined, folder: temp.folder, hostname: 'postrider.test', clock, log });
  const servers: SmtpServer[] = [];

  /** Opens another listener on the same database, with its own authentication cache and failure counts. */
  const listen = async (options: ServerOptions = {}): Promise<RunningServer> => {
    const { limits, guard = createLoginGuard(), ...rest } = options;
    const server = createSubmissionServer({
      hostname: 'postrider.test',
      authenticator: createSmtpAuthenticator({ database, clock }),
      submit,
      blobs,
      tls,
      clock,
      log,
      metrics,
      guard,
      // Under load, a slow client must not count as an early talker.
      limits: { greetingMs: 0, ...limits },
      ...rest,
    });
    servers.push(server);
    return { server, guard, port: (await server.listen(0)).port };
  };

  return {
    ...temp,
    account,
    credential,
    credentials,
    accepted,
    blobs,
    metrics,
    clock,
    submit,
    listen,
    /** Log lines in JSON. */
    log: lines,
    close: async (): Promise<void> => {
      await Promise.all(servers.map((server) => server.stop({ deadlineMs: 500 })));
      await tls.stop();
      await temp.close();
    },
  };
}

export type SmtpRig = Awaited<ReturnType<typeof smtpRig>>;

export async function openSession(
  port: number,
  credential: { username: string; password: string },
  options: { localAddress?: string } = {},
): Promise<Talker> {
  const talker = await connectTalker(port, options);
  assert.match(await talker.reply(), /^220 /);
  await talker.logIn(credential);
  return talker;
}

/** Sends a message up to the reply to the dot; returns the replies. */
export async function submitMail(
  talker: Talker,
  content = `From: ${SENDER}\r\n\r\nx\r\n`,
  to = ['ann@example.com'],
): Promise<string> {
  const rcpt = to.map((address) => `RCPT TO:<${address}>\r\n`).join('');
  talker.send(`MAIL FROM:<${SENDER}>\r\n${rcpt}DATA\r\n`);
  for (let i = 0; i < to.length + 2; i += 1) assert.match(await talker.reply(), /^(250|354) /);
  talker.send(`${content}.\r\n`);
  return talker.reply();
}
