/**
 * Kills the service with SIGKILL repeatedly while it accepts messages and posts events to a receiver that fails three times out of ten, and
 * compares the received events with the log: every event arrived, with one id and one body on every attempt, and nothing else arrived. It
 * runs in the sandbox, whose clock is moved through the retries; the worker, the queue, and the requests are those of live mail. Kills also
 * interrupt clock moves.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { JsonObject } from '../kit/api.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const BATCH = 50;
/** Time between two reads of the entire log. */
const LOOK_MS = 500;
/** No event fails so often that its schedule ends. */
const MOST_FAILURES = 5;
/** A row that was being tried at two kills waits this long before it is tried again alone. */
const DRAIN_TIMEOUT_MS = 120_000;

export interface TrialOptions {
  messages: number;
  kills: number;
}

export interface TrialReport {
  events: number;
  requests: number;
  failed: number;
  /** Events posted again after they had been accepted. */
  repeated: number;
}

interface Told {
  body: string;
  taken: number;
  failed: number;
}

interface Receiver {
  url: string;
  told: Map<string, Told>;
  /** Violations that were found. */
  faults: string[];
  requests: number;
  failed: number;
  close(): Promise<void>;
}

async function receiver(): Promise<Receiver> {
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const id = String(request.headers['webhook-id']);
      const digest = createHash('sha256').update(body).digest('base64');
      const known = made.told.get(id) ?? { body: digest, taken: 0, failed: 0 };
      made.told.set(id, known);
      made.requests += 1;
      if (known.body !== digest) made.faults.push(`${id} came with another body`);
      if ((JSON.parse(body.toString()) as JsonObject).eventId !== id) made.faults.push(`${id} is not the event’s id`);
      if (Math.random() < 0.3 && known.failed < MOST_FAILURES) {
        known.failed += 1;
        made.failed += 1;
        if (Math.random() < 0.2) request.socket.resetAndDestroy();
        else response.writeHead(500 + Math.floor(Math.random() * 5)).end('no');
        return;
      }
      known.taken += 1;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const made: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    told: new Map(),
    faults: [],
    requests: 0,
    failed: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return made;
}

const WORDS = ['ann', 'bob', 'bounced', 'complained', 'delayed', 'suppressed'];

/** Repeats the batch with its key until it gets a response, as a customer would. */
async function sendBatch(service: Service, number: number, size: number): Promise<string[]> {
  const messages = Array.from({ length: size }, (_, index) => ({
    from: 'a@shop.example',
    subject: `Mail ${number}.${index}`,
    text: 'Hello',
    to: `${WORDS[(number + index) % WORDS.length]}+${number}.${index}@example.com`,
  }));
  return waitUntil(
    `batch ${number} to be accepted`,
    async () => {
      const headers = { 'idempotency-key': `batch ${number}` };
      const answer = await service.sandboxApi.post('/send/batch', { messages }, headers).catch(() => undefined);
      if (answer?.status !== 200) return false;
      const results = answer.body.results as JsonObject[];
      return results.every((one) => one.status === 202) && results.map((one) => String(one.data.messageId));
    },
    60_000,
  );
}

async function readLog(service: Service): Promise<JsonObject[]> {
  const events: JsonObject[] = [];
  for (let cursor = ''; ; ) {
    const page = await service.sandboxApi.get(`/events?order=asc&limit=100${cursor}`);
    assert.equal(page.status, 200, page.text);
    events.push(...(page.body as unknown as JsonObject[]));
    cursor = `&cursor=${page.headers['x-next-cursor']}`;
    if (!page.headers.link) return events;
  }
}

/** Runs the trial and throws at the first broken promise. */
export async function webhookTrial({ messages, kills }: TrialOptions): Promise<TrialReport> {
  const hook = await receiver();
  const service = await startService({ env: { POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' } });
  const accepted: string[] = [];
  const kill = async (): Promise<void> => {
    await service.kill('SIGKILL');
    await service.restart();
  };
  try {
    const events = ['Send', 'Delivery', 'DeliveryDelay', 'Bounce', 'Complaint', 'Reject'];
    const endpoint = await service.sandboxApi.post('/webhooks', { url: hook.url, events });
    assert.equal(endpoint.status, 201, endpoint.text);
    const batches = messages / BATCH;
    let next = 0;
    const sender = async (): Promise<void> => {
      while (next < batches) {
        next += 1;
        accepted.push(...(await sendBatch(service, next, BATCH)));
      }
    };
    const senders = [sender(), sender()];
    for (let done = 0; done < kills; done += 1) {
      const target = (messages * (done + 0.5)) / kills;
      await waitUntil('more to be accepted', () => accepted.length >= target, 120_000);
      // Every third kill interrupts the work that a moved clock triggers.
      const moving = done % 3 === 2 ? service.sandboxApi.post('/sandbox/clock/advance', { seconds: 30 }) : undefined;
      moving?.catch(() => undefined);
      await pause(Math.random() * 80);
      await kill();
    }
    await Promise.all(senders);
    const ends = new Set(['Delivery', 'Bounce', 'Reject']);
    const log = await waitUntil(
      'every event to be posted',
      async () => {
        // Rows that met two kills are retried only after some seconds; until then the service should have the CPU.
        await pause(LOOK_MS);
        const advance = { method: 'POST', path: '/sandbox/clock/advance', body: { seconds: 6 * 3_600 } };
        const moved = await service.sandboxApi.call({ ...advance, timeoutMs: 60_000 });
        assert.equal(moved.status, 200, moved.text);
        const all = await readLog(service);
        const ended = new Set(all.filter((one) => ends.has(one.eventType)).map((one) => one.messageId));
        return ended.size === messages && all.every((one) => (hook.told.get(one.eventId)?.taken ?? 0) > 0) && all;
      },
      DRAIN_TIMEOUT_MS,
    );
    return judge({ log, accepted, messages, hook });
  } catch (error) {
    throw new Error(`${(error as Error).message}\nlog of the service, its end:\n${service.log.slice(-3000)}`, {
      cause: error,
    });
  } finally {
    await service.close();
    await hook.close();
  }
}

interface Judged {
  log: JsonObject[];
  accepted: string[];
  messages: number;
  hook: Receiver;
}

function judge({ log, accepted, messages, hook }: Judged): TrialReport {
  assert.deepEqual(hook.faults, []);
  assert.equal(new Set(accepted).size, messages);
  const ids = log.map((one) => String(one.eventId));
  assert.equal(new Set(ids).size, ids.length, 'each event is in the log once');
  assert.deepEqual(new Set(log.map((one) => one.messageId)), new Set(accepted), 'only accepted messages have events');
  const known = new Set(ids);
  assert.deepEqual(
    [...hook.told.keys()].filter((id) => !known.has(id)),
    [],
    'nothing was invented',
  );
  const sends = log.filter((one) => one.eventType === 'Send');
  assert.equal(sends.length, messages, 'one Send for each message');
  const repeated = [...hook.told.values()].filter((one) => one.taken > 1).length;
  return { events: ids.length, requests: hook.requests, failed: hook.failed, repeated };
}
