/**
 * The disk fills up during inbound mail: senders get a temporary rejection (451), nothing is half stored, and intake resumes automatically
 * when space is available. Everything acknowledged with 250 has its event once, even if the process is killed at that point.
 */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import test from 'node:test';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { JsonObject } from '../kit/api.ts';
import { bringMail, openInbound } from '../kit/inbound-rig.ts';
import { fill, mountSmallDisk, noSmallDisk as skip } from '../kit/small-disk.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MEGABYTE = 1_000_000;
const TO = 'support@in.shop.example';
const small = 'Subject: small\r\n\r\nx\r\n';
const large = `Subject: large\r\n\r\n${`${'x'.repeat(78)}\r\n`.repeat(5_000)}`;

async function serviceOn(folder: string, minFreeBytes: number): Promise<Service> {
  const env = { POSTRIDER_INBOUND_PORT: '0', POSTRIDER_MIN_FREE_BYTES: String(minFreeBytes) };
  const service = await startService({ dataDir: folder, env });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  assert.equal((await service.api.post('/inbound-routes', { match: TO })).status, 201);
  return service;
}

/** The final reply, over a separate connection. */
async function bring(service: Service, content: string): Promise<string> {
  const talker = await openInbound(service.inboundPort);
  const reply = await bringMail(talker, TO, content);
  talker.destroy();
  return reply;
}

const idIn = (reply: string): string | undefined => /^250 2\.0\.0 queued as (inb_\w+)/.exec(reply)?.[1];

/** Ids of the stored messages, and the files. */
function kept(folder: string): { ids: string[]; files: string[] } {
  const { databaseFile, blobsFolder } = dataDirectory(folder);
  const database = new DatabaseSync(databaseFile, { readOnly: true });
  const ids = database.prepare('SELECT id FROM inbound_mail').all() as { id: string }[];
  database.close();
  const all = readdirSync(blobsFolder, { recursive: true, withFileTypes: true });
  const files = all.filter((entry) => entry.isFile() && !entry.name.startsWith('mark'));
  return { ids: ids.map(({ id }) => id).sort(), files: files.map(({ name }) => name) };
}

const eventsOf = async (service: Service): Promise<string[]> =>
  ((await service.api.get('/events?eventType=Inbound&limit=100')).body as unknown as JsonObject[])
    .map(({ messageId }) => messageId as string)
    .sort();

test('at the limit, senders get a temporary rejection, even at the dot, until space is available', {
  skip,
  timeout: 240_000,
}, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  const service = await serviceOn(disk.folder, 500 * MEGABYTE);
  try {
    const ids = [idIn(await bring(service, small))];
    const begun = await openInbound(service.inboundPort);
    for (const line of ['MAIL FROM:<>', `RCPT TO:<${TO}>`, 'DATA']) assert.match(await begun.say(line), /^[23]/);
    const ballast = fill(disk.folder, 4 * MEGABYTE);
    await waitUntil(
      'the free-space limit to be noticed',
      async () => (await service.anonymous.get('/ready')).status === 503,
    );
    assert.match(await bring(service, small), /^MAIL: 451 4\.3\.2 /);
    begun.send(`${large}.\r\n`);
    assert.match(await begun.reply(), /^451 4\.3\.2 /, 'a transaction started before');
    assert.match(await begun.say('NOOP'), /^250/, 'the session continues');
    begun.destroy();
    assert.deepEqual(kept(disk.folder).ids, ids);
    rmSync(ballast);
    const after = await waitUntil('mail to be accepted again', async () => idIn(await bring(service, large)));
    await waitUntil('the events', async () => (await eventsOf(service)).length === 2);
    assert.deepEqual(await eventsOf(service), [...ids, after].sort());
  } finally {
    await service.close();
  }
});

test('without the limit, a full disk rejects temporarily, and nothing is lost or half stored', {
  skip,
  timeout: 240_000,
}, async (t) => {
  const disk = mountSmallDisk();
  t.after(() => disk.unmount());
  const service = await serviceOn(disk.folder, 0);
  const taken: string[] = [];
  const refusals: string[] = [];
  const { pid } = service;
  const bringAll = async (content: string, most: number): Promise<void> => {
    const until = refusals.length + most;
    for (let index = 0; index < 1_000 && refusals.length < until; index += 1) {
      const reply = await bring(service, content);
      const id = idIn(reply);
      if (id === undefined) refusals.push(reply);
      else taken.push(id);
    }
    assert.equal(refusals.length, until, 'the disk was full');
  };
  try {
    const ballast = fill(disk.folder, 2 * MEGABYTE);
    // Blobs run out of space first, then the database.
    await bringAll(large, 3);
    const { length: files } = kept(disk.folder).files;
    assert.equal(files, taken.length, 'rejected mail leaves no file');
    fill(disk.folder, 0);
    await bringAll(small, 3);
    for (const reply of refusals) assert.match(reply, /^(MAIL: |RCPT: )?451 4\.3\.[02] /);
    t.diagnostic(`${taken.length} mails taken; refusals: ${[...new Set(refusals)].join(' | ')}`);
    rmSync(ballast);
    taken.push((await waitUntil('mail to be accepted again', async () => idIn(await bring(service, large))))!);
    assert.equal(service.pid, pid);
    assert.deepEqual(kept(disk.folder).ids, taken.toSorted(), 'exactly the accepted mail');
    assert.deepEqual(
      await service.kill('SIGKILL'),
      { code: null, signal: 'SIGKILL' },
      'automatically, in the same process',
    );
    await service.restart();
    const events = await waitUntil('an event of each', async () => {
      const found = await eventsOf(service);
      return found.length >= taken.length && found;
    });
    assert.deepEqual(events, taken.toSorted());
  } finally {
    await service.close();
  }
});
