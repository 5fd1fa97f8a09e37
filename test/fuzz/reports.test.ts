/**
 * Arbitrary messages for the reader of bounces and complaints: it always returns in bounded time, and its results are safe to store,
 * display, and compare. Committed seeds always run, then a fresh one, which is printed on failure.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { reportedOutcome } from '../../src/delivery/outcome/reported-outcome.ts';
import { readReport } from '../../src/mail/report/report.ts';
import { fastestOf } from '../kit/running-time.ts';
import { mutatedMail } from './mutated-mail.ts';

const folder = new URL('../corpus/reports/', import.meta.url);
const mails = readdirSync(folder)
  .filter((name) => name.endsWith('.eml'))
  .map((name) => readFileSync(new URL(name, folder), 'latin1'));

const SEEDS = [17, 3464, 5965, 6522, 913604263, 786997937];
const TOKENS = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  '--',
  '<',
  '>',
  '"',
  ';',
  ':',
  '=',
  '=?',
  '?=',
  '\x1b$B',
  '\xff',
  ' ',
  '\t',
  '550 ',
  '5.1.1',
  '4.4.7',
  'Final-Recipient: rfc822;',
  'Action: failed',
  'Status: 5',
  'Diagnostic-Code: smtp;',
  'Content-Type: multipart/report; boundary=',
  'message/delivery-status',
  'message/feedback-report',
  'text/html',
  'Content-Transfer-Encoding: base64',
  'quoted-printable',
  'charset=x',
  'a@b.example',
  '<a@b.example>:',
  'utf-8; \\x{FC}',
  'From: MAILER-DAEMON',
  'X-Failed-Recipients:',
  'Feedback-Type: abuse',
  'Original-Rcpt-To:',
  'Message-ID: <',
  '@',
  '\\',
];
const WHY = ['auto-reply', 'challenge', 'list', 'not-a-report', 'unreadable'];
const LONGEST_MS = 250;

const isShowable = (text: string | null): boolean => text === null || (text.isWellFormed() && !/\p{Cc}/u.test(text));

async function check(text: string): Promise<void> {
  const content = Buffer.from(text, 'latin1');
  const { result: report, ms } = await fastestOf(LONGEST_MS, () => readReport(content));
  assert.ok(ms < LONGEST_MS, `${ms} ms`);
  if (report.kind === 'none') {
    assert.ok(WHY.includes(report.why));
    return;
  }
  const { messageId, to } = report.mail;
  assert.ok(messageId === null || (/^<[^<>\s]+>$/.test(messageId) && isShowable(messageId)), `${messageId}`);
  assert.ok(to.every((one) => one.includes('@')));
  if (report.kind === 'complaint') {
    assert.ok(report.recipients.every((one) => one.includes('@') && isShowable(one)));
    return;
  }
  assert.ok(report.recipients.length > 0);
  for (const one of report.recipients) {
    for (const address of [one.finalRecipient, one.originalRecipient]) {
      assert.ok(address === null || (/^[^\s<>]+@[^\s<>@]+$/.test(address) && address.length <= 320), `${address}`);
    }
    assert.ok(one.status === null || /^[245]\.\d{1,3}\.\d{1,3}$/.test(one.status));
    assert.ok(one.smtpCode === null || (one.smtpCode >= 400 && one.smtpCode < 600));
    assert.ok(isShowable(one.diagnostic) && (one.diagnostic ?? '').length <= 1000);
    assert.ok(isShowable(one.remoteHost));
    const { suppress, kind } = reportedOutcome(one);
    assert.equal(kind === 'permanent', one.action === 'failed');
    assert.ok(!suppress || one.action === 'failed');
  }
}

const property = fc.asyncProperty(mutatedMail(mails, TOKENS), check);

test('the corpus with mutations, from committed seeds', async () => {
  for (const seed of SEEDS) await fc.assert(property, { seed, numRuns: 300 });
});

test('the corpus with mutations, from a fresh seed', async () => {
  await fc.assert(property, { numRuns: 1000 });
});

test('10,000 reports leak no memory', async () => {
  const collect = (globalThis as { gc?: () => void }).gc;
  const used = (): number => {
    collect?.();
    return process.memoryUsage().heapUsed;
  };
  for (const mail of mails) await check(mail);
  const before = used();
  for (let i = 0; i < 10_000; i += 1) await readReport(Buffer.from(mails[i % mails.length]!.slice(0, 4000), 'latin1'));
  assert.ok(used() - before < 100_000_000, 'more than 10 KB for each');
});
