/**
 * Eight kills in a row, each as soon as deliveries are in progress again. None of the messages caused a crash, so within 60 s of the last
 * start every message is delivered and every event posted, counted at the receivers. Few rows may be marked at a kill, since those are
 * attempted one at a time afterwards: with as many as there are connections, the last would take minutes.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';
import { allMessages } from './ledger.ts';

const MAILS = 300;
const KILLS = 8;
const PROMISED_MS = 60_000;
/** How long each receiver takes, so that many deliveries are in flight at every kill. */
const SLOW_MS = 300;

test('eight kills in a row delay no in-flight message by more than 60 s', { timeout: 400_000 }, async (t) => {
  const sink = await smtpSink({ script: { dot: () => ({ delayMs: SLOW_MS }) } });
  t.after(() => sink.close());
  const hook = await webhookCatcher({ script: () => ({ delayMs: SLOW_MS }) });
  t.after(() => hook.close());
  const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };
  const service = await startService({ env });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'load.example', '--verified');
  assert.equal((await service.api.post('/webhooks', { url: hook.url, events: ['Send', 'Delivery'] })).status, 201);
  for (let batch = 0; batch < MAILS / 100; batch += 1) {
    const mail = { from: 'load@load.example', subject: 'Hello', text: 'Hello' };
    const messages = Array.from({ length: 100 }, (_, i) => ({ ...mail, to: `${batch}.${i}@load.example` }));
    assert.equal((await service.api.post('/send/batch', { messages })).status, 200);
  }
  const begun = (): number => sink.commands.filter((line) => line === 'DATA').length;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const [mails, events] = [begun(), hook.requests.length];
    await waitUntil('work to be in progress', () => begun() > mails + 1 && hook.requests.length > events + 1);
    await service.kill('SIGKILL');
    if (kill < KILLS - 1) await service.restart();
  }
  const left = rowsOf(service.dataDir);
  t.diagnostic(JSON.stringify(left));
  assert.ok(
    left.some((row) => row.crashes > 0 && row.n > 50),
    'control: many deliveries were in flight',
  );
  await service.restart();
  const startedAt = Date.now();
  const told = (): Set<string> => new Set(hook.requests.map((one) => String(one.headers['webhook-id'])));
  const [messages, events] = await waitUntil(
    'every message to be delivered and every event posted',
    async () => {
      const all = await allMessages(service.api);
      if (!all.every((one) => one.status === 'delivered' || one.status === 'bounced')) return false;
      const log = await readEvents();
      return log.every((id) => told().has(id)) && rowsOf(service.dataDir).length === 0 && ([all, log] as const);
    },
    4 * PROMISED_MS,
  );
  async function readEvents(): Promise<string[]> {
    const ids: string[] = [];
    for (let cursor = ''; ; ) {
      const page = await service.api.get(`/events?order=asc&limit=100${cursor}`);
      ids.push(...(page.body as unknown as JsonObject[]).map((one) => String(one.eventId)));
      cursor = `&cursor=${page.headers['x-next-cursor']}`;
      if (!page.headers.link) return ids;
    }
  }
  assert.deepEqual(
    messages.filter((one) => one.status !== 'delivered'),
    [],
    'no unrelated message is parked',
  );
  assert.equal(events.length, 2 * MAILS);
  // What was in flight at the last kill arrives again, or for the first time: the first arrival after the start counts.
  const arrivals = [
    ...sink.messages.map(({ to, at }) => ({ id: to[0]!, at })),
    ...hook.requests.map(({ headers, at }) => ({ id: String(headers['webhook-id']), at })),
  ];
  assert.equal(new Set(arrivals.map((one) => one.id)).size, 3 * MAILS, 'every message and every event arrived');
  const firsts = new Map<string, number>();
  for (const { id, at } of arrivals) if (at >= startedAt && !firsts.has(id)) firsts.set(id, at);
  const inHand = left.reduce((sum, row) => sum + row.n, 0);
  assert.ok(firsts.size >= inHand, `${firsts.size} came after the start, and ${inHand} were in hand`);
  const last = Math.max(...firsts.values()) - startedAt;
  t.diagnostic(`the last came ${last} ms after the last start`);
  assert.ok(last <= PROMISED_MS, `the last came after ${last} ms`);
});

interface Rows {
  kind: string;
  crashes: number;
  n: number;
}

/** The queue as stored on the disk. */
function rowsOf(dataDir: string): Rows[] {
  const database = new DatabaseSync(path.join(dataDir, 'postrider.db'), { readOnly: true, timeout: 30_000 });
  try {
    const rows = database.prepare('SELECT kind, crashes, count(*) AS n FROM work GROUP BY kind, crashes').all();
    return rows.map((row) => ({ ...row })) as unknown as Rows[];
  } finally {
    database.close();
  }
}
