/** A send whose response is lost: the same command does not send the email twice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { freePort } from '../../test/kit/free-ports.ts';

test('the same command after a lost response has the same key, and a new one after a response', async (t) => {
  const { folder, run } = commandFolder(t);
  const keys: unknown[] = [];
  const answers: (number | undefined)[] = [undefined, 503, 202, 400, 202];
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key']);
    const status = answers[keys.length - 1];
    if (status === undefined) {
      request.socket.destroy();
      return;
    }
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ success: status === 202, data: { messageId: 'msg_1', status: 'queued' }, error: {} }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = ['--url', url, '--id', 'acc_1', '--key', 'pr_test_1'];
  const mail = [
    '--from',
    'shop@shop.example',
    '--to',
    'ann@example.com',
    '--to',
    'bob@example.com',
    '--subject',
    'Hello',
  ];
  const send = (...more: string[]) =>
    run(['send', ...mail, ...credentials, ...more], { XDG_STATE_HOME: path.join(folder, 'state') });

  const lost = await send();
  assert.equal(lost.code, 1);
  assert.match(
    lost.stderr,
    /no response from \S+: the server closed the connection\. The email may have been accepted\. /,
  );
  assert.match(lost.stderr, /Try: repeat the same command within 10 minutes, which does not send the email twice/);
  assert.deepEqual([(await send()).code, (await send()).code], [1, 0]);
  assert.equal((await send()).code, 1, 'a final refusal');
  assert.equal((await send()).code, 0);
  assert.match(String(keys[0]), /^send-/);
  assert.deepEqual(keys.slice(1, 3), [keys[0], keys[0]]);
  assert.equal(new Set(keys.slice(2)).size, 3, 'each response ends a send');
});

/** A service that accepts each email, and returns the stored response for a key that it knows; it loses the first response. */
async function replayingService(t: TestContext): Promise<{ url: string; keys: string[] }> {
  const keys: string[] = [];
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key']);
    const isReplayed = keys.includes(key);
    keys.push(key);
    if (keys.length === 1) {
      request.socket.destroy();
      return;
    }
    response.writeHead(202, {
      'content-type': 'application/json',
      ...(isReplayed && { 'idempotent-replayed': 'true' }),
    });
    response.end(
      JSON.stringify({ success: true, data: { messageId: `msg_${keys.indexOf(key) + 1}`, status: 'queued' } }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, keys };
}

test('a run that sends nothing, because the interrupted one was accepted, reports this', async (t) => {
  const { folder, run } = commandFolder(t);
  const { url, keys } = await replayingService(t);
  const send = (...more: string[]) =>
    run(
      [
        'send',
        ...['--from', 'shop@shop.example', '--to', 'ann@example.com', '--subject', 'Hello'],
        ...['--url', url, '--id', 'acc_1', '--key', 'pr_test_1', '--json', ...more],
      ],
      { XDG_STATE_HOME: path.join(folder, 'state') },
    );
  assert.equal((await send()).code, 1);
  const replayed = await send();
  assert.equal(replayed.code, 0);
  assert.match(replayed.stderr, /the email of the interrupted run was already accepted, so nothing was sent now/);
  assert.deepEqual(JSON.parse(replayed.stdout), {
    success: true,
    data: { messageId: 'msg_1', status: 'queued' },
    replayed: true,
  });
  const next = await send();
  assert.deepEqual([next.code, next.stderr, JSON.parse(next.stdout).replayed], [0, '', undefined]);
  await send('--idempotency-key', keys[0]!);
  const withKey = await send('--idempotency-key', keys[0]!);
  assert.match(withKey.stderr, /an email with this idempotency key was already accepted, so nothing was sent now/);
});

test('ten minutes after an interrupted send, the same command is another email', async (t) => {
  const { folder, run } = commandFolder(t);
  const { url, keys } = await replayingService(t);
  const send = () =>
    run(
      [
        'send',
        ...['--from', 'shop@shop.example', '--to', 'ann@example.com', '--subject', 'Hello'],
        ...['--url', url, '--id', 'acc_1', '--key', 'pr_test_1'],
      ],
      { XDG_STATE_HOME: path.join(folder, 'state') },
    );
  assert.equal((await send()).code, 1);
  const states = path.join(folder, 'state/postrider/sends');
  const [name] = readdirSync(states);
  const file = path.join(states, name!);
  const stored = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify({ ...stored, startedAt: stored.startedAt - 600_000 }));
  const later = await send();
  assert.deepEqual([later.code, later.stderr], [0, '']);
  assert.notEqual(keys[1], keys[0]);
});

test('a service that cannot be reached has not accepted the email', async (t) => {
  const { folder, run } = commandFolder(t);
  const { code, stderr } = await run(
    [
      'send',
      ...['--from', 'shop@shop.example', '--to', 'ann@example.com', '--subject', 'Hello'],
      ...['--url', `http://127.0.0.1:${await freePort()}`, '--id', 'acc_1', '--key', 'pr_test_1'],
    ],
    { XDG_STATE_HOME: path.join(folder, 'state') },
  );
  assert.equal(code, 1);
  assert.doesNotMatch(stderr, /may have been accepted/);
});
