/**
 * Messages of the maximum size of the inbound port, through the entire service: stored byte for byte, their files as links, in bounded
 * memory. One byte more, declared or not, is rejected, and nothing is stored. Reports may be twice as large, and little of them is stored.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { newId } from '../../src/base/ids.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { JsonObject } from '../kit/api.ts';
import { bounceAddresses, tokenAddress } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { openInbound } from '../kit/inbound-rig.ts';
import { mailOfSize, stuffed } from '../kit/mail-of-size.ts';
import { returning } from '../kit/report-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MOST = 25_000_000;
const MOST_OF_A_REPORT = 50_000_000;
/** 2 GB in total. */
const REPORTS = 40;
const TO = 'support@in.shop.example';
const AT_ONCE = 4;
/** Measured: 55 MB while four are received, and 90 MB while they are processed, two at a time. */
const MOST_GROWTH_MB = 200;

let sink: SmtpSink;
let dns: FakeDns;
let service: Service;
before(async () => {
  [dns, sink] = await Promise.all([fakeDns(), smtpSink()]);
  service = await startService({
    env: { ...bounceAddresses, POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_DNS_SERVERS: dns.server },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  assert.equal((await service.api.post('/inbound-routes', { match: TO })).status, 201);
});
after(async () => {
  await service?.close();
  await Promise.all([sink?.close(), dns?.close()]);
});

/** Ids of messages to ann@example.com that were delivered. */
async function deliveredMessages(count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i += 1) {
    const mail = { from: 'shop@shop.example', to: 'ann@example.com', subject: 'Your order', text: 'Thank you' };
    ids.push((await service.api.post('/send', mail)).body.data.messageId);
  }
  await waitUntil('the deliveries', async () => {
    const { body } = await service.api.get('/messages?status=delivered&limit=100');
    return (body as unknown as JsonObject[]).length >= count;
  });
  return ids;
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Memory of the process, in MB; the peak is counted from the last reset. */
const memory = (what: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) / 1_000;
const resetPeak = (): void => writeFileSync(`/proc/${service.pid}/clear_refs`, '5');

const listed = async (): Promise<JsonObject[]> =>
  (await service.api.get('/inbound?limit=100')).body as unknown as JsonObject[];
/** The stored rows and files. */
function kept(): { mails: number; files: number } {
  const { databaseFile, blobsFolder } = dataDirectory(service.dataDir);
  const database = new DatabaseSync(databaseFile, { readOnly: true });
  const { n: mails } = database.prepare('SELECT count(*) AS n FROM inbound_mail').get() as { n: number };
  database.close();
  const all = readdirSync(blobsFolder, { recursive: true, withFileTypes: true });
  return { mails, files: all.filter((entry) => entry.isFile() && !entry.name.startsWith('mark')).length };
}

/** The reply to the dot, or the first rejection. */
async function bring(
  to: string,
  content: Buffer,
  { size, localAddress }: { size?: number; localAddress?: string } = {},
): Promise<string> {
  const talker = await openInbound(service.inboundPort, localAddress);
  const declared = size === undefined ? '' : ` SIZE=${size}`;
  for (const line of [`MAIL FROM:<ann@mx.example>${declared}`, `RCPT TO:<${to}>`, 'DATA']) {
    const reply = await talker.say(line);
    if (/^[23]/.test(reply)) continue;
    talker.destroy();
    return `${line.slice(0, 4)} ${reply}`;
  }
  // Sent without dot stuffing, since no line starts with a dot: a copy per session would fill the memory of the test.
  if (content.includes('\r\n.')) talker.send(stuffed(content));
  else for (const piece of [content, '.\r\n']) talker.send(piece);
  const reply = await talker.reply(60_000);
  assert.match(await talker.say('NOOP'), /^250/, 'the session continues');
  talker.destroy();
  return reply;
}

async function bytesOf(url: string): Promise<Buffer> {
  const answer = await fetch(url);
  assert.equal(answer.status, 200);
  return Buffer.from(await answer.arrayBuffer());
}

test('stores the largest message byte for byte, streams its files, and keeps memory bounded', async (t) => {
  const mails = Array.from({ length: AT_ONCE }, (_, index) => mailOfSize(MOST, `large ${index}`));
  for (const { content } of mails) assert.equal(content.length, MOST);
  const baseMb = memory('VmRSS');
  resetPeak();
  const replies = await Promise.all(mails.map(({ content }) => bring(TO, content, { size: MOST })));
  const receivedMb = memory('VmHWM') - baseMb;
  for (const reply of replies) assert.match(reply, /^250 2\.0\.0 queued as inb_/);
  const events = await waitUntil(
    'the events',
    async () => {
      const { body } = await service.api.get('/events?eventType=Inbound');
      const all = body as unknown as JsonObject[];
      return all.length === AT_ONCE && all;
    },
    60_000,
  );
  const readMb = memory('VmHWM') - baseMb;
  for (const { subject, inbound } of events) {
    const { content, files } = mails[Number(subject.split(' ')[1])]!;
    assert.deepEqual([inbound.sizeBytes, inbound.unreadable], [MOST, []]);
    assert.equal(inbound.headers[0].name, 'Return-Path', 'nothing is prepended');
    assert.equal(inbound.text.replaceAll('\r\n', '\n').trim(), 'Grüße\n.\n..two\n...three');
    assert.equal(digest(await bytesOf(inbound.rawUrl)), digest(content));
    assert.deepEqual(
      inbound.attachments.map(({ name, sizeBytes }: JsonObject) => [name, sizeBytes]),
      [
        ['large.zip', files[0].length],
        ['rest.bin', files[1].length],
      ],
    );
    for (const [index, { url }] of (inbound.attachments as JsonObject[]).entries())
      assert.equal(digest(await bytesOf(url)), digest(files[index]!), `file ${index}`);
  }
  const shown = await service.api.call({ method: 'GET', path: `/inbound/${events[0]!.messageId}/content` });
  assert.equal(shown.status, 200);
  const allMb = memory('VmHWM') - baseMb;
  t.diagnostic(`growth in MB: ${receivedMb} until all were taken, ${readMb} until all were read, ${allMb} at most`);
  assert.ok(allMb < MOST_GROWTH_MB, `${allMb} MB`);
});

test('rejects one byte more, declared or not, and stores nothing', async () => {
  const before = kept();
  const { length } = await listed();
  const { content } = mailOfSize(MOST + 1);
  assert.match(
    await bring(TO, content, { size: MOST + 1 }),
    /^RCPT 552 5\.3\.4 message exceeds the maximum size of 25000000 bytes/,
  );
  assert.match(await bring(TO, content), /^552 5\.3\.4 message exceeds the maximum size of 25000000 bytes/);
  assert.match(await bring(TO, content, { size: MOST }), /^552 5\.3\.4/, 'nor with a false size');
  await waitUntil('the partial content to be deleted', () => kept().files === before.files);
  assert.deepEqual(kept(), before);
  assert.equal((await listed()).length, length);
});

test('concurrent 50 MB reports use as much memory as small ones, and each creates its event', async (t) => {
  const messageIds = await deliveredMessages(REPORTS);
  const content = returning(MOST_OF_A_REPORT);
  assert.equal(content.length, MOST_OF_A_REPORT);
  const before = kept();
  const baseMb = memory('VmRSS');
  resetPeak();
  const replies = await Promise.all(
    messageIds.map((messageId, index) =>
      bring(tokenAddress('bounce', messageId), content, { size: content.length, localAddress: `127.0.1.${index + 1}` }),
    ),
  );
  for (const reply of replies) assert.match(reply, /^250 2\.0\.0 queued as inb_/);
  const growthMb = memory('VmHWM') - baseMb;
  t.diagnostic(`growth in MB while ${REPORTS} reports of ${content.length} bytes came in: ${growthMb}`);
  assert.ok(growthMb < MOST_GROWTH_MB, `${growthMb} MB`);
  const { body } = await service.api.get('/messages?status=bounced&limit=100');
  assert.deepEqual((body as unknown as JsonObject[]).map(({ messageId }) => messageId).sort(), messageIds.sort());
  assert.deepEqual(kept(), before, 'nothing of the reports is stored');
});

test('rejects a report of one byte more, declared or not', async () => {
  const to = tokenAddress('bounce', newId('msg'));
  const before = kept();
  const tooLarge = returning(MOST_OF_A_REPORT + 1);
  const refusal = /552 5\.3\.4 message exceeds the maximum size of 50000000 bytes/;
  assert.match(await bring(to, tooLarge, { size: tooLarge.length }), refusal);
  assert.match(await bring(to, tooLarge), refusal);
  assert.deepEqual(kept(), before);
});

test('a session that ends during a large message stores nothing', async () => {
  const before = kept();
  const talker = await openInbound(service.inboundPort);
  for (const line of ['MAIL FROM:<>', `RCPT TO:<${TO}>`, 'DATA']) assert.match(await talker.say(line), /^[23]/);
  talker.send(Buffer.from(`Subject: x\r\n\r\n${`${randomBytes(500).toString('hex')}\r\n`.repeat(10_000)}`));
  await waitUntil('a part of it to be written', () => kept().files > before.files);
  talker.destroy();
  await waitUntil('it to be deleted', () => kept().files === before.files);
  assert.deepEqual(kept(), before);
});
