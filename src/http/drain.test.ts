/**
 * Overload and graceful shutdown: requests in progress are completed, excess or late requests get 503 with Retry-After on a port that stays
 * open, and nothing outlives the deadline.
 */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { httpShell, KEY_HEADERS, readAnswers, speak } from '../../test/kit/http-shell.ts';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { failure, refuse } from '../base/failure.ts';
import { staticRoutes } from './files.ts';
import { type CallerKey, defineRoute } from './route.ts';

const HELD = 'POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n';

function closed(port: number, bytes: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
  });
}

const always = defineRoute({
  method: 'GET',
  path: '/alive',
  summary: 'Always',
  tag: 'service',
  access: { auth: 'none' },
  load: { always: true },
  response: { status: 200 },
  handle: () => ({ ok: true, body: {} }),
});

interface Kept {
  ask(bytes: string): void;
  /** The received text, once the server has closed. */
  ended: Promise<string>;
  /** The text received so far. */
  text(): string;
}

/** A connection that its client keeps open. */
function keep(port: number): Kept {
  let text = '';
  const socket = connect(port, '127.0.0.1');
  socket.setEncoding('latin1').on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => {});
  const ended = new Promise<string>((resolve) => socket.on('close', () => resolve(text)));
  return { ask: (bytes) => socket.write(bytes), ended, text: () => text };
}

test('stopping completes requests in progress and rejects new ones', async (t) => {
  const page = { path: '/docs', contentType: 'text/html', read: () => Promise.reject(new Error('not asked for')) };
  const shell = await httpShell({ more: [always, ...staticRoutes<CallerKey>([page])] });
  t.after(() => shell.close());
  const first = speak(shell.port, HELD);
  const second = speak(shell.port, `${HELD}${HELD}`);
  await waitUntil('the held requests', () => shell.held.started === 3);
  const kept = keep(shell.port);
  kept.ask('GET /alive HTTP/1.1\r\nHost: a\r\n\r\n');
  await waitUntil('a response on a kept connection', () => kept.text() !== '');
  const stopping = shell.app.stop({ deadlineMs: 30_000 });
  assert.equal(shell.app.draining(), true);
  for (const path of ['/notes/1', '/docs']) {
    const refused = await fetch(`${shell.url}${path}`, { headers: KEY_HEADERS });
    assert.equal(refused.status, 503, path);
    assert.equal(refused.headers.get('retry-after') !== null, true);
    assert.equal(refused.headers.get('connection'), 'close');
    assert.equal(((await refused.json()) as { reasonCode: string }).reasonCode, 'OVERLOADED');
  }
  assert.equal((await fetch(`${shell.url}/alive`)).status, 200);
  kept.ask('GET /notes/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\n\r\n');
  assert.deepEqual(
    readAnswers(await kept.ended).map((answer) => answer.status),
    [200, 503],
  );
  assert.equal(shell.held.started, 3, 'nothing else was started');
  shell.held.release();
  await stopping;
  await assert.rejects(fetch(`${shell.url}/alive`), 'nobody listens any more');
  const [answer] = readAnswers(await first);
  assert.equal(answer?.status, 200);
  assert.equal(answer?.headers.connection, 'close');
  assert.equal(readAnswers(await second)[0]?.status, 200);
  await shell.app.stop();
});

test('a request during a stop gets 503 with Retry-After on a connection still in use', async (t) => {
  const shell = await httpShell();
  t.after(() => shell.close());
  let finish: () => unknown = () => undefined;
  const accepted = once(shell.app.server, 'connection') as Promise<[Socket]>;
  // A request started before the stop and completed after it: its connection is not idle.
  const answering = new Promise<string>((resolve) => {
    let text = '';
    const socket = connect(shell.port, '127.0.0.1', () => socket.write('POST /held HTTP/1.1\r\nHost: a\r\n'));
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    socket.on('close', () => resolve(text));
    finish = () => socket.write('Content-Length: 0\r\n\r\n');
  });
  const [peer] = await accepted;
  await waitUntil('the first half', () => peer.bytesRead > 0);
  const stopping = shell.app.stop({ deadlineMs: 30_000 });
  finish();
  await stopping;
  const [answer] = readAnswers(await answering);
  assert.equal(answer?.status, 503);
  assert.equal((JSON.parse(answer?.body ?? '') as { reasonCode: string }).reasonCode, 'OVERLOADED');
  assert.equal(answer?.headers['retry-after'], '1');
  assert.equal(answer?.headers.connection, 'close');
  assert.equal(shell.held.started, 0, 'nothing was accepted');
});

test('idle connections do not delay a stop, and long polls end with it', async (t) => {
  const shell = await httpShell();
  t.after(() => shell.close());
  const silent = closed(shell.port, '');
  const idle = closed(shell.port, 'GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n');
  const follow = fetch(`${shell.url}/follow`);
  await waitUntil('the long poll', () => shell.held.started === 1);
  const before = runningMs();
  await shell.app.stop({ deadlineMs: 30_000 });
  await Promise.all([silent, idle]);
  assert.equal((await follow).status, 200);
  assert.ok(runningMs() - before < 5_000, `${runningMs() - before} ms`);
});

test('remaining requests are aborted at the deadline', async (t) => {
  const shell = await httpShell();
  t.after(() => shell.close());
  const held = closed(shell.port, HELD);
  await waitUntil('the held request', () => shell.held.started === 1);
  await shell.app.stop({ deadlineMs: 50 });
  await held;
  shell.held.release();
});

const upload = defineRoute({
  method: 'PUT',
  path: '/slow/:id',
  summary: 'Streamed',
  tag: 'notes',
  access: { auth: 'none' },
  body: { type: 'stream' },
  response: { status: 200 },
  handle: ({ stream }) =>
    new Promise((resolve) => {
      stream.on('error', () => resolve({ ok: false, failure: failure('INVALID_REQUEST') }));
      stream.on('data', () => undefined);
    }),
});

test('an incomplete body gets 503 before its connection is closed at the deadline', (t) =>
  againIfPaused(() => halfBodies(t)));

async function halfBodies(t: TestContext): Promise<void> {
  const shell = await httpShell({ more: [upload] });
  t.after(() => shell.close());
  const json =
    'POST /parsed HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\nContent-Type: application/json\r\n';
  const rest = 'Content-Length: 50\r\n\r\n{"name"';
  let begun = 0;
  shell.app.server.on('request', () => {
    begun += 1;
  });
  const speaking = [`${json}${rest}`, `PUT /slow/1 HTTP/1.1\r\nHost: a\r\n${rest}`].map((half) =>
    speak(shell.port, half),
  );
  await waitUntil('both', () => begun === 2);
  await shell.app.stop({ deadlineMs: 2_100 });
  for (const response of speaking) {
    const [answer] = readAnswers(await response);
    assert.equal(answer?.status, 503);
    assert.ok(answer?.headers['retry-after']);
    assert.equal((JSON.parse(answer?.body ?? '') as { reasonCode: string }).reasonCode, 'OVERLOADED');
  }
}

test('a long poll that starts during a stop does not delay it', async (t) => {
  let identify = () => {};
  const identified = new Promise<void>((resolve) => {
    identify = resolve;
  });
  let asked = 0;
  const waits = defineRoute({
    method: 'GET',
    path: '/wait',
    summary: 'Waits',
    tag: 'notes',
    access: { auth: 'key' },
    load: { waits: true },
    response: { status: 200 },
    async handle(request) {
      if (!request.signal.aborted) await new Promise((resolve) => request.signal.addEventListener('abort', resolve));
      return { ok: true, body: [] };
    },
  });
  const shell = await httpShell({
    more: [waits],
    authenticate: async () => {
      asked += 1;
      await identified;
      return {
        ok: true,
        value: { keyId: 'k', scope: 'full', mode: 'live', actor: { kind: 'key', id: 'k', name: 'k' } },
      };
    },
  });
  t.after(() => shell.close());
  const waiting = fetch(`${shell.url}/wait`);
  await waitUntil('the request', () => asked === 1);
  const before = runningMs();
  const stopping = shell.app.stop({ deadlineMs: 30_000 });
  identify();
  await stopping;
  assert.equal((await waiting).status, 200);
  assert.ok(runningMs() - before < 5_000, `${runningMs() - before} ms`);
});

test('a long poll is aborted if its client disconnects', async (t) => {
  const shell = await httpShell();
  t.after(() => shell.close());
  const controller = new AbortController();
  const follow = fetch(`${shell.url}/follow`, { signal: controller.signal });
  await waitUntil('the long poll', () => shell.held.started === 1);
  controller.abort();
  await assert.rejects(follow);
  await waitUntil('its signal', () => shell.held.aborted === 1);
});

test('requests above the limit are rejected until others finish', async (t) => {
  const shell = await httpShell({ limits: { maxInProgress: 2 } });
  t.after(() => shell.close());
  const work = [fetch(`${shell.url}/held`, { method: 'POST' }), fetch(`${shell.url}/held`, { method: 'POST' })];
  await waitUntil('both', () => shell.held.started === 2);
  const refused = await fetch(`${shell.url}/notes/1`, { headers: KEY_HEADERS });
  assert.equal(refused.status, 503);
  assert.equal(refused.headers.get('retry-after'), '1');
  shell.held.release();
  await Promise.all(work);
  for (let round = 0; round < 5; round += 1) {
    assert.equal((await fetch(`${shell.url}/notes/1`, { headers: KEY_HEADERS })).status, 200);
    assert.equal((await fetch(`${shell.url}/broken/bug`)).status, 500);
  }
});

test('back-pressure rejects only routes that accept mail, with its reason', async (t) => {
  const shell = await httpShell({ backPressure: () => ({ code: 'OVERLOADED', reason: 'the disk is nearly full' }) });
  t.after(() => shell.close());
  const refused = await fetch(`${shell.url}/intake`, { method: 'POST', headers: KEY_HEADERS });
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.has('retry-after'));
  assert.match(await refused.text(), /nearly full/);
  const stranger = await fetch(`${shell.url}/intake`, { method: 'POST' });
  assert.equal(stranger.status, 401);
  assert.equal((await fetch(`${shell.url}/notes/1`, { headers: KEY_HEADERS })).status, 200);
});

test('a refusal for another limit has one set of RateLimit headers, and it is that of the refusal', async (t) => {
  const limited = defineRoute<CallerKey>({
    method: 'GET',
    path: '/streams',
    summary: 'Too many streams are open',
    tag: 'notes',
    access: { auth: 'key' },
    response: { status: 200 },
    handle: () => refuse(failure('RATE_LIMITED', { limit: 20, retryAfterSeconds: 7 })),
  });
  const shell = await httpShell({ rateLimitPerSecond: 50, more: [limited] });
  t.after(() => shell.close());
  const answer = await fetch(`${shell.url}/streams`, { headers: KEY_HEADERS });
  assert.equal(answer.status, 429);
  assert.deepEqual(
    ['limit', 'remaining', 'reset'].map((name) => answer.headers.get(`ratelimit-${name}`)),
    ['20', '0', '7'],
  );
});

// The third request in a second is rejected, but not after a pause.
test('requests per second are limited per key', (t) => againIfPaused(() => threeAtOnce(t)));

async function threeAtOnce(t: TestContext): Promise<void> {
  const shell = await httpShell({ rateLimitPerSecond: 2 });
  t.after(() => shell.close());
  const ask = (key: string) => fetch(`${shell.url}/notes/1`, { headers: { ...KEY_HEADERS, 'X-Api-Key': key } });
  const answers = [await ask('good'), await ask('good'), await ask('good')];
  const limited = answers[2]!;
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 200, 429],
  );
  assert.deepEqual(
    answers.map((answer) => answer.headers.get('ratelimit-remaining')),
    ['1', '0', '0'],
  );
  assert.equal(limited.headers.get('retry-after'), '1');
  assert.equal(limited.headers.get('ratelimit-limit'), '2');
  assert.equal(((await limited.json()) as { reasonCode: string }).reasonCode, 'RATE_LIMITED');
  assert.equal((await ask('small')).status, 200, 'another key is not delayed');
}
