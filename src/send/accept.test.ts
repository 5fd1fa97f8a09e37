/** What an accepted send stores, returns, and dispatches. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { dataOf, GOOD, rowsOf, type SendRig, sendRig, testAccount } from '../../test/kit/send-rig.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { claimOperation } from '../delivery/queue/claim.ts';

let rig: SendRig;
before(async () => {
  rig = await sendRig();
});
after(() => rig.close());

interface EmailRow {
  seq: number;
  content: Uint8Array | null;
  blob_key: string | null;
  options: string;
  retain: string;
  content_until: number;
  header_message_id: string;
  header_to: string;
  header_from: string;
  envelope_from: string;
  size_bytes: number;
}

async function emailsOf(messageIds: string[]): Promise<EmailRow[]> {
  const list = messageIds.map((id) => `'${id}'`).join(',');
  return rowsOf(
    rig,
    `SELECT DISTINCT e.* FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id IN (${list}) ORDER BY e.seq`,
  );
}

const textOf = (row: EmailRow | undefined): string => Buffer.from(row!.content!).toString();

test('recipients are ordered to, cc, bcc, without duplicates, each with its own ID', async () => {
  rig.offered.length = 0;
  const data = dataOf(
    await rig.send({
      ...GOOD,
      to: ['A <a@example.com>, "B, b" <b@example.com>', 'A@EXAMPLE.com'],
      cc: ['b@Example.COM', 'c@example.com'],
      bcc: 'd@example.com, a@example.com, c@example.com',
    }),
  );
  assert.deepEqual(
    data.recipients.map(({ email, role, status }) => [email, role, status]),
    [
      ['a@example.com', 'to', 'queued'],
      ['b@example.com', 'to', 'queued'],
      ['c@example.com', 'cc', 'queued'],
      ['d@example.com', 'bcc', 'queued'],
    ],
  );
  assert.equal(new Set(data.recipients.map((one) => one.messageId)).size, 4);
  assert.equal(data.messageId, data.recipients[0]?.messageId);
  assert.equal(data.totalRecipients, 4);
  assert.equal(data.from, GOOD.from);
  const emails = await emailsOf(data.recipients.map((one) => one.messageId));
  assert.equal(emails.length, 1, 'all recipients share one email');
  const mail = textOf(emails[0]);
  assert.match(mail, /^To: A <a@example.com>, "B, b" <b@example.com>\r$/m);
  assert.match(mail, /^Cc: c@example.com\r$/m);
  assert.doesNotMatch(mail, /d@example.com|^Bcc/m);
  assert.match(emails[0]!.header_message_id, /@verified\.example>$/);
  assert.equal(data.headerMessageId, emails[0]!.header_message_id);
  assert.equal(emails[0]!.envelope_from, 'shop@verified.example');
  assert.deepEqual(
    rig.offered.map((job) => job.recipient),
    data.recipients.map((one) => one.email),
  );
});

test('accepts up to 50 recipients, excluding duplicates', async () => {
  const to = Array.from({ length: 50 }, (_, i) => `r${i}@example.com`);
  assert.equal(dataOf(await rig.send({ ...GOOD, to, cc: to })).totalRecipients, 50);
});

test('a dispatched job equals the one that a claim reads', async () => {
  rig.offered.length = 0;
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const origin = { clientAddress: '192.0.2.7', traceparent };
  const body = { ...GOOD, to: 'x@EXAMPLE.com', requireTls: true, expiresAfterSeconds: 600, tags: ['order'] };
  const data = dataOf(await rig.send(body, { origin }));
  const [dispatched] = rig.offered;
  const [row] = await rowsOf<{ seq: number; fence: number; lane: string; due: number; leased: number }>(
    rig,
    `SELECT seq, fence, lane, due, leased FROM work WHERE subject = '${data.messageId}'`,
  );
  const nowMs = rig.clock.now();
  assert.deepEqual(row && { ...row }, {
    seq: dispatched!.seq,
    fence: dispatched!.fence,
    lane: 'acc_test/example.com',
    due: nowMs + 60_000,
    leased: 1,
  });
  assert.equal(dispatched!.messageId, data.messageId);
  assert.equal(dispatched!.expiresAt, nowMs + 600_000);
  assert.equal(dispatched!.options.requireTls, true);

  // Its lease ends without a result.
  const limits = { nowMs: nowMs + 60_001, leaseMs: 60_000, limit: 1_000, quarantined: false };
  const { jobs } = await rig.database.execute(claimOperation, limits);
  const claimed = jobs.find(({ messageId }) => messageId === data.messageId);
  const [email] = await emailsOf([data.messageId]);
  const { fence, crashes, contentDigest, ...read } = claimed!;
  assert.ok(fence > dispatched!.fence && crashes > dispatched!.crashes && contentDigest);
  const { fence: _fence, crashes: _crashes, clockOffsetMs, ...offered } = dispatched!;
  assert.equal(clockOffsetMs, 0);
  const comparable = (job: typeof offered) => ({ ...job, content: Buffer.from(job.content!) });
  assert.deepEqual(comparable(offered), comparable(read));
  assert.equal(offered.traceparent, traceparent);
  assert.equal(email!.size_bytes, email!.content!.length);
});

test('without capacity nothing is leased or dispatched', async () => {
  const full = await sendRig({
    directDispatch: { hasCapacity: () => false, dispatch: () => assert.fail('the message was offered') },
  });
  try {
    const data = dataOf(await full.send(GOOD));
    const [work] = await rowsOf<{ leased: number; due: number }>(full, 'SELECT leased, due FROM work');
    assert.deepEqual(work && { ...work }, { leased: 0, due: full.clock.now() });
    assert.equal(data.status, 'queued');
  } finally {
    await full.close();
  }
});

test('sendAt schedules a message, and a time in the past sends it immediately', async () => {
  rig.offered.length = 0;
  const sendAt = new Date(rig.clock.now() + 3_600_000).toISOString();
  const later = dataOf(await rig.send({ ...GOOD, sendAt, expiresAfterSeconds: 60 }));
  assert.equal(later.status, 'scheduled');
  assert.equal(rig.offered.length, 0);
  const [row] = await rowsOf<{ send_at: number; expires_at: number; content: Uint8Array }>(
    rig,
    `SELECT send_at, expires_at, content FROM message JOIN email ON email.seq = email_seq WHERE id = '${later.messageId}'`,
  );
  const { content, ...times } = row!;
  assert.deepEqual({ ...times }, { send_at: Date.parse(sendAt), expires_at: Date.parse(sendAt) + 60_000 });
  const [, date = ''] = /^Date: (.*)\r$/m.exec(Buffer.from(content).toString()) ?? [];
  assert.equal(Date.parse(date), Date.parse(sendAt));
  for (const past of ['2020-01-01T00:00:00Z', '2016-12-31T23:59:60Z']) {
    assert.equal(dataOf(await rig.send({ ...GOOD, sendAt: past })).status, 'queued');
  }
  assert.equal(dataOf(await rig.send({ ...GOOD, sendAt: '2026-11-30T23:59:60Z' })).status, 'scheduled');
});

test("the request's content retention overrides the account's", async () => {
  const day = 86_400_000;
  const account = testAccount('acc_test', { retainContent: '7d' });
  for (const [body, retain, days] of [
    [GOOD, '7d', 7],
    [{ ...GOOD, retainContent: '30d' }, '30d', 30],
    [{ ...GOOD, retainContent: 'none' }, 'none', 30],
  ] as const) {
    const [email] = await emailsOf([dataOf(await rig.send(body, { account })).messageId]);
    assert.equal(email!.retain, retain);
    assert.equal(email!.content_until, rig.clock.now() + days * day);
  }
});

test('content without retention is not stored if every copy is settled immediately', async () => {
  const content = Buffer.alloc(100_000, 7).toString('base64');
  const attachments = [{ name: 'a.dat', contentType: 'application/octet-stream', content }];
  const put: string[] = [];
  const { blobs } = rig.dependencies;
  const own = await sendRig({
    database: rig.database,
    blobs: {
      ...blobs,
      put: async (bytes) => {
        const key = await blobs.put(bytes);
        put.push(key);
        return key;
      },
    },
  });
  try {
    for (const [change, to, isKept] of [
      [{}, ['suppressed@example.com', 'suppressed+1@example.com'], false],
      [{ attachments }, ['suppressed@example.com'], false],
      [{ attachments }, ['suppressed@example.com', 'b@example.com'], true],
      [{ attachments, retainContent: '7d' }, ['suppressed@example.com'], true],
    ] as const) {
      put.length = 0;
      const body = { ...GOOD, retainContent: 'none', ...change, to };
      const [email] = await emailsOf([dataOf(await own.send(body, { mode: 'sandbox' })).messageId]);
      const hasContent = email!.content !== null || email!.blob_key !== null;
      assert.deepEqual([hasContent, email!.content_until !== null], [isKept, isKept]);
      assert.equal(put.length, 'attachments' in change ? 1 : 0);
      for (const key of put)
        await waitUntil(
          'the blob to be kept or deleted',
          async () => ((await blobs.get(key)) !== undefined) === isKept,
        );
    }
  } finally {
    await own.close();
  }
});

test('Base64 attachments can contain MIME line breaks', async () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  for (const end of ['\r\n', '\n']) {
    const content = bytes.toString('base64').replace(/.{76}/g, `$&${end}`) + end;
    const attachments = [{ name: 'a.dat', contentType: 'application/octet-stream', content }];
    const [email] = await emailsOf([dataOf(await rig.send({ ...GOOD, attachments })).messageId]);
    assert.ok(textOf(email).replaceAll('\r\n', '').includes(bytes.toString('base64')));
  }
});

test('a Reply-To in headers is treated as replyTo', async () => {
  const headers = { 'reply-to': 'Desk <desk@example.com>, b@example.com' };
  const [email] = await emailsOf([dataOf(await rig.send({ ...GOOD, headers })).messageId]);
  assert.deepEqual(textOf(email).match(/^reply-to:.*$/gim), ['Reply-To: Desk <desk@example.com>, b@example.com']);
});

test('limits count characters, not UTF-16 units', async () => {
  const subject = '\u{1f4e6}'.repeat(998);
  const metadata = { ['\u{1f4e6}'.repeat(255)]: 'v'.repeat(10_000) };
  const data = dataOf(await rig.send({ ...GOOD, subject, metadata }));
  const sql = `SELECT e.subject, e.metadata FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = '${data.messageId}'`;
  const [row] = await rowsOf<{ subject: string; metadata: string }>(rig, sql);
  assert.equal(row!.subject, subject);
  assert.deepEqual(JSON.parse(row!.metadata), metadata);
});

test('values of metadata can have line breaks and other control characters, and reach no header', async () => {
  const metadata = { note: 'first line\r\nX-Injected: 1\n\tthird\u0007', empty: '' };
  const { messageId } = dataOf(await rig.send({ ...GOOD, metadata }));
  const sql = `SELECT e.metadata FROM email e JOIN message m ON m.email_seq = e.seq WHERE m.id = '${messageId}'`;
  const [row] = await rowsOf<{ metadata: string }>(rig, sql);
  assert.deepEqual(JSON.parse(row!.metadata), metadata);
  const [email] = await emailsOf([messageId]);
  assert.doesNotMatch(textOf(email), /Injected|third/);
});

test('large content is stored in a blob and synced before the row', async () => {
  const content = Buffer.alloc(100_000, 7).toString('base64');
  const data = dataOf(
    await rig.send({ ...GOOD, attachments: [{ name: 'a.bin', contentType: 'application/octet-stream', content }] }),
  );
  const [email] = await emailsOf([data.messageId]);
  assert.equal(email!.content, null);
  const blob = await rig.dependencies.blobs.get(email!.blob_key!);
  assert.equal(blob!.length, email!.size_bytes);
  assert.match(blob!.toString('latin1'), /filename="a.bin"/);
});

test('display names in encoded-words are encoded once, and displayed and stored decoded', async () => {
  const name = '=?UTF-8?Q?Caf=C3=A9?=';
  const domain = 'verified.example';
  const data = dataOf(
    await rig.send({
      ...GOOD,
      from: `${name} <a@${domain}>`,
      to: [`${name} <a@example.com>`],
      cc: `"${name}" <b@example.com>`,
      replyTo: `${name} <r@example.com>`,
    }),
  );
  const [row] = await emailsOf([data.messageId]);
  const fields = textOf(row).split('\r\n').slice(0, 4);
  assert.deepEqual(fields, [
    `From: =?UTF-8?B?Q2Fmw6k=?= <a@${domain}>`,
    'To: =?UTF-8?B?Q2Fmw6k=?= <a@example.com>',
    // Quoted text is not an encoded-word.
    `Cc: =?UTF-8?B?${Buffer.from(name).toString('base64')}?= <b@example.com>`,
    'Reply-To: =?UTF-8?B?Q2Fmw6k=?= <r@example.com>',
  ]);
  assert.match(row!.header_to, /"Café <a@example\.com>"/);
  assert.equal(row!.header_from, `Café <a@${domain}>`);
});

test('internationalized addresses are accepted', async () => {
  const data = dataOf(
    await rig.send({
      ...GOOD,
      to: ['müller@bücher.example', 'info@bücher.example'],
      from: 'Größe <a@verified.example>',
    }),
  );
  assert.deepEqual(
    data.recipients.map((one) => one.email),
    ['müller@bücher.example', 'info@bücher.example'],
  );
  const [email] = await emailsOf([data.messageId]);
  const options = JSON.parse(email!.options) as { smtpUtf8: boolean; eightBit: boolean };
  assert.deepEqual([options.smtpUtf8, options.eightBit], [true, true]);
  const lanes = await rowsOf<{ lane: string }>(
    rig,
    `SELECT lane FROM work WHERE subject IN ('${data.recipients.map((one) => one.messageId).join("','")}')`,
  );
  assert.deepEqual(new Set(lanes.map((row) => row.lane)), new Set(['acc_test/xn--bcher-kva.example']));
});

test('each recipient gets its own unsubscribe link in a separate email', async () => {
  const to = ['a@example.com', 'b@example.com'];
  const html = '<p>{{ unsubscribe_email_html }}</p>';
  const data = dataOf(await rig.send({ ...GOOD, text: undefined, html, to }));
  const emails = await emailsOf(data.recipients.map((one) => one.messageId));
  assert.equal(emails.length, 2);
  assert.equal(emails[0]!.header_message_id, emails[1]!.header_message_id);
  for (const [index, email] of emails.entries()) {
    const mail = textOf(email).replace(/=\r\n/g, '').replace(/=3D/g, '=');
    assert.match(mail, /^To: a@example.com, b@example.com\r$/m);
    const token = /href="https:\/\/mail\.test\/unsubscribe\/([^"]+)"/.exec(mail)?.[1];
    const { messageId, email: recipient } = data.recipients[index]!;
    assert.deepEqual(rig.unsubscribeLinks.open(token!), { accountId: 'acc_test', mode: 'live', messageId, recipient });
    const forged = token!.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
    assert.equal(rig.unsubscribeLinks.open(forged), undefined);
  }
  const own = { ...GOOD, html, to, templateVariables: { unsubscribe_email_html: '<a href="https://own.test">x</a>' } };
  assert.equal((await emailsOf(dataOf(await rig.send(own)).recipients.map((one) => one.messageId))).length, 1);
});

test('account variables are empty until they are set', async () => {
  const html = '<p>[{{ company_address_html }}{{ report_abuse_email_html }}]</p>';
  const [empty] = await emailsOf([dataOf(await rig.send({ ...GOOD, html })).messageId]);
  assert.match(textOf(empty), /<p>\[\]<\/p>/);
  const account = testAccount('acc_test', { variables: { company_address_html: '<b>1 Main St</b>' } });
  const [set] = await emailsOf([dataOf(await rig.send({ ...GOOD, html }, { account })).messageId]);
  assert.match(textOf(set), /<p>\[<b>1 Main St<\/b>\]<\/p>/);
});

test('the sandbox outcome is set by header or local part, and the header is never sent', async () => {
  rig.offered.length = 0;
  const to = ['suppressed+x@example.com', 'a@example.com'];
  const byName = dataOf(await rig.send({ ...GOOD, to }, { mode: 'sandbox' }));
  assert.deepEqual(
    byName.recipients.map((one) => one.status),
    ['suppressed', 'queued'],
  );
  assert.equal(byName.status, 'queued');
  assert.equal(rig.offered[0]?.lane, 'acc_test/sandbox');
  const headers = { 'X-Sandbox-Outcome': '452 4.2.2 mailbox full', 'X-Keep': 'yes' };
  const byHeader = dataOf(await rig.send({ ...GOOD, to, headers }, { mode: 'sandbox' }));
  assert.deepEqual(
    byHeader.recipients.map((one) => one.status),
    ['queued', 'queued'],
  );
  const [email] = await emailsOf([byHeader.messageId]);
  assert.equal((JSON.parse(email!.options) as { sandboxOutcome: string }).sandboxOutcome, '452 4.2.2 mailbox full');
  assert.match(textOf(email), /^X-Keep: yes\r$/m);
  assert.doesNotMatch(textOf(email), /X-Sandbox-Outcome/i);
  const all = dataOf(await rig.send({ ...GOOD, headers: { 'x-sandbox-outcome': 'suppressed' } }, { mode: 'sandbox' }));
  assert.equal(all.status, 'suppressed');
  const bad = await rig.send({ ...GOOD, headers: { 'X-Sandbox-Outcome': 'exploded' } }, { mode: 'sandbox' });
  assert.equal(!bad.ok && bad.failure.details[0]?.field, 'headers.X-Sandbox-Outcome');
  const live = dataOf(await rig.send({ ...GOOD, headers: { 'X-Sandbox-Outcome': 'bounced', 'TLS-Required': 'No' } }));
  const [liveEmail] = await emailsOf([live.messageId]);
  assert.equal((JSON.parse(liveEmail!.options) as { tlsOptional?: true }).tlsOptional, true);
  assert.equal((JSON.parse(email!.options) as { tlsOptional?: true }).tlsOptional, undefined);
  assert.doesNotMatch(textOf(liveEmail), /X-Sandbox-Outcome/i);
  assert.equal((JSON.parse(liveEmail!.options) as { sandboxOutcome?: string }).sandboxOutcome, undefined);
});
