/** Output that cannot be written: the exit code reports it, a command that waits for events ends, and a service continues. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'node:test';
import { commandFolder } from '../test/kit/command-folder.ts';
import { environment, PROGRAM } from '../test/kit/start-service.ts';
import { waitUntil } from '../test/kit/wait-until.ts';
import { runningService } from './cli/api-client.ts';

const FULL = '/dev/full';

interface Output {
  stdout?: number;
  stderr?: number;
  /** Closes the reading end of stdout before the command writes. */
  isClosed?: boolean;
}

async function run(args: string[], dataDir: string, { stdout, stderr, isClosed }: Output) {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    env: environment(dataDir),
    stdio: ['ignore', stdout ?? 'pipe', stderr ?? 'pipe'],
  });
  let errors = '';
  if (isClosed) child.stdout!.destroy();
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [code] = await once(child, 'close');
  return { code, errors };
}

test('output that cannot be written gives exit code 1 and a message', {
  skip: !existsSync(FULL) && `there is no ${FULL}`,
}, async (t) => {
  const { dataDir, json } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  const full = openSync(FULL, 'w');
  t.after(() => closeSync(full));
  const [key, help, refused, quiet] = await Promise.all([
    run(['key', 'create', accountId, '--json'], dataDir, { stdout: full }),
    run(['--help'], dataDir, { stdout: full }),
    run(['key', 'create'], dataDir, { stderr: full }),
    run(['version'], dataDir, { stderr: full }),
  ]);
  for (const lost of [key, help]) {
    assert.equal(lost.code, 1);
    assert.match(lost.errors, /^postrider: stdout cannot be written \(ENOSPC\)[^\n]*\n$/);
  }
  assert.equal(refused.code, 2, 'the code of the command');
  assert.equal(quiet.code, 0, 'there was nothing to write');
});

test('a closed output pipe ends a command without a message', async (t) => {
  const { dataDir } = commandFolder(t);
  assert.deepEqual(await run(['--help'], dataDir, { isClosed: true }), { code: 141, errors: '' });
});

test('a service continues when stdout and stderr are closed', async (t) => {
  for (const args of [['serve'], ['--json', 'serve']]) {
    const { dataDir } = commandFolder(t);
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      env: environment(dataDir),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => void child.kill('SIGKILL'));
    child.stdout.destroy();
    child.stderr.destroy();
    const ended = once(child, 'exit');
    const url = await waitUntil('the service', () => {
      assert.equal(child.exitCode, null, `${args.join(' ')} ended`);
      const { httpPort = 0 } = runningService(dataDir);
      return httpPort > 0 && `http://127.0.0.1:${httpPort}`;
    });
    assert.equal((await fetch(`${url}/health`)).status, 200);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null], args.join(' '));
  }
});

test('listen ends when its output is closed', async (t) => {
  const { dataDir } = commandFolder(t);
  const event = { eventId: 'evt_1', eventType: 'Delivery', messageId: 'msg_1', recipient: 'ann@example.com' };
  const streams: ServerResponse[] = [];
  const server = createServer((request, response) => {
    if (request.url === '/hook') {
      response.end();
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('retry: 100\n\n');
    streams.push(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = ['--url', url, '--id', 'acc_1', '--key', 'pr_test_1'];
  const child = spawn(process.execPath, [PROGRAM, 'listen', '--forward', `${url}/hook`, ...credentials], {
    env: environment(dataDir),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => void child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  child.stdout.destroy();
  for (const stream of streams) stream.write(`id: 1\ndata: ${JSON.stringify(event)}\n\n`);
  const [code] = await once(child, 'exit');
  assert.equal(code, 141);
});
