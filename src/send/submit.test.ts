/** Turning submissions into messages, independent of the protocol. */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { rowsOf, type SendRig, sendRig, settle, testAccount } from '../../test/kit/send-rig.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { errorCatalog, Unavailable } from '../base/failure.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import type { SubmittedMail } from '../mail/mime/submitted.ts';
import { createSubmit, type Submission, type Submit } from './submit.ts';

let rig: SendRig;
let submit: Submit;
before(async () => {
  rig = await sendRig();
  submit = createSubmit(rig.dependencies);
});
after(() => rig.close());

function address(text: string): Address {
  const parsed = parseAddress(text);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const CONTENT = Buffer.from('From: shop@verified.example\r\n\r\nHello\r\n');

function submission(change: Partial<Submission> & { to?: string[]; header?: Partial<SubmittedMail> } = {}): Submission {
  const { to = ['ann@example.com'], header, ...rest } = change;
  const mail: SubmittedMail = {
    from: address('shop@verified.example'),
    sender: undefined,
    fromText: 'Shop <shop@verified.example>',
    headerTo: { to: [], cc: [] },
    subject: 'Hello',
    headerMessageId: '<1@verified.example>',
    tags: [],
    metadata: {},
    track: { opens: false, clicks: false },
    idempotencyKey: undefined,
    sandboxOutcome: undefined,
    smtpUtf8: false,
    utf8Field: undefined,
    tlsOptional: false,
    eightBit: false,
    sizeBytes: CONTENT.length,
    ...header,
  };
  return {
    caller: { account: rig.account, mode: 'live', allowedSenders: [] },
    nowMs: rig.clock.now(),
    envelopeFrom: address('bounces@verified.example'),
    recipients: to.map(address),
    mail,
    content: CONTENT,
    digest: () => CONTENT,
    origin: {},
    receivedFrom: 'client.example ([192.0.2.1])',
    ...rest,
  };
}

async function idOf(one: Submission): Promise<string> {
  const result = await submit.submit(one);
  if (!result.ok) throw new Error(JSON.stringify(result.failure));
  return result.value.messageId;
}

async function blobCount(): Promise<number> {
  let count = 0;
  for await (const _ of rig.dependencies.blobs.list()) count += 1;
  return count;
}

test('the envelope determines the recipients, the header only their roles', async () => {
  const before = rig.offered.length;
  const header = {
    headerTo: { to: ['Ann <ANN@example.com>', 'nobody@example.com'], cc: ['"Carl, C." <carl@example.com>'] },
    tags: ['t1'],
    metadata: { order: '17' },
    eightBit: true,
  };
  const id = await idOf(submission({ to: ['bob@example.com', 'ann@example.com', 'carl@example.com'], header }));
  const jobs = rig.offered.slice(before);
  assert.deepEqual(
    jobs.map((job) => job.recipient),
    ['bob@example.com', 'ann@example.com', 'carl@example.com'],
  );
  assert.equal(id, jobs[0]!.messageId);
  const rows = await rowsOf<{ id: string; role: string }>(rig, 'SELECT id, role FROM message');
  const roles = new Map(rows.map((row) => [row.id, row.role]));
  assert.deepEqual(
    jobs.map((job) => roles.get(job.messageId)),
    ['bcc', 'to', 'cc'],
  );
  const [email] = await rowsOf<Record<string, unknown>>(rig, `SELECT * FROM email WHERE seq = ${jobs[0]!.emailSeq}`);
  assert.equal(email!.source, 'smtp');
  assert.equal(email!.envelope_from, 'bounces@verified.example');
  assert.equal(email!.header_from, 'Shop <shop@verified.example>');
  assert.equal(email!.tags, '["t1"]');
  assert.equal(email!.metadata, '{"order":"17"}');
  assert.equal(email!.retain, '30d');
  assert.deepEqual(jobs[0]!.options, {
    requireTls: false,
    smtpUtf8: false,
    eightBit: true,
    expiresAfterSeconds: 259_200,
    receivedFrom: 'client.example ([192.0.2.1])',
  });
});

test('keeps content as long as the account specifies', async () => {
  const account = testAccount('acc_test', { retainContent: 'none' });
  await idOf(submission({ caller: { account, mode: 'live', allowedSenders: [] } }));
  const [email] = await rowsOf<{ retain: string }>(rig, 'SELECT retain FROM email ORDER BY seq DESC LIMIT 1');
  assert.equal(email!.retain, 'none');
});

test('an unverified sender is rejected, except in the sandbox', async () => {
  const foreign = { from: address('shop@foreign.example'), fromText: 'shop@foreign.example' };
  const refused = await submit.submit(submission({ header: foreign }));
  assert.ok(!refused.ok && refused.failure.code === 'SENDER_NOT_VERIFIED');
  await idOf(submission({ header: foreign, caller: { account: rig.account, mode: 'sandbox', allowedSenders: [] } }));
  const { account } = rig;
  assert.equal(
    (await submit.senderFailure({ account, mode: 'live', allowedSenders: [] }, foreign.from))?.code,
    'SENDER_NOT_VERIFIED',
  );
  assert.equal(await submit.senderFailure({ account, mode: 'sandbox', allowedSenders: [] }, foreign.from), undefined);
});

test('X-Sandbox-Outcome is applied only in the sandbox and ignored in live mode', async () => {
  const caller = { account: rig.account, mode: 'sandbox' as const, allowedSenders: [] };
  const before = rig.offered.length;
  await idOf(submission({ caller, header: { sandboxOutcome: ' Bounced ' } }));
  assert.equal(rig.offered.at(-1)!.options.sandboxOutcome, 'bounced');
  await idOf(submission({ caller, header: { sandboxOutcome: '452 4.2.2 mailbox full' } }));
  assert.equal(rig.offered.at(-1)!.options.sandboxOutcome, '452 4.2.2 mailbox full');
  const refused = await submit.submit(submission({ caller, header: { sandboxOutcome: 'explode' } }));
  assert.ok(!refused.ok && refused.failure.details[0]?.field === 'X-Sandbox-Outcome');
  await idOf(submission({ header: { sandboxOutcome: 'explode' } }));
  assert.equal(rig.offered.at(-1)!.options.sandboxOutcome, undefined);
  assert.equal(rig.offered.length - before, 3);
  // Suppressed recipients have an ID and no delivery.
  assert.match(await idOf(submission({ caller, to: ['suppressed+1@example.com'] })), /^msg_/);
  assert.match(await idOf(submission({ caller, header: { sandboxOutcome: 'suppressed' } })), /^msg_/);
  assert.equal(rig.offered.length - before, 3);
});

test('a repeated submission with the same key returns the first, and a changed one is rejected', async () => {
  const header = { idempotencyKey: 'k-1' };
  const first = await idOf(submission({ header }));
  const before = rig.offered.length;
  assert.equal(await idOf(submission({ header })), first);
  assert.equal(rig.offered.length, before);
  for (const change of [
    { digest: () => Buffer.from('other') },
    { to: ['bob@example.com'] },
    { envelopeFrom: address('other@verified.example') },
    { header: { ...header, tags: ['other'] } },
    { header: { ...header, metadata: { order: '18' } } },
    { header: { ...header, track: { opens: true, clicks: false } } },
    { hold: { forSeconds: 60 } },
    { reports: { envid: undefined, ret: 'headers' as const, recipients: new Map() } },
    { reports: { envid: undefined, ret: undefined, recipients: new Map([['ann@example.com', { notify: [] }]]) } },
  ]) {
    const refused = await submit.submit(submission({ header, ...change }));
    assert.ok(!refused.ok && refused.failure.code === 'IDEMPOTENCY_KEY_REUSED');
  }
  const reports = { envid: '1', ret: 'full' as const, recipients: new Map() };
  const reported = await idOf(submission({ header: { idempotencyKey: 'k-3' }, reports }));
  const again = submission({ header: { idempotencyKey: 'k-3' }, reports: { ...reports, envid: '2' } });
  assert.equal(await idOf(again), reported, 'ENVID can be new for each attempt');
  const sandboxed = await idOf(
    submission({ header, caller: { account: rig.account, mode: 'sandbox', allowedSenders: [] } }),
  );
  assert.notEqual(sandboxed, first);
  const both = await Promise.all([1, 2, 3].map(() => idOf(submission({ header: { idempotencyKey: 'k-2' } }))));
  assert.equal(new Set(both).size, 1, 'submissions during the first one wait for it');
  const long = await submit.submit(submission({ header: { idempotencyKey: 'k'.repeat(256) } }));
  assert.ok(!long.ok && long.failure.details[0]?.field === 'Idempotency-Key');
  rig.clock.advance(86_400_000);
  await settle(rig, first, { to: 'delivered' });
  assert.notEqual(await idOf(submission({ header })), first);
});

test('a held message is scheduled, and its lifetime starts at its release', async () => {
  const nowMs = rig.clock.now();
  const held = async (change: Partial<Submission>) => {
    const before = rig.offered.length;
    const id = await idOf(submission(change));
    const sql = `SELECT status, send_at AS "sendAt", expires_at AS "expiresAt" FROM message WHERE id = '${id}'`;
    const [row] = await rowsOf<{ status: string; sendAt: number | null; expiresAt: number }>(rig, sql);
    return { ...row!, offered: rig.offered.length - before };
  };
  const inAnHour = nowMs + 3_600_000;
  const scheduled = { status: 'scheduled', sendAt: inAnHour, expiresAt: inAnHour + 259_200_000, offered: 0 };
  assert.deepEqual(await held({ hold: { forSeconds: 3_600 } }), scheduled);
  assert.deepEqual(await held({ hold: { untilMs: inAnHour } }), scheduled);
  const past = await held({ hold: { untilMs: nowMs - 1 } });
  assert.deepEqual([past.status, past.sendAt, past.offered], ['queued', null, 1]);
  const key = { header: { idempotencyKey: 'held twice' }, hold: { forSeconds: 60 } };
  assert.equal(await idOf(submission(key)), await idOf(submission({ ...key, nowMs: nowMs + 30_000 })));
});

test('a submission whose key stays in use gets a temporary error and stores nothing', async () => {
  const inFlight = { take: () => false, release: () => undefined };
  const held = createSubmit({ ...rig.dependencies, inFlight, waitForFirstMs: 120 });
  const before = await blobCount();
  const content = { blobKey: await rig.dependencies.blobs.put(Buffer.alloc(70_000)), sizeBytes: 70_000 };
  const [began, ranMs] = [performance.now(), runningMs()];
  const refused = await held.submit(submission({ content, header: { idempotencyKey: 'held' } }));
  assert.ok(!refused.ok && errorCatalog[refused.failure.code].smtp === '451 4.3.2');
  const tookMs = performance.now() - began;
  assert.ok(tookMs > 100 && runningMs() - ranMs < 1_000, `${tookMs} ms`);
  await waitUntil('the blob to be removed', async () => (await blobCount()) === before);
});

test('stored content is referenced without a copy, and unused content is deleted', async () => {
  const { blobs } = rig.dependencies;
  const put = async (): Promise<{ blobKey: string; sizeBytes: number }> => ({
    blobKey: await blobs.put(Buffer.alloc(70_000, 0x61)),
    sizeBytes: 70_000,
  });
  const before = await blobCount();
  const content = await put();
  await idOf(submission({ content, header: { idempotencyKey: 'blob' } }));
  const job = rig.offered.at(-1)!;
  assert.deepEqual([job.blobKey, job.content, job.sizeBytes], [content.blobKey, null, 70_000]);
  const leftAlone = async (what: string): Promise<void> => {
    await waitUntil(what, async () => (await blobCount()) === before + 1);
  };
  await leftAlone('nothing else');
  await idOf(submission({ content: await put(), header: { idempotencyKey: 'blob' } }));
  await leftAlone('the copy of a repeated submission to go');
  await submit.submit(
    submission({ content: await put(), header: { idempotencyKey: 'blob' }, to: ['bob@example.com'] }),
  );
  await leftAlone('that of a key used again to go');
  await submit.submit(submission({ content: await put(), header: { from: address('x@foreign.example') } }));
  await leftAlone('that of a refused sender to go');
  await submit.submit(submission({ content: await put(), header: { idempotencyKey: '' } }));
  await leftAlone('that of refused orders to go');
  const account = testAccount('acc_test', { retainContent: 'none' });
  const caller = { account, mode: 'sandbox' as const, allowedSenders: [] };
  await idOf(submission({ content: await put(), to: ['suppressed@example.com'], caller }));
  await leftAlone('that of mail which is neither sent nor kept to go');
  assert.ok(await blobs.get(content.blobKey));
});

const TRACK = { opens: true, clicks: true };

function htmlMail(html: string): Buffer {
  const header = 'From: shop@verified.example\r\nMIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n';
  return Buffer.from(`${header}${html}\r\n`);
}

test('tracking gives each recipient a copy with its own links and pixel', async () => {
  const before = rig.offered.length;
  const content = htmlMail('<a href="https://shop.test/?a=1&amp;b">x</a>');
  const to = ['ann@example.com', 'bob@example.com', 'carl@example.com'];
  const id = await idOf(submission({ to, content, header: { track: TRACK } }));
  const jobs = rig.offered.slice(before);
  assert.equal(jobs[0]!.messageId, id);
  assert.deepEqual(
    jobs.map((job) => job.recipient),
    to,
  );
  for (const job of jobs) {
    assert.equal(job.sizeBytes, job.content!.length);
    const tokens = [...job.content!.toString().matchAll(/https:&?[^"]*\/t\/([\w.-]+)/g)].map((found) => found[1]!);
    assert.deepEqual(
      tokens.map((token) => rig.trackingLinks.open(token)),
      [
        {
          kind: 'click',
          url: 'https://shop.test/?a=1&b',
          accountId: 'acc_test',
          mode: 'live',
          messageId: job.messageId,
        },
        { kind: 'open', accountId: 'acc_test', mode: 'live', messageId: job.messageId },
      ],
    );
  }
  const emails = await rowsOf<{ n: number }>(
    rig,
    `SELECT count(DISTINCT email_seq) AS n FROM message WHERE id IN (${jobs.map((job) => `'${job.messageId}'`).join()})`,
  );
  assert.equal(emails[0]!.n, 3);
});

test('recipients share one email if nothing is tracked', async () => {
  const before = rig.offered.length;
  const to = ['ann@example.com', 'bob@example.com'];
  await idOf(submission({ to, header: { track: TRACK } }));
  const content = htmlMail('<a href="mailto:a@b.test">x</a>');
  await idOf(submission({ to, content, header: { track: { opens: false, clicks: true } } }));
  const jobs = rig.offered.slice(before);
  assert.equal(new Set(jobs.map((job) => job.emailSeq)).size, 2);
  assert.deepEqual(jobs[0]!.content, CONTENT);
  assert.equal(jobs[1]!.content, jobs[0]!.content, 'one buffer for all');
  assert.equal(jobs[0]!.content!.buffer.byteLength, CONTENT.length, 'without other data in its memory');
});

test('each tracked copy has a blob, and the submitted blob is deleted', async () => {
  const { blobs } = rig.dependencies;
  const put = async (html: string) => {
    const bytes = htmlMail(html);
    return { blobKey: await blobs.put(bytes), sizeBytes: bytes.length };
  };
  const before = await blobCount();
  const settled = (count: number): Promise<unknown> =>
    waitUntil(`${count} more blobs`, async () => (await blobCount()) === before + count);
  const filler = 'x'.repeat(100);
  const html = `<a href="https://shop.test/">${`${filler}\r\n`.repeat(700)}</a>`;
  const to = ['ann@example.com', 'bob@example.com'];
  const from = rig.offered.length;
  await idOf(submission({ to, content: await put(html), header: { track: TRACK, idempotencyKey: 'tracked' } }));
  await settled(2);
  for (const job of rig.offered.slice(from)) {
    const copy = await blobs.get(job.blobKey!);
    assert.ok(job.content === null && job.sizeBytes === copy!.length && copy!.includes('https://mail.test/t/'));
  }
  await idOf(submission({ to, content: await put(html), header: { track: TRACK, idempotencyKey: 'tracked' } }));
  await settled(2);
  // The total size of all copies is unlimited.
  const crowd = Array.from({ length: 25 }, (_, i) => `r${i}@example.com`);
  const huge = await put(`<p>${`${filler}\r\n`.repeat(18_000)}`);
  await idOf(submission({ to: crowd, content: huge, header: { track: TRACK } }));
  await settled(27);
  const links = await put('<a href=http://a.test>\r\n'.repeat(5_001));
  const many = await submit.submit(submission({ content: links, header: { track: TRACK } }));
  assert.ok(!many.ok && many.failure.details[0]?.field === 'X-Postrider-Track');
  await settled(27);
  const opened = await put('<a href=http://a.test>\r\n'.repeat(5_001));
  await idOf(submission({ content: opened, header: { track: { opens: true, clicks: false } } }));
  await settled(28);
});

test('the blob of a rejected message is deleted, unless a row may reference it', async () => {
  const { blobs } = rig.dependencies;
  const content = async () => ({ blobKey: await blobs.put(Buffer.alloc(70_000, 0x61)), sizeBytes: 70_000 });
  const down = () => Promise.reject(new Unavailable('down'));
  const before = await blobCount();
  const unverified = createSubmit({ ...rig.dependencies, isVerified: down });
  await assert.rejects(unverified.submit(submission({ content: await content() })), Unavailable);
  await waitUntil('the blob to be removed', async () => (await blobCount()) === before);
  // The reply to a commit can be lost although it succeeded.
  const database = { ...rig.database, execute: down } as unknown as typeof rig.database;
  const lost = createSubmit({ ...rig.dependencies, database });
  const kept = await content();
  await assert.rejects(lost.submit(submission({ content: kept })), Unavailable);
  await assert.rejects(unverified.submit(submission({ content: await content() })), Unavailable);
  await waitUntil('a later blob to be removed', async () => (await blobCount()) === before + 1);
  assert.ok(await blobs.get(kept.blobKey));
});
