/** Inbound messages whose stored content was changed or lost: their processing ends with an event that reports it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { notForwarded } from '../../test/kit/operator-mail.ts';
import { deliveryReport } from '../../test/kit/report-mail.ts';
import { DIALECTS, type Dialect, tempDatabase } from '../../test/kit/temp-database.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { createLog } from '../base/log.ts';
import { createMetrics } from '../base/metrics.ts';
import {
  createReportHandlers,
  removeInboundOperation,
  startInboundWorker,
  storeInboundOperation,
  type Use,
} from '../inbound/inbound.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { createInboundLinks, createRouteHandler } from './inbound-routes.ts';
import { findInboundMessageOperation } from './message-store.ts';

const secretKey = Buffer.alloc(32, 1);
const ROUTE: Use = { kind: 'route', accountId: 'acc_shop', mode: 'live', routeId: 'inr_1' };
const REPORT: Use = { kind: 'return-path', copy: { messageId: 'msg_1', isShared: false, day: 1 } };
const DAY_MS = 86_400_000;

async function world(t: { after(run: () => unknown): void }, dialect: Dialect = 'sqlite') {
  const temp = await tempDatabase(dialect);
  t.after(() => temp.close());
  const { database } = temp;
  const clock = fakeClock(Date.now());
  const folder = path.join(temp.folder, 'inbound-blobs');
  const disk = openDiskBlobs(folder);
  const lines: string[] = [];
  const log = createLog('warn', (line) => lines.push(line));
  const metrics = createMetrics();
  const tokens = createTokenAddresses(secretKey);
  let reads = 0;
  let isAway = false;
  let removed = 0;
  const blobs: Blobs = {
    ...disk,
    get: async (key) => {
      reads += 1;
      if (isAway) throw new Unavailable('the store refuses this object');
      return disk.get(key);
    },
  };
  const verify = () => Promise.reject(new Error('nothing is verified here'));
  const links = createInboundLinks({ secretKey, baseUrl: 'https://mail.example' });
  const handlers = {
    ...createReportHandlers({ database, clock, tokens, log, metrics, operators: notForwarded }),
    route: createRouteHandler({ database, links, metrics, verifier: { verify } }),
  };
  const deps = { database, blobs, clock, log, handlers, random: () => 0.5, onRecorded: () => undefined };
  const begin = () => {
    const worker = startInboundWorker({ ...deps, pollMs: 20 });
    t.after(() => worker.stop());
    return worker;
  };
  const store = async (use: Use): Promise<string> => {
    const content = deliveryReport({ recipient: 'ann@x.example' });
    const blobKey = await disk.put(content);
    const id = newId('inb');
    const facts = { envelopeFrom: 'ann@x.example', recipient: 'support@in.shop.example', use, blobKey, content: null };
    const client = { address: '192.0.2.1', helo: 'mx.example', tls: null };
    const times = { receivedAtMs: clock.now(), nowMs: clock.now(), sizeBytes: content.length };
    await database.execute(storeInboundOperation, [{ ...facts, ...times, client, id }]);
    return id;
  };
  /** Flips one bit of each blob. */
  const damage = (): void => {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!/^..\/\w{26}-/.test(name)) continue;
      const file = path.join(folder, name);
      const bytes = readFileSync(file);
      bytes[100]! ^= 4;
      writeFileSync(file, bytes);
    }
  };
  /** Removes each blob. */
  const lose = async (): Promise<void> => {
    for await (const { key } of disk.list()) await disk.remove(key);
  };
  return {
    begin,
    store,
    damage,
    lose,
    clock,
    lines,
    reads: () => reads,
    counted: async () => (await metrics.text()).match(/^postrider_inbound_\w+\{.*\} [1-9].*$/gm),
    find: (id: string) => database.execute(findInboundMessageOperation, id),
    goesAway: () => {
      isAway = true;
    },
    /** Returns how many messages were deleted after their content expired. */
    removed: async () => {
      removed += (await database.execute(removeInboundOperation, { beforeMs: clock.now() + DAY_MS, limit: 10 })).count;
      return removed;
    },
  };
}

for (const dialect of DIALECTS) {
  test(`corrupt content is read once, with an event for a route or quarantine for a report (${dialect})`, async (t) => {
    const w = await world(t, dialect);
    const [mail] = [await w.store(ROUTE), await w.store(REPORT)];
    w.damage();
    w.begin();
    await waitUntil('both to be processed', async () => (await w.counted())?.length === 2);
    assert.deepEqual(await w.counted(), [
      'postrider_inbound_reports_total{result="unreadable"} 1',
      'postrider_inbound_messages_total{outcome="event"} 1',
    ]);
    const { eventId, detail, recipient, sizeBytes } = (await w.find(mail))!;
    assert.match(eventId!, /^evt_/);
    const { inbound } = JSON.parse(detail);
    assert.deepEqual(inbound.unreadable, ['The complete message is unreadable: its stored content is corrupt.']);
    assert.deepEqual([inbound.text, inbound.attachments, inbound.envelope.from], [null, [], 'ann@x.example']);
    assert.equal(recipient, 'support@in.shop.example');
    assert.ok(sizeBytes > 100 && inbound.sizeBytes === sizeBytes);
    // Neither message has a work row now.
    await waitUntil('both to be expired', async () => (await w.removed()) === 2);
    assert.equal(w.reads(), 2);
    assert.equal(w.lines.filter((line) => line.includes('is not what was written')).length, 2);
  });
}

test('missing content is read once, with an event for a route or quarantine for a report', async (t) => {
  const w = await world(t);
  const [mail] = [await w.store(ROUTE), await w.store(REPORT)];
  await w.lose();
  w.begin();
  await waitUntil('both to be processed', async () => (await w.counted())?.length === 2);
  assert.deepEqual(await w.counted(), [
    'postrider_inbound_reports_total{result="unreadable"} 1',
    'postrider_inbound_messages_total{outcome="event"} 1',
  ]);
  const { inbound } = JSON.parse((await w.find(mail))!.detail);
  assert.deepEqual(inbound.unreadable, ['The complete message is unreadable: its stored content is missing.']);
  assert.equal(w.reads(), 2);
});

test('unavailable content is retried for a week, then dropped', async (t) => {
  const w = await world(t);
  w.goesAway();
  const mail = await w.store(ROUTE);
  const worker = w.begin();
  const putOff = (): number => w.lines.filter((line) => line.includes('inbound message deferred')).length;
  for (let tries = 1; tries <= 34; tries += 1) {
    await waitUntil(`try ${tries}`, () => putOff() === tries);
    assert.equal(await w.find(mail), undefined);
    w.clock.advance(7 * 3_600_000);
    worker.nudge();
  }
  await waitUntil('its event', async () => (await w.find(mail))?.eventId);
  const { inbound } = JSON.parse((await w.find(mail))!.detail);
  assert.deepEqual(inbound.unreadable, [
    'The complete message is unreadable: its stored content was unavailable for a week.',
  ]);
});
