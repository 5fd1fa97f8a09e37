/** A send whose response is lost: the same command does not send the email twice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import test from 'node:test';
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
  assert.match(lost.stderr, /Try: repeat the same command, which does not send the email twice/);
  assert.deepEqual([(await send()).code, (await send()).code], [1, 0]);
  assert.equal((await send()).code, 1, 'a final refusal');
  assert.equal((await send()).code, 0);
  assert.match(String(keys[0]), /^send-/);
  assert.deepEqual(keys.slice(1, 3), [keys[0], keys[0]]);
  assert.equal(new Set(keys.slice(2)).size, 3, 'each response ends a send');
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
