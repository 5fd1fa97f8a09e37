/**
 * A service outgrows its machine: it is stopped, exported, imported into PostgreSQL, and started there. It continues with the queued mail
 * and the same keys, domains, and secrets, and can move back in the same way.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { connectPostgres } from '../../src/storage/postgres/connection.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { runCommand, startService } from '../kit/start-service.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a service moves to another machine and back without losing mail', { timeout: 170_000 }, async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-moving-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const sink = await smtpSink();
  t.after(() => sink.close());
  const postgres = await tempPostgres();
  t.after(() => postgres.drop());
  const route = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
  const exported = path.join(folder, 'one-machine.export');

  const old = await startService({ env: { POSTRIDER_ROLES: 'api' } });
  t.after(() => old.close());
  await old.cli('domain', 'add', old.live.accountId, 'shop.example', '--verified');
  const sent: string[] = [];
  for (let i = 0; i < 25; i += 1) {
    const large = i === 7 ? 'x'.repeat(300_000) : '';
    const { status, body } = await old.api.post('/send', {
      from: 'orders@shop.example',
      to: `ann${i}@example.com`,
      subject: `Order ${i}`,
      text: `Thank you.${large}`,
    });
    assert.equal(status, 202);
    sent.push(body.data.messageId);
  }

  assert.equal((await old.kill('SIGTERM')).code, 0);
  const out = await runCommand(['export', exported, '--json'], { dataDir: old.dataDir });
  assert.equal(out.code, 0, out.stderr);
  assert.equal(JSON.parse(out.stdout).tables.message, 25);
  assert.equal(JSON.parse(out.stdout).blobs, 1);

  const dataDir = path.join(folder, 'node');
  const shared = path.join(folder, 'blobs');
  const secretKey = readFileSync(path.join(old.dataDir, 'secret.key'), 'utf8').trim();
  const env = { POSTRIDER_DATABASE_URL: postgres.url, POSTRIDER_BLOB_URL: `file://${shared}`, ...route };
  const keyless = await runCommand(['import', exported], {
    dataDir,
    env: { ...env, POSTRIDER_SECRET_KEY: Buffer.alloc(32, 1).toString('base64') },
  });
  assert.equal(keyless.code, 1);
  assert.match(keyless.stderr, /encrypted with a different key/);
  const withKey = { ...env, POSTRIDER_SECRET_KEY: secretKey };
  const moved = await runCommand(['import', exported, '--json'], { dataDir, env: withKey });
  assert.equal(moved.code, 0, moved.stderr);
  assert.deepEqual(JSON.parse(moved.stdout).tables, JSON.parse(out.stdout).tables);
  assert.match(moved.stderr, /message 25\/25/, 'progress is printed on stderr');
  const { client, destroy } = await connectPostgres(parsePostgresUrl(env.POSTRIDER_DATABASE_URL));
  const { rows } = await client.query('SELECT DISTINCT tableoid::regclass::text AS place FROM message');
  destroy();
  assert.match(JSON.stringify(rows), /^\[{"place":"message_\d{8}"}/, 'messages are stored in weekly partitions');
  const again = await runCommand(['import', exported], { dataDir, env: withKey });
  assert.equal(again.code, 1);
  assert.match(again.stderr, /already has accounts/);

  const node = await startService({ dataDir, env: withKey, joins: old.dataDir });
  t.after(() => node.close());
  await waitUntil('the queued mail to be delivered', () => sink.messages.length === 25, 60_000);
  const bySubject = new Set(sink.messages.map((mail) => /^Subject: (.*)$/m.exec(mail.content.toString())?.[1]?.trim()));
  assert.equal(bySubject.size, 25);
  for (const mail of sink.messages) assert.match(mail.content.toString('latin1'), /^DKIM-Signature: /m);
  for (const id of sent) {
    const status = async () => (await node.api.get(`/messages/${id}`)).body.status;
    await waitUntil(`${id} to be delivered`, async () => (await status()) === 'delivered');
  }
  const fresh = await node.api.post('/send', {
    from: 'orders@shop.example',
    to: 'zoe@example.com',
    subject: 'New',
    text: 'x',
    sendAt: new Date(Date.now() + 86_400_000).toISOString(),
  });
  assert.equal(fresh.status, 202);

  const back = path.join(folder, 'server.export');
  const beside = await runCommand(['export', path.join(folder, 'beside.export'), '--json'], { dataDir, env: withKey });
  assert.equal(beside.code, 0, beside.stderr);
  assert.equal(JSON.parse(beside.stdout).tables.message, 26, 'a running node is exported too');
  assert.equal((await node.kill('SIGTERM')).code, 0);
  const outAgain = await runCommand(['export', back, '--json'], { dataDir, env: withKey });
  assert.equal(outAgain.code, 0, outAgain.stderr);
  const home = path.join(folder, 'home');
  const restored = await runCommand(['import', back, '--json'], { dataDir: home });
  assert.equal(restored.code, 0, restored.stderr);
  assert.deepEqual(JSON.parse(restored.stdout).tables, JSON.parse(outAgain.stdout).tables);
  const last = await startService({
    dataDir: home,
    env: { ...route, POSTRIDER_SECRET_KEY: secretKey },
    joins: old.dataDir,
  });
  t.after(() => last.close());
  assert.equal((await last.api.get(`/messages/${fresh.body.data.messageId}`)).body.status, 'scheduled');
  assert.equal((await last.api.get(`/messages/${sent[7]}/content`)).text.length > 300_000, true);
  assert.equal(sink.messages.length, 25, 'nothing was sent twice during the move');
});
