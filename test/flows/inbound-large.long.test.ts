/**
 * Mail of the largest size that the inbound port takes, through the whole service: kept byte for byte, its files as links, in
 * bounded memory; and one byte more, declared or not: refused, with nothing kept. The same at the smaller limit of bounces.
 */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { newId } from '../../src/base/ids.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { JsonObject } from '../kit/api.ts';
import { comesBack, tokenAddress } from '../kit/come-back.ts';
import { openInbound } from '../kit/inbound-rig.ts';
import { mailOfSize, stuffed } from '../kit/mail-of-size.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MOST = 25_000_000;
const MOST_OF_A_BOUNCE = 1_000_000;
const TO = 'support@in.shop.example';
const AT_ONCE = 4;
/** Measured are 55 MB while four come in and 90 MB while they are read, two at a time. */
const MOST_GROWTH_MB = 200;

let service: Service;
before(async () => {
  service = await startService({ env: comesBack });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  assert.equal((await service.api.post('/inbound-routes', { match: TO })).status, 201);
});
after(() => service?.close());

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Of the process, in MB; the peak is counted from the last reset. */
const memory = (what: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${what}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${service.pid}/status`, 'utf8'))?.[1]) / 1_000;
const resetPeak = (): void => writeFileSync(`/proc/${service.pid}/clear_refs`, '5');

const listed = async (): Promise<JsonObject[]> =>
  (await service.api.get('/inbound?limit=100')).body as unknown as JsonObject[];
/** What is kept: rows and files. */
function kept(): { mails: number; files: number } {
  const { databaseFile, blobsFolder } = dataDirectory(service.dataDir);
  const database = new DatabaseSync(databaseFile, { readOnly: true });
  const { n: mails } = database.prepare('SELECT count(*) AS n FROM inbound_mail').get() as { n: number };
  database.close();
  const all = readdirSync(blobsFolder, { recursive: true, withFileTypes: true });
  return { mails, files: all.filter((entry) => entry.isFile() && !entry.name.startsWith('mark')).length };
}

/** The reply to the dot, or the first that refuses. */
async function bring(to: string, content: Buffer, size?: number): Promise<string> {
  const talker = await openInbound(service.inboundPort);
  const declared = size === undefined ? '' : ` SIZE=${size}`;
  for (const line of [`MAIL FROM:<ann@mx.example>${declared}`, `RCPT TO:<${to}>`, 'DATA']) {
    const reply = await talker.say(line);
    if (/^[23]/.test(reply)) continue;
    talker.destroy();
    return `${line.slice(0, 4)} ${reply}`;
  }
  talker.send(stuffed(content));
  const reply = await talker.reply(60_000);
  assert.match(await talker.say('NOOP'), /^250/, 'the session goes on');
  talker.destroy();
  return reply;
}

async function bytesOf(url: string): Promise<Buffer> {
  const answer = await fetch(url);
  assert.equal(answer.status, 200);
  return Buffer.from(await answer.arrayBuffer());
}

test('the largest mail is kept byte for byte, its files stream as links, and memory stays bounded', async (t) => {
  const mails = Array.from({ length: AT_ONCE }, (_, index) => mailOfSize(MOST, `large ${index}`));
  for (const { content } of mails) assert.equal(content.length, MOST);
  const baseMb = memory('VmRSS');
  resetPeak();
  const replies = await Promise.all(mails.map(({ content }) => bring(TO, content, MOST)));
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
    assert.equal(inbound.headers[0].name, 'Return-Path', 'nothing is added in front');
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

test('one byte more is refused, declared or not, and nothing of it is kept', async () => {
  const before = kept();
  const { length } = await listed();
  const { content } = mailOfSize(MOST + 1);
  assert.match(await bring(TO, content, MOST + 1), /^MAIL 552 5\.3\.4 the message is larger than 25000000 bytes/);
  assert.match(await bring(TO, content), /^552 5\.3\.4 the message is larger than 25000000 bytes/);
  assert.match(await bring(TO, content, MOST), /^552 5\.3\.4/, 'nor with a size that is not true');
  await waitUntil('what was begun to go', () => kept().files === before.files);
  assert.deepEqual(kept(), before);
  assert.equal((await listed()).length, length);
});

test('a bounce may have a million bytes, and not one more', async () => {
  const to = tokenAddress('bounce', newId('msg'));
  const bounce = (bytes: number): Buffer => mailOfSize(bytes).content;
  const before = kept();
  assert.match(await bring(to, bounce(MOST_OF_A_BOUNCE), MOST_OF_A_BOUNCE), /^250/);
  await waitUntil('it to be dealt with', () => isDeepStrictEqual(kept(), before));
  const tooLarge = bounce(MOST_OF_A_BOUNCE + 1);
  assert.match(
    await bring(to, tooLarge, tooLarge.length),
    /^RCPT 552 5\.3\.4 the message is larger than 1000000 bytes/,
  );
  assert.match(await bring(to, tooLarge), /^552 5\.3\.4 the message is larger than 1000000 bytes/);
  await waitUntil('what was begun to go', () => kept().files === before.files);
  assert.deepEqual(kept(), before);
});

test('a session that ends in the middle of a large mail leaves nothing', async () => {
  const before = kept();
  const talker = await openInbound(service.inboundPort);
  for (const line of ['MAIL FROM:<>', `RCPT TO:<${TO}>`, 'DATA']) assert.match(await talker.say(line), /^[23]/);
  talker.send(Buffer.from(`Subject: x\r\n\r\n${`${randomBytes(500).toString('hex')}\r\n`.repeat(10_000)}`));
  await waitUntil('a part of it to be written', () => kept().files > before.files);
  talker.destroy();
  await waitUntil('it to go', () => kept().files === before.files);
  assert.deepEqual(kept(), before);
});
