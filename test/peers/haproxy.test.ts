/**
 * HAProxy with the configuration in deploy/, in front of two faulty nodes: it retries only what is safe to retry. A node that returns 503
 * has accepted nothing; one that dies without a response may have.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';

const file = path.resolve(import.meta.dirname, '../../deploy/haproxy.cfg');

type Behaviour = 'answer' | 'refuse' | 'die';

interface FakeNode {
  port: number;
  /** Requests received, except for health checks. */
  asked: string[];
  behaviour: Behaviour;
  close(): Promise<void>;
}

async function fakeNode(): Promise<FakeNode> {
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    if (request.url === '/ready') return void response.end('{}');
    node.asked.push(`${request.method} ${request.url}`);
    request.resume().on('end', () => {
      if (node.behaviour === 'die') request.socket.destroy();
      else response.writeHead(node.behaviour === 'refuse' ? 503 : 202).end('{}');
    });
  };
  const server: Server = createServer(handle);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const node: FakeNode = {
    port: (server.address() as AddressInfo).port,
    asked: [],
    behaviour: 'answer',
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return node;
}

interface How {
  method: string;
  body?: string;
  headers?: Record<string, string>;
}

/** On a new connection: on a kept one, HAProxy closes the connection instead of returning a 502. */
function statusOf(url: string, { method, body, headers = {} }: How): Promise<number> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { agent: false, method, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0));
    });
    asking.on('error', reject).end(body);
  });
}

test('only rejected or idempotent requests are retried on a second node', {
  skip: missing('haproxy'),
  timeout: 150_000,
}, async (t) => {
  const nodes = [await fakeNode(), await fakeNode()];
  const port = await freePort();
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-haproxy-'));
  // These names only resolve inside the compose network.
  const configuration = readFileSync(file, 'utf8')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replaceAll('node-1:3000', `127.0.0.1:${nodes[0]!.port}`)
    .replaceAll('node-2:3000', `127.0.0.1:${nodes[1]!.port}`);
  writeFileSync(path.join(folder, 'haproxy.cfg'), configuration);
  let said = '';
  const child: ChildProcess = spawn('haproxy', ['-db', '-f', path.join(folder, 'haproxy.cfg')], {
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  child.stderr?.on('data', (chunk) => {
    said += chunk;
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  t.after(async () => {
    child.kill('SIGKILL');
    await ended;
    for (const node of nodes) await node.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${port}`;
  await waitUntil('the balancer', async () => {
    if (child.exitCode !== null) throw new Error(said);
    return fetch(`${url}/up`).then(
      (answer) => answer.status === 202,
      () => false,
    );
  });

  const ask = async (how: How, behaviours: Behaviour[]): Promise<{ statuses: number[]; asked: number }> => {
    const statuses: number[] = [];
    for (const node of nodes) node.asked = [];
    // Twice, so that each node is the first one once.
    for (let round = 0; round < 2; round += 1) {
      for (const [index, node] of nodes.entries()) node.behaviour = behaviours[index]!;
      statuses.push(await statusOf(`${url}/send`, how));
    }
    return { statuses: statuses.sort(), asked: nodes[0]!.asked.length + nodes[1]!.asked.length };
  };
  const post = { method: 'POST', body: '{}' };
  const keyed = { ...post, headers: { 'Idempotency-Key': 'k' } };
  for (const how of [post, keyed, { method: 'GET' }]) {
    assert.deepEqual((await ask(how, ['refuse', 'answer'])).statuses, [202, 202], `${JSON.stringify(how)}: refused`);
  }
  assert.deepEqual((await ask(keyed, ['die', 'answer'])).statuses, [202, 202]);
  assert.deepEqual((await ask({ method: 'GET' }, ['die', 'answer'])).statuses, [202, 202]);
  assert.deepEqual(await ask(post, ['die', 'answer']), { statuses: [202, 502], asked: 2 }, 'each was sent once');
});
