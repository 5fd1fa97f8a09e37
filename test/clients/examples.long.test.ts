/**
 * The programs in examples/, run unmodified against the real service, through a proxy that loses the first response: each retries its send
 * with the same key, and one message arrives. Languages that are not installed are skipped.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { type FaultProxy, faultProxy } from '../kit/fault-proxy.ts';
import { missing } from '../kit/requirements.ts';
import { type Service, startService } from '../kit/start-service.ts';

const examples = path.resolve(import.meta.dirname, '../../examples');
const run = promisify(execFile);
let service: Service;
let proxy: FaultProxy;
let folder: string;

before(async () => {
  service = await startService();
  proxy = await faultProxy(Number(new URL(service.url).port));
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-examples-'));
});

after(async () => {
  await proxy?.close();
  await service?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Languages that few machines have: their examples only run where they are installed. */
function absent(program: string, ...probe: string[]): string | false {
  try {
    execFileSync(program, probe, { stdio: 'ignore' });
    return false;
  } catch {
    return `${program} is not installed; the example is not run here`;
  }
}

async function runExample(program: string, ...args: string[]): Promise<void> {
  await service.sandboxApi.delete('/sandbox/inbox');
  proxy.set({ kind: 'lost' }, { methods: ['POST'], times: 1 });
  const { accountId, apiKey } = service.sandbox;
  const settings = { POSTRIDER_URL: proxy.url, POSTRIDER_ID: accountId, POSTRIDER_KEY: apiKey };
  const env = { ...process.env, ...settings, GOCACHE: path.join(folder, 'go'), GO111MODULE: 'off' };
  const { stdout } = await run(program, args, { cwd: examples, env, timeout: 120_000 });
  assert.match(stdout, /msg_[0-9A-Za-z]+/);
  assert.match(stdout, /Order 17/);
  assert.equal(proxy.met, 1, 'its first response was lost');
  const { body } = await service.sandboxApi.get('/sandbox/inbox');
  assert.equal(body.length, 1);
}

test('curl', { skip: missing('curl') }, () => runExample('sh', 'curl/send.sh'));
/** Runs the curl example against a server that gives these answers to its sends; returns its output and the keys of the sends. */
async function curlAnsweredBy(...answers: ((response: ServerResponse) => void)[]) {
  const keys: unknown[] = [];
  const server = createServer((request, response) => {
    request.resume();
    if (request.url !== '/send') {
      response.end('{"subject":"Order 17"}');
      return;
    }
    keys.push(request.headers['idempotency-key']);
    answers[keys.length - 1]!(response);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const env = { ...process.env, POSTRIDER_URL: url, POSTRIDER_ID: 'acc_1', POSTRIDER_KEY: 'pr_test_1' };
    const ran = await run('sh', ['curl/send.sh'], { cwd: examples, env, timeout: 60_000 }).catch((error) => error);
    return { code: ran.code as number | undefined, stdout: ran.stdout as string, keys };
  } finally {
    server.close();
  }
}

const answer = (status: number, body: object) => (response: ServerResponse) => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};
const refusal = (status: number, code: string) => answer(status, { error: { code } });
const accepted = answer(202, { data: { messageId: 'msg_1' } });
const incomplete = (response: ServerResponse): void => {
  response.writeHead(202, { 'content-type': 'application/json', 'content-length': '100' });
  response.write('{"data":', () => response.destroy());
};

test('curl does not retry a refusal', { skip: missing('curl') }, async () => {
  for (const [status, code] of [
    [401, 'UNAUTHORIZED'],
    [409, 'SUBMISSION_ALREADY_USED'],
  ] as const) {
    const refused = await curlAnsweredBy(refusal(status, code));
    assert.deepEqual([refused.code, refused.keys.length], [22, 1]);
    assert.match(refused.stdout, new RegExp(code));
  }
});
test('curl repeats an incomplete response and a request in progress with the same key', {
  skip: missing('curl'),
}, async () => {
  const sent = await curlAnsweredBy(incomplete, refusal(409, 'DUPLICATE_REQUEST_IN_PROGRESS'), accepted);
  assert.equal(sent.code, undefined, sent.stdout);
  assert.match(sent.stdout, /msg_1[\s\S]*Order 17/);
  assert.deepEqual([sent.keys.length, new Set(sent.keys).size], [3, 1]);
});
test('Python', { skip: missing('python3') }, () => runExample('python3', 'python/send.py'));
test('PHP', { skip: absent('php', '-r', 'exit(function_exists("curl_init") ? 0 : 1);') }, () =>
  runExample('php', 'php/send.php'),
);
test('Go', { skip: absent('go', 'version') }, () => runExample('go', 'run', 'go/send.go'));
