/**
 * The inbound listener on a real database, without the rest of the service: the bounce domain bounces.example, whose tokens tests can
 * create, and a user's route, support@in.example. Stored messages are not processed.
 */
import path from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { newId } from '../../src/base/ids.ts';
import { createLog } from '../../src/base/log.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { returnPathStateOperation } from '../../src/domains/domains.ts';
import {
  createRecipients,
  type NewInbound,
  type RecipientsOptions,
  storeInboundOperation,
} from '../../src/inbound/inbound.ts';
import { createHourlyCount, type HourlyCount } from '../../src/limits/limits.ts';
import { createTokenAddresses } from '../../src/mail/token-address.ts';
import { createInboundServer, openTlsIdentity, type SmtpLimits, type SmtpServer } from '../../src/smtp/smtp.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { connectTalker, type Talker } from './smtp-talker.ts';
import { type Dialect, tempDatabase } from './temp-database.ts';

export interface InboundServerOptions {
  limits?: Partial<SmtpLimits>;
  closedToMail?(): string | undefined;
  closedToContent?(): string | undefined;
  isScarce?(): boolean;
  hourly?: HourlyCount;
  store?(mails: NewInbound[]): Promise<void>;
  blobs?: Blobs;
  recipients?: Partial<RecipientsOptions>;
}

export const BOUNCE_DOMAIN = 'bounces.example';

export async function inboundRig(dialect: Dialect = 'sqlite') {
  const temp = await tempDatabase(dialect);
  const { database } = temp;
  const clock = systemClock;
  const lines: string[] = [];
  const log = createLog('debug', (line) => lines.push(line));
  const metrics = createMetrics();
  const blobs = openDiskBlobs(path.join(temp.folder, 'blobs'));
  const tokens = createTokenAddresses(Buffer.alloc(32, 1));
  const messageId = newId('msg');
  const tls = openTlsIdentity({ files: undefined, folder: temp.folder, hostname: 'postrider.test', clock, log });
  const servers: SmtpServer[] = [];
  /** In order. */
  const accepted: NewInbound[] = [];
  const route = { kind: 'route', accountId: 'acc_1', mode: 'live', routeId: 'inr_1' } as const;

  const listen = async (options: InboundServerOptions = {}) => {
    const { limits, recipients, ...rest } = options;
    const server = createInboundServer({
      hostname: 'postrider.test',
      blobs,
      tls,
      clock,
      log,
      metrics,
      // Under load, a slow client must not count as an early talker.
      limits: { greetingMs: 0, ...limits },
      recipients: createRecipients({
        tokens,
        clock,
        bounceDomain: BOUNCE_DOMAIN,
        hostname: 'postrider.test',
        returnPathState: (domain) => database.execute(returnPathStateOperation, domain),
        findRoute: async ({ local, domain }) =>
          `${local}@${domain}` === 'support@in.example' ? { use: route, maxBytes: 25_000_000 } : undefined,
        ...recipients,
      }),
      isScarce: () => false,
      hourly: createHourlyCount({ clock, share: () => 1 }),
      store: async (mails) => {
        await database.execute(storeInboundOperation, mails);
        accepted.push(...mails);
      },
      ...rest,
    });
    servers.push(server);
    return { server, port: (await server.listen(0)).port };
  };

  return {
    ...temp,
    accepted,
    blobs,
    clock,
    metrics,
    tokens,
    messageId,
    listen,
    route,
    /** Log lines in JSON. */
    log: lines,
    /** Local parts that are used literally in transcripts. */
    words: {
      bounce: tokens.make('bounce', { messageId }, clock.now()),
      unsubscribe: tokens.make('unsubscribe', { messageId }, clock.now()),
      old: tokens.make('bounce', { messageId }, clock.now() - 16 * 86_400_000),
    } as Readonly<Record<string, string>>,
    close: async (): Promise<void> => {
      await Promise.all(servers.map((server) => server.stop({ deadlineMs: 500 })));
      await tls.stop();
      await temp.close();
    },
  };
}

export type InboundRig = Awaited<ReturnType<typeof inboundRig>>;

/** Opens a session and sends EHLO. */
export async function openInbound(port: number, localAddress?: string): Promise<Talker> {
  const talker = await connectTalker(port, localAddress === undefined ? {} : { localAddress });
  await talker.reply();
  await talker.say('EHLO mx.example');
  return talker;
}

/** Sends a message up to the reply to the dot. */
export async function bringMail(talker: Talker, to: string, content = 'Subject: x\r\n\r\nx\r\n'): Promise<string> {
  for (const step of ['MAIL FROM:<>', `RCPT TO:<${to}>`, 'DATA']) {
    const reply = await talker.say(step);
    if (!/^[23]/.test(reply)) return `${step.slice(0, 4)}: ${reply}`;
  }
  talker.send(`${content}.\r\n`);
  return talker.reply();
}
