/**
 * The service is killed repeatedly while messages are accepted and counted: in the end the statistics match the log, with no event counted
 * twice or missed.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { iso } from '../../src/base/clock.ts';
import type { Api, JsonObject } from '../kit/api.ts';
import { assertCounted } from '../kit/recount.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { DIALECTS, type Dialect } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

const KILLS = 12;
const WORKERS = 3;
/** The load is low enough that the rest of the test, which reads every event, takes less time than the kills. */
const BATCH = 5;
const PAUSE_MS = 20;
const OUTCOMES = ['ann', 'ben', 'bounced', 'delayed', 'complained', 'suppressed'];
const TAGS = [[], ['order'], ['order', 'night']];

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)]!;
const mail = (): JsonObject => ({
  from: 'shop@shop.example',
  subject: 'Order',
  text: 'Thank you.',
  tags: pick(TAGS),
  to: `${pick(OUTCOMES)}@${pick(['a.example', 'b.example'])}`,
});

async function started(t: TestContext, dialect: Dialect): Promise<{ service: Service; env: Record<string, string> }> {
  const server = dialect === 'postgres' ? await tempPostgres() : undefined;
  const env: Record<string, string> = server === undefined ? {} : { POSTRIDER_DATABASE_URL: server.url };
  const service = await startService({ env });
  t.after(async () => {
    await service.close();
    await server?.drop();
  });
  return { service, env };
}

/** Sends until stopped, ignoring errors; returns the number of accepted messages. */
function startLoad(api: Api): { accepted(): number; stop(): Promise<void> } {
  let accepted = 0;
  let stopping = false;
  const work = async (): Promise<void> => {
    while (!stopping) {
      const messages = Array.from({ length: BATCH }, mail);
      const answer = await api.post('/send/batch', { messages }).catch(() => undefined);
      if (answer?.status === 200) accepted += BATCH;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  };
  const workers = Array.from({ length: WORKERS }, work);
  return {
    accepted: () => accepted,
    stop: async () => {
      stopping = true;
      await Promise.all(workers);
    },
  };
}

async function wholeLog(api: Api): Promise<JsonObject[]> {
  const events: JsonObject[] = [];
  for (let cursor = ''; ; ) {
    const page = await api.get(`/events?order=asc&limit=100${cursor}`);
    assert.equal(page.status, 200, page.text);
    events.push(...(page.body as unknown as JsonObject[]));
    if ((page.body as unknown as JsonObject[]).length < 100) return events;
    cursor = `&cursor=${page.headers['x-next-cursor']}`;
  }
}

/** If counting is far behind the log after the last kill, statistics are not available yet (docs/reference/statistics.md). */
async function statistics(api: Api, query: string): Promise<JsonObject> {
  for (;;) {
    const { status, headers, body, text } = await api.get(`/statistics?${query}`);
    if (status === 200) return body;
    assert.equal(status, 503, text);
    await new Promise((resolve) => setTimeout(resolve, Number(headers['retry-after']) * 1_000));
  }
}

for (const dialect of DIALECTS) {
  test(`killed while counting statistics, ${dialect}`, { timeout: 600_000 }, async (t) => {
    const { service, env } = await started(t, dialect);
    const since = iso(Date.now() - 3_600_000);
    const api = service.sandboxApi;
    const load = startLoad(api);
    for (let kill = 0; kill < KILLS; kill += 1) {
      const target = load.accepted() + 60;
      await waitUntil('some messages to be accepted', () => load.accepted() >= target, 60_000);
      // At any point of the counting pass, which runs every second.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 1_500));
      await service.kill('SIGKILL');
      await service.restart({ env });
    }
    await load.stop();
    const isFinished = async (): Promise<boolean> => {
      const pages = await Promise.all(
        ['queued', 'sending', 'delayed'].map((status) => api.get(`/messages?status=${status}&limit=1`)),
      );
      return pages.every(({ body }) => (body as unknown as JsonObject[]).length === 0);
    };
    await waitUntil('all messages to be delivered', isFinished, 180_000);
    const events = await wholeLog(api);
    assert.ok(events.length > 2 * KILLS * 60);
    for (const groupBy of ['none', 'tag', 'recipientDomain'] as const) {
      const body = await statistics(api, `since=${since}&interval=hour&groupBy=${groupBy}`);
      assertCounted(body.buckets, events, { interval: 'hour', groupBy });
    }
    t.diagnostic(`${events.length} events, ${KILLS} kills`);
  });
}
