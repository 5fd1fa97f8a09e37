/** Following events: `postrider listen` as a developer uses it, across a service restart, and what ends a stream. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { JsonObject } from '../kit/api.ts';
import { freePort } from '../kit/free-ports.ts';
import { runningMs } from '../kit/running-time.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

const MAIN = path.resolve(import.meta.dirname, '../../bin/postrider.js');
let service: Service;
let machine: WebhookCatcher;
const children: ChildProcess[] = [];

before(async () => {
  machine = await webhookCatcher();
  // A restart keeps the port.
  service = await startService({ env: { POSTRIDER_HTTP_PORT: String(await freePort()) } });
});
after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await service?.close();
  await machine?.close();
});

async function send(to: string): Promise<string> {
  const mail = { from: 'a@shop.example', to, subject: 'Hello', text: 'Hello' };
  const answer = await service.sandboxApi.post('/send', mail);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.data.messageId;
}

interface Listener {
  readonly out: string;
  readonly err: string;
  lines(): JsonObject[];
  end(signal: NodeJS.Signals): Promise<number | null>;
}

function listen(...args: string[]): Listener {
  const credentials = ['--url', service.url, '--id', service.sandbox.accountId, '--key', service.sandbox.apiKey];
  const child = spawn(process.execPath, [MAIN, 'listen', ...credentials, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  return {
    get out() {
      return out;
    },
    get err() {
      return err;
    },
    lines: () => out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as JsonObject])),
    end: (signal) => {
      child.kill(signal);
      return ended;
    },
  };
}

test('forwards signed events to a local URL across a service restart, and exits 0 on SIGINT', async () => {
  const listener = listen('--forward', `${machine.url}`, '--json');
  const { ready, secret, forward } = await waitUntil('the secret', () => listener.lines()[0]);
  assert.deepEqual([ready, forward], [true, machine.url]);
  const ids = [await send('bounced@example.com'), await send('ann@example.com')];
  const eventsOf = (id: string): JsonObject[] =>
    machine.requests.map((one) => JSON.parse(one.body) as JsonObject).filter((event) => event.messageId === id);
  await waitUntil('four events', () => ids.every((id) => eventsOf(id).length === 2));
  assert.deepEqual(
    ids.map((id) => eventsOf(id).map((event) => event.eventType)),
    [
      ['Send', 'Bounce'],
      ['Send', 'Delivery'],
    ],
  );
  for (const { body, headers } of machine.requests) new Webhook(secret).verify(body, headers as Record<string, string>);
  machine.answer({ status: 503 });
  const failed = await send('bob@example.com');
  const line = await waitUntil('the line for it', () => listener.lines().find((one) => one.messageId === failed));
  assert.equal(line.status, 503);
  assert.deepEqual(Object.keys(line), [
    'eventId',
    'eventType',
    'messageId',
    'recipient',
    'status',
    'error',
    'latencyMs',
  ]);
  machine.answer();
  await waitUntil('both lines', () => listener.lines().filter((one) => one.messageId === failed).length === 2);
  assert.equal((await service.kill('SIGTERM')).code, 0, 'streams do not delay a stop');
  await service.restart();
  const later = await send('carol@example.com');
  await waitUntil('events after the restart', () => eventsOf(later).length === 2);
  const told = await waitUntil('one line each', () => {
    const lines = listener.lines().slice(1);
    return lines.filter((one) => one.messageId === later).length === 2 && lines.map((one) => one.eventId);
  });
  const list = await service.sandboxApi.get('/events?order=asc&limit=100');
  const all = (list.body as unknown as JsonObject[]).map((event) => event.eventId);
  assert.equal(new Set(told).size, told.length, 'no duplicates');
  assert.deepEqual(all.slice(all.indexOf(told[0])), told, 'none missing');
  assert.equal(await listener.end('SIGINT'), 0, listener.err);
});

test('without --json it prints readable lines, and reports an unreachable local URL', async () => {
  const listener = listen('--forward', `http://127.0.0.1:${await freePort()}`);
  await waitUntil('the stream to start', () =>
    /^Ready\. .*\nThe webhook secret of this session is whsec_\S+\n/.test(listener.out),
  );
  await send('dora@example.com');
  await waitUntil('the event', () => {
    return /^connection refused \d+ ms {2}Send dora@example\.com msg_\w+$/m.test(listener.out);
  });
  assert.equal(await listener.end('SIGTERM'), 0);
});

test('it prints ready only once the stream is open', async (t) => {
  const asked = Promise.withResolvers<ServerResponse>();
  const slow = createServer((_, response) => asked.resolve(response));
  slow.listen(0, '127.0.0.1');
  t.after(() => slow.close());
  await once(slow, 'listening');
  const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`;
  const listener = listen('--forward', machine.url, '--url', url);
  const response = await asked.promise;
  assert.equal(listener.out, '', 'the stream is requested but not open');
  response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
  await waitUntil('the stream to be ready', () => listener.out.startsWith('Ready. '));
  assert.equal(await listener.end('SIGINT'), 0);
});

test('wrong usage and an invalid key print an error', async () => {
  const { dataDir } = service;
  const bad = await runCommand(['listen', '--forward', 'localhost', '--id', 'x', '--key', 'y'], { dataDir });
  assert.deepEqual([bad.code, /--forward must be an HTTP or HTTPS URL/.test(bad.stderr)], [2, true]);
  const args = ['listen', '--forward', machine.url, '--url', service.url, '--id', 'acc_x', '--key', 'pr_test_x'];
  const refused = await runCommand([...args, '--json'], { dataDir });
  assert.equal(refused.code, 1);
  assert.equal((JSON.parse(refused.stdout.trim().split('\n').at(-1)!) as JsonObject).error.code, 'UNAUTHORIZED');
});

test('revoking the key ends the stream within seconds, and an invalid position is rejected', async () => {
  const { body } = await service.api.post('/api-keys', { mode: 'live', scope: 'full' });
  const headers = { 'X-Api-Key': String(body.apiKey), 'X-Id': service.live.accountId };
  const stream = await fetch(`${service.url}/events/stream`, { headers });
  assert.equal(stream.status, 200);
  assert.match(stream.headers.get('content-type') ?? '', /^text\/event-stream/);
  const began = runningMs();
  assert.equal((await service.api.delete(`/api-keys/${body.keyId}`)).status, 200);
  await stream.text();
  assert.ok(runningMs() - began < 30_000);
  for (const [query, extra, field] of [
    ['', { 'Last-Event-ID': 'x' }, 'Last-Event-ID'],
    ['?cursor=x', {}, 'cursor'],
    ['?eventType=Sent', {}, 'eventType'],
    ['?since=2026-01-01T00:00:00Z', {}, 'since'],
  ] as const) {
    const refused = await service.api.call({ method: 'GET', path: `/events/stream${query}`, headers: { ...extra } });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error.details[0].field, field);
  }
});
