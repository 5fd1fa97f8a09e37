/**
 * An upgrade from the data of an earlier version, which test/fixtures/upgrade/make.ts made: messages that were queued, deferred,
 * and scheduled are delivered once, rejected webhook requests are repeated until they are accepted, and users, keys, templates, and
 * suppressions work. The clock of the service shows the time two hours after the earlier version stopped, because messages expire.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import pg from 'pg';
import { listMigrations } from '../../src/storage/migrate.ts';
import { HOOK_PORT, KEY_FILE, type UpgradeFacts } from '../fixtures/upgrade/facts.ts';
import { type Api, apiClient } from '../kit/api.ts';
import { missing } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { DIALECTS, type Dialect } from '../kit/temp-database.ts';
import { tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { webhookCatcher } from '../kit/webhook-catcher.ts';

const fixtures = path.resolve(import.meta.dirname, '../fixtures/upgrade');
const TWO_HOURS_MS = 7_200_000;

interface Earlier {
  dataDir: string;
  /** Settings for the database and the clock. */
  settings: Record<string, string>;
}

/** Restores the data of the earlier version, and sets the clock of everything that reads it. */
async function restoreEarlier(t: TestContext, dialect: Dialect, { madeAtMs }: UpgradeFacts): Promise<Earlier> {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-upgrade-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const archive = path.join(fixtures, dialect, 'data.tar.gz');
  execFileSync('tar', ['--extract', '--gzip', '--file', archive, '--directory', dataDir]);
  const offsetMs = madeAtMs + TWO_HOURS_MS - Date.now();
  const preload = path.join(dataDir, 'clock.mjs');
  writeFileSync(preload, `const { now } = Date;\nDate.now = () => now() + ${offsetMs};\n`);
  const clock = { NODE_OPTIONS: `--import ${preload}` };
  if (dialect === 'sqlite') return { dataDir, settings: { ...clock, POSTRIDER_BACKUP_BEFORE_UPGRADE: 'on' } };
  const { url, name, drop } = await tempPostgres();
  t.after(drop);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(gunzipSync(readFileSync(path.join(fixtures, dialect, 'database.sql.gz'))).toString());
  await client.query(
    `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
     AS $$ SELECT pg_catalog.clock_timestamp() + interval '${offsetMs} milliseconds' $$`,
  );
  // Names are found in public first, so the function replaces the server's own.
  await client.query(`ALTER DATABASE ${name} SET search_path = public, pg_catalog`);
  await client.end();
  const blobs = `file://${path.join(dataDir, 'blobs')}`;
  return { dataDir, settings: { ...clock, POSTRIDER_DATABASE_URL: url, POSTRIDER_BLOB_URL: blobs } };
}

const skip = missing('tar');
const HOOK_TYPES = ['Send', 'Delivery', 'DeliveryDelay'];

/** Returns the IDs of all events of the types that the webhook receives. */
async function eventsOf(api: Api): Promise<string[]> {
  const answer = await api.get('/events?limit=100');
  const events = answer.body as unknown as { eventId: string; eventType: string }[];
  assert.ok(events.length < 100, 'all events are on one page');
  return events.filter(({ eventType }) => HOOK_TYPES.includes(eventType)).map(({ eventId }) => eventId);
}

async function upgrade(t: TestContext, dialect: Dialect): Promise<void> {
  const facts = JSON.parse(readFileSync(path.join(fixtures, dialect, 'facts.json'), 'utf8')) as UpgradeFacts;
  const unsent = [...facts.deferred, ...facts.queued, ...facts.scheduled];
  const { dataDir, settings } = await restoreEarlier(t, dialect, facts);
  const sink = await smtpSink();
  t.after(() => sink.close());
  const catcher = await webhookCatcher({ port: HOOK_PORT });
  t.after(() => catcher.close());
  const env = {
    ...settings,
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
  };
  const before = await runCommand(['migrate', '--status', '--json'], { dataDir, env });
  const { applied, pending } = JSON.parse(before.stdout) as { applied: { name: string }[]; pending: string[] };
  assert.ok(applied.length > 40 && pending.length > 5, before.stdout);

  // Nodes that share the database start at the same time: one migrates, and each message is sent by one of them.
  const secretKey = readFileSync(path.join(dataDir, 'secret.key'), 'utf8').trim();
  const other = { env: { ...env, POSTRIDER_SECRET_KEY: secretKey }, joins: dataDir };
  const nodes = await Promise.all([
    startService({ dataDir, env }),
    ...(dialect === 'postgres' ? [startService(other)] : []),
  ]);
  t.after(() => Promise.all(nodes.map((node) => node.close())));
  const [service] = nodes as [Service, ...Service[]];
  const backups = readdirSync(dataDir).filter((name) => name.endsWith('.backup'));
  const backup = `postrider-before-upgrade-from-${applied.at(-1)!.name.slice(0, 4)}.backup`;
  assert.deepEqual(backups, dialect === 'sqlite' ? [backup] : []);
  const after = await runCommand(['migrate', '--status', '--json'], { dataDir, env });
  assert.equal(JSON.parse(after.stdout).applied.length, listMigrations(dialect).length);

  const apiKey = readFileSync(path.join(dataDir, KEY_FILE), 'utf8');
  const api = apiClient(() => service.url, { accountId: service.live.accountId, apiKey });
  t.after(() => api.close());
  const status = async (id: string): Promise<string> => String((await api.get(`/messages/${id}`)).body.status);
  for (const id of unsent)
    await waitUntil(`the delivery of ${id}`, async () => (await status(id)) === 'delivered', 60_000);
  assert.equal(await status(facts.delivered[0]!), 'delivered');

  const sent = await api.post('/send', {
    from: 'shop@shop.example',
    to: ['new@example.com', facts.suppressed],
    templateId: facts.templateId,
    templateVariables: { number: 8 },
  });
  assert.equal(sent.status, 202, sent.text);
  const toNew = (): boolean => sink.messages.some(({ to }) => to.includes('new@example.com'));
  await waitUntil('the delivery of a new message', toNew);
  const expected = [
    'deferred-1',
    'deferred-2',
    'queued-1',
    'queued-large',
    'queued-template',
    'scheduled-1',
    'scheduled-2',
    'new',
  ].map((name) => `${name}@example.com`);
  const recipients = (): string[] => sink.messages.flatMap(({ to }) => to).sort();
  assert.deepEqual(recipients(), expected.sort());
  const contentOf = (name: string): string =>
    String(sink.messages.find(({ to }) => to.includes(`${name}@example.com`))!.content);
  assert.match(contentOf('queued-template'), /Thank you for order 7\./);
  assert.match(contentOf('new'), /Thank you for order 8\./);
  assert.equal(contentOf('queued-large').match(/A line of a large email\./g)?.length, 5_000);
  assert.match(contentOf('scheduled-1'), /^DKIM-Signature:/im);

  const login = await service.anonymous.call({
    method: 'POST',
    path: '/session',
    body: { email: facts.email, password: facts.password },
    headers: { origin: service.url, 'x-requested-with': 'postrider' },
  });
  assert.equal(login.status, 200, login.text);
  assert.equal((await service.api.get(`/webhooks/${facts.webhookId}`)).status, 200, 'the first key');

  const posted = (): string[] => catcher.requests.map(({ headers }) => String(headers['webhook-id'])).sort();
  const allPosted = async (): Promise<boolean> => posted().length >= (await eventsOf(api)).length;
  await waitUntil('the webhook requests', allPosted, 60_000);
  const events = (await eventsOf(api)).sort();
  assert.ok(events.length >= 2 * unsent.length + facts.deferred.length, String(events.length));
  assert.deepEqual(posted(), events);

  // A restart repeats nothing.
  const messages = sink.messages.length;
  for (const node of nodes) {
    assert.deepEqual(await node.kill('SIGTERM'), { code: 0, signal: null });
    await node.restart();
  }
  const last = await api.post('/send', { from: 'shop@shop.example', to: 'last@example.com', subject: 'x', text: 'x' });
  await waitUntil('the last delivery', async () => (await status(last.body.data.messageId)) === 'delivered');
  await waitUntil('its webhook requests', allPosted, 60_000);
  assert.equal(sink.messages.length, messages + 1);
  assert.deepEqual(posted(), (await eventsOf(api)).sort());
}

for (const dialect of DIALECTS) {
  test(
    `${dialect}: an upgrade delivers what the earlier version had accepted, once, and keeps users, keys, and templates`,
    {
      skip,
      timeout: 300_000,
    },
    (t) => upgrade(t, dialect),
  );
}
