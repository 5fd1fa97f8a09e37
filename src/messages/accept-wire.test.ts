/** An acceptance and its result are the same on both sides of the way to the storage thread. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { BytesToCarry, CarriedBytes } from '../storage/carried-bytes.ts';
import { notStored, sendAnswer } from './accept-rows.ts';
import type { Acceptance, AcceptanceResult, RecipientAnswer } from './accept-store.ts';
import { acceptWire } from './accept-wire.ts';

function across(mails: readonly Acceptance[]): Acceptance[] {
  const bytes = new BytesToCarry();
  const packed = mails.map((mail) => acceptWire.packArgs(mail, bytes));
  const carried = new CarriedBytes(bytes.joined());
  return packed.map((one) => acceptWire.unpackArgs(structuredClone(one), carried));
}

function comparable({ emails, idempotency, ...rest }: Acceptance): unknown {
  return {
    clockOffsetMs: 0,
    ...rest,
    emails: emails.map((email) => ({ ...email, content: email.content && Buffer.from(email.content).toString('hex') })),
    idempotency: idempotency && { ...idempotency, bodyHash: Buffer.from(idempotency.bodyHash).toString('hex') },
  };
}

const plain = acceptance({ accountId: 'acc_1' });
const rich: Acceptance = {
  ...plain,
  mode: 'sandbox',
  clockOffsetMs: 5,
  sendAtMs: plain.nowMs + 7,
  leaseUntilMs: plain.nowMs + 60_000,
  idempotency: {
    endpoint: '/send',
    key: 'k "ü" 𝄞',
    bodyHash: Buffer.from([0, 1, 254, 255]),
    status: 202,
    expiresAtMs: plain.nowMs + 9,
  },
  emails: [
    {
      ...plain.emails[0]!,
      subject: 'Grüße 𝄞 "quoted"',
      templateId: 'tpl_1',
      templateVersion: 3,
      content: Buffer.from('büro', 'utf8'),
      recipients: plain.emails[0]!.recipients.map((one) => ({
        ...one,
        email: 'Jo@X.Example',
        suppressionKey: 'jo@x.example',
        simulateSuppressed: true,
      })),
    },
    { ...plain.emails[0]!, content: null, blobKey: 'ab/cd' },
  ],
};

test('arguments of a group arrive as they were sent', () => {
  const mails = [plain, rich, { ...plain, emails: [{ ...plain.emails[0]!, content: Buffer.alloc(0) }] }];
  assert.deepEqual(across(mails).map(comparable), mails.map(comparable));
});

function resultOf(statuses: RecipientAnswer['status'][], leases: boolean, unkept: string[] = []) {
  const one = plain.emails[0]!.recipients[0]!;
  const named = statuses.map((_, index) => ({ ...one, email: `r${index}@x.example`, messageId: `msg_${index}` }));
  const mail: Acceptance = {
    ...plain,
    emails: [
      { ...plain.emails[0]!, recipients: named.slice(0, 2) },
      { ...plain.emails[0]!, recipients: named.slice(2) },
    ],
  };
  const recipients = named.map(({ email, role, messageId }, index) => ({
    email,
    role,
    status: statuses[index]!,
    messageId,
  }));
  const leased = recipients.flatMap(({ status, messageId }, index) =>
    leases && status === 'queued' ? [{ messageId, seq: 100 + index, emailSeq: index < 2 ? 1 : 2 }] : [],
  );
  const answer = sendAnswer(mail.from, recipients);
  const result: AcceptanceResult = { stored: true, answer, recipients, leased, unkeptBlobKeys: unkept };
  return { mail, result };
}

test('results arrive as they were given', () => {
  for (const { mail, result } of [
    resultOf(['queued'], false),
    resultOf(['queued', 'suppressed', 'queued', 'queued'], true),
    resultOf(['scheduled', 'suppressed', 'scheduled'], false),
    resultOf(['suppressed', 'suppressed', 'suppressed'], false, ['ab/1', 'ab/2']),
    { mail: plain, result: notStored() },
  ]) {
    assert.deepEqual(acceptWire.unpackResult(structuredClone(acceptWire.packResult(result)), mail), result);
  }
});
