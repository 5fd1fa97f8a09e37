/**
 * Arbitrary sessions: the committed corpus, and mutations of it, against the session on in-memory connections. Each session ends, every
 * reply is valid, nothing is accepted for an address that was not named, and no accepted content has a bare CR, a bare LF, a NUL, or a line
 * over 998 octets. Limited to about two seconds; SMTP_FUZZ_SESSIONS sets the number of sessions.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import type { Caller } from '../../src/accounts/accounts.ts';
import { systemClock } from '../../src/base/clock.ts';
import { ok } from '../../src/base/failure.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Submit } from '../../src/send/send.ts';
import { defaultLimits, type SmtpServices } from '../../src/smtp/dialogue.ts';
import { createLoginGuard } from '../../src/smtp/login-guard.ts';
import { Session } from '../../src/smtp/session.ts';
import { createSubmissionProfile, type Submission } from '../../src/smtp/submission.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';
import { testAccount } from '../kit/send-rig.ts';

interface Seed {
  name: string;
  /** Bytes sent by the client, one character per byte. */
  bytes: string;
}

const corpus = JSON.parse(readFileSync(path.join(import.meta.dirname, 'smtp-corpus.json'), 'utf8')) as Seed[];
const WORDS = [
  '\r\n',
  '\n',
  '\r',
  '\0',
  '.',
  '\r\n.\r\n',
  '..',
  ' ',
  '\t',
  '<',
  '>',
  '"',
  '\\',
  ':',
  '@',
  '=',
  '*',
  '\xff\xfe',
  'ü',
  'EHLO x\r\n',
  'MAIL FROM:<a@b.example>\r\n',
  'RCPT TO:<c@sink.example>\r\n',
  'DATA\r\n',
  'RSET\r\n',
  'NOOP\r\n',
  'AUTH PLAIN AGEAYg==\r\n',
  'AUTH LOGIN\r\n',
  'BDAT 10 LAST\r\n',
  'STARTTLS\r\n',
  'QUIT\r\n',
  'VRFY x\r\n',
  'SIZE=1',
  'BODY=8BITMIME',
  'SMTPUTF8',
  'AUTH=<>',
  'x'.repeat(600),
  'y'.repeat(1_100),
  `From: a@b.example\r\n\r\nx\r\n`,
];
const SECONDS = 2;
const caller: Caller = {
  account: testAccount('acc_fuzz'),
  mode: 'live',
  scope: 'send',
  keyId: 'smtp_fuzz',
  allowedSenders: [],
  allowedNetworks: [],
  actor: { kind: 'credential', id: 'smtp_fuzz', name: 'smtp_fuzz' },
};

/** Mulberry32: the same seed gives the same sessions. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

function mutate(bytes: string, random: (below: number) => number): string {
  let text = bytes;
  for (let i = random(6); i >= 0; i -= 1) {
    const at = random(text.length + 1);
    const to = Math.min(text.length, at + random(40));
    const word = WORDS[random(WORDS.length)]!;
    const edits = [
      () => text.slice(0, at) + word + text.slice(at),
      () => text.slice(0, at) + text.slice(to),
      () => text.slice(0, at) + text.slice(at, to).repeat(3) + text.slice(to),
      () => text.slice(0, at) + String.fromCharCode(random(256)) + text.slice(at + 1),
      () => text.slice(0, at) + corpus[random(corpus.length)]!.bytes.slice(random(60)),
    ];
    text = edits[random(edits.length)]!();
  }
  return text.slice(0, 20_000);
}

interface Outcome {
  replies: string;
  accepted: { recipients: string[]; content: string }[];
}

async function runSession(bytes: string, random: (below: number) => number): Promise<Outcome> {
  const accepted: Outcome['accepted'] = [];
  const submit: Submit = {
    senderFailure: async () => undefined,
    clockOffsetMs: async () => 0,
    submit: async ({ recipients, content }) => {
      assert.ok(Buffer.isBuffer(content));
      accepted.push({ recipients: recipients.map((one) => one.address), content: content.toString('latin1') });
      return ok({ messageId: 'msg_fuzz' });
    },
  };
  const refused = { ok: false, failure: { code: 'UNAUTHORIZED', message: '', details: [] } } as const;
  const counter = { inc: () => undefined };
  const services = {
    hostname: 'postrider.test',
    profile: createSubmissionProfile({
      authenticator: {
        recall: async () => undefined,
        logIn: async () => refused,
        stillAllowed: () => ok(caller),
        evictCredential: () => undefined,
        evictAccount: () => undefined,
      },
      guard: createLoginGuard(),
      submit,
      takeRate: () => true,
    } as unknown as Submission),
    blobs: { putStream: async () => 'key', remove: async () => undefined } as unknown as Blobs,
    clock: systemClock,
    log: silentLog,
    metrics: { smtpAuthFailures: counter },
    limits: { ...defaultLimits, greetingMs: 0 },
    closedToMail: () => undefined,
    closedToContent: () => undefined,
  } as unknown as SmtpServices;
  const [client, server] = duplexPair();
  let replies = '';
  client.on('data', (chunk: Buffer) => {
    replies += chunk.toString('latin1');
  });
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  const session = new Session(server as unknown as Socket, {
    services,
    address: '192.0.2.1',
    isImplicitTls: false,
    onMailEnded: () => undefined,
    onClosed: () => undefined,
  });
  session.isSecure = true;
  session.login = { username: 'smtp_fuzz', caller };
  await new Promise<void>((resolve) => client.once('data', () => resolve()));
  const all = Buffer.from(bytes, 'latin1');
  for (let at = 0; at < all.length; ) {
    const size = 1 + random(random(3) === 0 ? 5 : 4_000);
    if (!client.writableEnded) client.write(all.subarray(at, at + size));
    at += size;
    if (random(8) === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  client.end();
  const hang = setTimeout(() => client.destroy(new Error('hangs')), 30_000);
  client.on('error', () => undefined);
  await Promise.race([ended, new Promise((_, reject) => client.once('error', reject))]);
  clearTimeout(hang);
  session.destroy();
  return { replies, accepted };
}

function judge(bytes: string, { replies, accepted }: Outcome): void {
  assert.ok(replies.endsWith('\r\n'));
  for (const line of replies.slice(0, -2).split('\r\n')) {
    assert.match(line, /^[2345]\d\d[ -][\x20-\x7e]*$/, JSON.stringify(line));
    assert.ok(line.length <= 510);
    if (/^[45]/.test(line)) assert.match(line, /^(\d)\d\d \1\.\d\.\d /);
  }
  const lower = bytes.toLowerCase();
  for (const { recipients, content } of accepted) {
    assert.ok(recipients.length >= 1 && recipients.length <= 50);
    for (const recipient of recipients) {
      const utf8 = Buffer.from(recipient).toString('latin1').toLowerCase();
      assert.ok(/[^\x00-\x7f]/.test(recipient) || lower.includes(utf8), recipient);
    }
    assert.doesNotMatch(content, /\0|\r(?!\n)|(?<!\r)\n/);
    for (const line of content.split('\r\n')) assert.ok(line.length <= 998);
  }
}

test('the corpus runs and reaches its target states', async () => {
  const random = randomFrom(1);
  let mails = 0;
  for (const { name, bytes } of corpus) {
    const outcome = await runSession(bytes, random);
    judge(bytes, outcome);
    mails += outcome.accepted.length;
    if (name.startsWith('accepted')) assert.ok(outcome.accepted.length > 0, `${name}: ${outcome.replies}`);
  }
  assert.ok(mails >= 3);
});

test('mutated sessions keep the invariants', { timeout: 3_600_000 }, async () => {
  const wanted = Number(process.env.SMTP_FUZZ_SESSIONS ?? 0);
  const firstSeed = wanted > 0 ? Math.floor(Math.random() * 2 ** 31) : 20_261_120;
  const end = performance.now() + SECONDS * 1_000;
  // At least this many, even if the time is over before.
  const fewest = 100;
  let mails = 0;
  let run = 0;
  for (; wanted > 0 ? run < wanted : run < fewest || performance.now() < end; run += 1) {
    const seed = firstSeed + run;
    const random = randomFrom(seed);
    const bytes = mutate(corpus[random(corpus.length)]!.bytes, random);
    try {
      const outcome = await runSession(bytes, random);
      judge(bytes, outcome);
      mails += outcome.accepted.length;
    } catch (error) {
      throw new Error(`seed ${seed}: ${JSON.stringify(bytes)}`, { cause: error });
    }
  }
  assert.ok(run > 50 && mails > 5, `${run} sessions, ${mails} mails`);
});
