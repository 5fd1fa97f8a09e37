/** Replies that pause a destination, and the length of the pause: one row per reply, taken from real servers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import type { SmtpStage } from '../../net/smtp-types.ts';
import { classify } from './outcome.ts';
import { isAboutConnections, pauseRequestOf, waitHintMs } from './pause.ts';
import { signalOfOpening } from './signal.ts';

const SECOND = 1_000;
const MINUTE = 60_000;

function replyOf(line: string): SmtpReply {
  const [, code, enhanced, text] = /^(\d{3}) (?:(\d\.\d+\.\d+) )?(.*)$/.exec(line)!;
  const reply = { code: Number(code), text: enhanced ? `${enhanced} ${text}` : text!, lines: [text!] };
  return enhanced ? { ...reply, enhanced } : reply;
}

/** `none`: no pause; `ladder`: a pause of the default length; a number: a pause of this length. */
const rows: [stage: SmtpStage, reply: string, asked: 'none' | 'ladder' | number][] = [
  // Rejected connections and sessions.
  ['banner', '421 4.7.0 too many connections from your IP', 'ladder'],
  ['banner', '421 Service not available, try again later', 'ladder'],
  ['banner', '421 4.3.2 System not accepting network messages', 'ladder'],
  ['banner', '450 4.7.1 try again in 2 minutes', 2 * MINUTE],
  ['ehlo', '421 4.7.0 mx.example Error: too many concurrent SMTP sessions', 'ladder'],
  ['ehlo', '452 4.3.1 out of resources', 'ladder'],
  // Rate limits.
  ['mail', '421 4.7.28 Our system has detected an unusual rate of unsolicited mail', 'ladder'],
  ['mail', '421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to user complaints', 'ladder'],
  ['mail', '450 4.7.1 rate exceeded, try again in 300 seconds', 5 * MINUTE],
  ['mail', '451 try again in 1 hour', 60 * MINUTE],
  ['mail', '451 4.3.2 please retry in 90 seconds', 90 * SECOND],
  ['rcpt', '451 4.7.1 you are sending too fast, rate limited', 'ladder'],
  ['rcpt', '450 4.7.1 Error: too many messages, throttled, retry after 10 minutes', 10 * MINUTE],
  ['rcpt', '451 4.4.5 congestion', 'ladder'],
  ['dot', '421 4.7.0 Try again later, closing connection', 'ladder'],
  ['dot', '452 4.3.2 system busy', 'ladder'],
  ['data', '421 4.3.2 system is shutting down', 'ladder'],
  ['rcpt', '421 4.2.1 busy', 'ladder'],
  // A retry time, for any reason.
  ['rcpt', '451 4.7.1 try again in 30 seconds', 30 * SECOND],
  ['rcpt', '452 4.3.1 insufficient system storage, retry in 30 seconds', 30 * SECOND],
  ['rcpt', '450 4.7.1 Please retry in 90 seconds', 90 * SECOND],
  ['dot', '451 4.3.0 try again in 30 seconds', 30 * SECOND],
  // A temporary block of this host.
  ['rcpt', '451 4.7.1 client host blocked using zen.spamhaus.org', 'ladder'],
  // One mailbox, one recipient, one message.
  ['rcpt', '451 4.7.1 Greylisted, please try again in 300 seconds', 'none'],
  ['rcpt', '450 4.2.0 <a@b.example>: Recipient address rejected: Greylisted', 'none'],
  ['rcpt', '450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents more', 'none'],
  ['rcpt', '452 4.2.2 mailbox full', 'none'],
  ['rcpt', '452 4.5.3 too many recipients', 'none'],
  ['rcpt', '452 too many recipients', 'none'],
  ['rcpt', '552 too many recipients', 'none'],
  ['rcpt', '550 5.5.3 too many recipients', 'none'],
  // A 5xx that asks to retry later, like its 4xx form.
  ['rcpt', '550 Greylisted, please try again in 300 seconds', 'none'],
  ['mail', '550 Connection frequency limited', 'ladder'],
  ['rcpt', '554 5.7.1 rate limit exceeded, try again in 10 minutes', 10 * MINUTE],
  ['dot', '554 5.3.0 try again in 30 seconds', 30 * SECOND],
  ['mail', '550 5.7.708 Access denied, traffic not accepted from this IP', 'ladder'],
  ['rcpt', '550 5.2.1 mailbox locked, try again later', 'none'],
  ['rcpt', '450 4.1.1 unverified address, try again in 5 minutes', 'none'],
  ['rcpt', '451 4.3.0 temporary local problem', 'none'],
  ['dot', '451 4.3.0 queue file write error', 'none'],
  ['rcpt', '550 5.1.1 no such user', 'none'],
  ['mail', '550 5.7.1 sender refused', 'none'],
  // One sender or one message, which ends the session: the mail of other accounts continues.
  [
    'dot',
    '421 4.7.26 Your email has been rate limited because it is unauthenticated. Gmail requires SPF or DKIM',
    'none',
  ],
  [
    'dot',
    "421 4.7.32 Your email has been rate limited because the From: header isn't aligned with SPF or DKIM",
    'none',
  ],
  ['dot', '421 4.7.0 this message is suspicious due to the very low reputation of the sending domain', 'none'],
  ['dot', '421 4.7.0 this message is suspicious due to the nature of the content and/or the links within', 'none'],
  ['dot', '421 4.7.0 This message does not have authentication information', 'none'],
  ['mail', '421 4.1.8 Sender address rejected: Domain not found', 'none'],
  [
    'dot',
    '421 4.7.28 Our system has detected an unusual rate of unsolicited mail originating from your IP address',
    'ladder',
  ],
  ['dot', '421 4.3.0 Temporary System Problem', 'ladder'],
  ['mail', '450 4.7.1 <s@c.example>: Sender address rejected: rate limit exceeded', 'none'],
  ['rcpt', '450 4.7.1 <s@c.example>: Sender address rejected: Policy rejection; Message quota exceeded', 'none'],
  ['rcpt', '550 Domain c.example has exceeded the max emails per hour (50/50 (100%)) allowed. Discarded.', 'none'],
  ['dot', '550 User s@c.example has exceeded its 24-hour sending limit', 'none'],
  ['rcpt', '451 4.7.1 The sender s@c.example has sent too many messages, try again in 60 minutes', 'none'],
  ['mail', '421 4.7.0 too many messages from this sender', 'none'],
  ['mail', '450 4.7.1 too many messages from sender IP 192.0.2.1', 'ladder'],
  ['mail', '421 4.7.0 Too many messages from sender 192.0.2.1, try again later', 'ladder'],
  ['mail', '450 4.7.1 rate limit exceeded for sender [192.0.2.1]', 'ladder'],
  ['mail', '421 4.7.1 Sender (192.0.2.1) throttled', 'ladder'],
  ['mail', '421 4.3.2 Server busy, the sender should retry later', 'ladder'],
  ['rcpt', '452 4.3.1 too many messages, sender must slow down', 'ladder'],
  ['dot', '421 4.7.28 rate limited. See https://x.example/sender/guide', 'ladder'],
  ['dot', '421 4.7.0 Sending rate exceeded. Bulk sender guidelines: https://x.example/bulk', 'ladder'],
  ['mail', '450 4.7.1 Error: c.example[192.0.2.1]: rate exceeded', 'ladder'],
  ['mail', '450 4.7.1 mail.c.example: rate limit exceeded', 'ladder'],
  ['rcpt', '450 4.7.1 <ann@c.example>: rate limit exceeded', 'ladder'],
  // One session.
  ['mail', '421 4.4.2 timeout, closing idle connection', 'none'],
  ['mail', '421 4.7.0 too many messages in this session', 'none'],
  ['rcpt', '421 too many errors on this connection', 'none'],
];

for (const [stage, line, asked] of rows) {
  test(`${stage}: ${line} → ${asked}`, () => {
    const evidence = { stage, reply: replyOf(line), relay: false };
    const request = pauseRequestOf(evidence, classify(evidence), ['s@c.example', 'c.example']);
    assert.equal(request === undefined ? 'none' : (request.ms ?? 'ladder'), asked);
  });
}

test('an error without a reply pauses nothing', () => {
  const evidence = { stage: 'connect' as const, cause: 'ECONNREFUSED', relay: false };
  assert.equal(pauseRequestOf(evidence, classify(evidence)), undefined);
});

const hints: [text: string, ms: number | undefined][] = [
  ['try again in 300 seconds', 300 * SECOND],
  ['Try again in 5 minutes.', 5 * MINUTE],
  ['please retry in 1 hour', 60 * MINUTE],
  ['come back in 45 s', 45 * SECOND],
  ['wait 10m before the next connection', 10 * MINUTE],
  ['deferred for 15 mins', 15 * MINUTE],
  ['retry after 00:05:30', 330 * SECOND],
  ['Retry-After: 120', 120 * SECOND],
  ['retry after PT15M', 15 * MINUTE],
  ['in PT1H', 60 * MINUTE],
  ['PT90S', 90 * SECOND],
  ['try again in an hour', 60 * MINUTE],
  ['try again in a minute', MINUTE],
  ['try again in about 20 minutes', 20 * MINUTE],
  ['wait at least 30 seconds', 30 * SECOND],
  ['try again in 1 second', 10 * SECOND],
  ['try again in 2 days', undefined],
  ['please retry after 1 day', undefined],
  ['try again in 36 hours', 60 * MINUTE],
  ['try again in 999999 seconds', 60 * MINUTE],
  ['try again later', undefined],
  ['limit of 300 messages', undefined],
  ['error 451 in 5 modules', undefined],
  ['PTR record missing', undefined],
];

for (const [text, ms] of hints) {
  test(`"${text}" ${ms === undefined ? 'names no retry time' : `asks to retry after ${ms / 1000} s`}`, () => {
    assert.equal(waitHintMs(text), ms);
  });
}

test('connection limits are distinguished from message rate limits', () => {
  for (const text of [
    '421 4.7.0 too many connections',
    '421 too many concurrent SMTP sessions',
    '451 4.7.0 connection limit exceeded',
  ]) {
    assert.ok(isAboutConnections(text), text);
  }
  for (const text of ['421 4.7.28 unusual rate', '450 too many messages', '421 closing connection']) {
    assert.ok(!isAboutConnections(text), text);
  }
});

test('before MAIL a rejection lowers the connection limit, unless it names a time or a block', () => {
  const shown = (line: string, open: number): string => {
    const evidence = { stage: 'banner' as const, reply: replyOf(line), relay: false };
    const signal = signalOfOpening({ evidence, host: 'mx.example', isForNeed: false, open }, classify(evidence));
    return signal.kind === 'wait' ? `wait ${signal.request.ms ?? ''}`.trim() : signal.kind;
  };
  for (const [line, observed, expected] of [
    ['421 4.7.0 too busy, try again in 119 seconds', 2, 'wait 119000'],
    ['421 4.7.0 too busy, try again in 119 seconds', 0, 'wait 119000'],
    ['421 4.7.0 too many connections from your IP, try again in 60 seconds', 2, 'connection-limit'],
    ['421 Service not available, try again later', 2, 'connection-limit'],
    ['421 Service not available, try again later', 0, 'wait'],
  ] as const)
    assert.equal(shown(line, observed), expected, line);
});
