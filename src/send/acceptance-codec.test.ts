/** An acceptance is the same on both sides of the storage thread. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptance } from '../../test/kit/seed-mail.ts';
import { PackedBytes, UnpackedBytes } from '../storage/operation.ts';
import { type Acceptance, acceptanceCodec } from './acceptance.ts';

function across(mails: readonly Acceptance[]): Acceptance[] {
  const bytes = new PackedBytes();
  const packed = mails.map((mail) => JSON.stringify(acceptanceCodec.pack(mail, bytes)));
  const carried = new UnpackedBytes(bytes.joined());
  return packed.map((one) => acceptanceCodec.unpack(JSON.parse(one), carried));
}

function comparable({ emails, idempotency, ...rest }: Acceptance): unknown {
  return {
    ...rest,
    emails: emails.map((email) => ({
      ...email,
      content: email.content && Buffer.from(email.content).toString('hex'),
    })),
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
        addressHash: 'a-b_c',
        simulateSuppressed: true,
        dsn: '{"notify":["failure"]}',
      })),
    },
    { ...plain.emails[0]!, content: null, blobKey: 'ab/cd' },
  ],
};

test('grouped arguments are decoded unchanged', () => {
  const mails = [plain, rich, { ...plain, emails: [{ ...plain.emails[0]!, content: Buffer.alloc(0) }] }];
  assert.deepEqual(across(mails).map(comparable), mails.map(comparable));
});
