import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { noLocalS3, startLocalS3 } from '../kit/s3.ts';
import { largeMail, s3Service } from '../kit/s3-service.ts';
import { runCommand } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const skip = noLocalS3;

test('a rejected bucket, key, or secret stops the start with one line naming the variable', {
  skip,
}, async (t) => {
  const peer = await startLocalS3();
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-wrong-'));
  t.after(async () => {
    await peer.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const right = peer.environment();
  const wrong: [string, Record<string, string>, RegExp][] = [
    [
      'bucket',
      { POSTRIDER_BLOB_URL: right.POSTRIDER_BLOB_URL!.replace(/s3:\/\/[^/]+\//, 's3://elsewhere/') },
      /404 NoSuchBucket/,
    ],
    ['key', { AWS_ACCESS_KEY_ID: 'nobody:here' }, /403 \w+/],
    ['secret', { AWS_SECRET_ACCESS_KEY: 'not-the-secret' }, /403 SignatureDoesNotMatch/],
    [
      'region',
      { POSTRIDER_BLOB_URL: right.POSTRIDER_BLOB_URL!.replace('us-east-1', 'eu-west-9') },
      /400 AuthorizationHeaderMalformed/,
    ],
  ];
  for (const [what, changes, reason] of wrong) {
    const env: Record<string, string> = { ...right, ...changes, POSTRIDER_LOG_LEVEL: 'warn' };
    const { code, stderr } = await runCommand(['serve'], { dataDir, env });
    assert.equal(code, 1, `${what}: ${stderr}`);
    const lines = stderr.trim().split('\n');
    assert.equal(lines.length, 1, stderr);
    assert.match(lines[0]!, /^postrider: POSTRIDER_BLOB_URL: bucket /, what);
    assert.match(lines[0]!, reason, what);
    assert.ok(!stderr.includes(env.AWS_SECRET_ACCESS_KEY!), 'no secret is printed');
    assert.equal(await doctorSays(dataDir, env), 'fail');
  }
  assert.equal(await doctorSays(dataDir, right), 'ok', 'control: the right settings');
});

async function doctorSays(dataDir: string, env: Record<string, string>): Promise<string> {
  const quiet = { POSTRIDER_ROUTE: 'smtp://127.0.0.1:1', POSTRIDER_DNS_SERVERS: '127.0.0.1:1' };
  const { stdout } = await runCommand(['doctor', '--json'], { dataDir, env: { ...env, ...quiet } });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string }[] };
  return checks.find((check) => check.name === 'blob storage')?.status ?? 'none';
}

test('a store that does not respond does not block the start: small mail flows, large follows', {
  skip,
}, async (t) => {
  const { proxy, sink, service } = await s3Service(t);
  await service.kill('SIGTERM');
  proxy.set({ kind: 'down' });
  await service.restart();
  await waitUntil('the warning', () => service.log.includes('POSTRIDER_BLOB_URL: the store does not answer'));
  const mail = largeMail('a@x.example');
  assert.equal((await service.api.post('/send', { ...mail, text: 'small' })).status, 202);
  await waitUntil('the delivery', () => sink.messages.length === 1);
  assert.equal((await service.api.post('/send', mail)).status, 503);
  proxy.set();
  assert.equal((await service.api.post('/send', mail)).status, 202);
  await waitUntil('the delivery', () => sink.messages.length === 2);
});
