/**
 * The account that the command line sends for: from options, the environment, the profile saved by `postrider login`, and first-run.json.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { runCommand, type Service } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;
let home: string;

before(async () => {
  home = mkdtempSync(path.join(os.tmpdir(), 'postrider-home-'));
  ({ sink, service } = await openShop());
});
after(async () => {
  rmSync(home, { recursive: true, force: true });
  await closeShop({ sink, service });
});

const MAIL = ['--from', 'a@shop.example', '--to', 'ann@example.com', '--subject', 'Hello'];

interface Where {
  env?: Record<string, string>;
  dataDir?: string;
}

/** As from a user's own directory, unless the service's directory is named. */
const run = (args: string[], { env = {}, dataDir = path.join(home, 'none') }: Where = {}) =>
  runCommand(args, { dataDir, env: { HOME: home, XDG_CONFIG_HOME: '', XDG_STATE_HOME: '', ...env } });

/** The mode of the message at the service, which only the key determines. */
async function modeOf(stdout: string): Promise<string | undefined> {
  const id = /^(msg_\w+) /.exec(stdout)?.[1];
  for (const api of [service.api, service.sandboxApi]) {
    const found = await api.get(`/messages/${id}`);
    if (found.status === 200) return found.body.mode;
  }
  return undefined;
}

test('next to a data directory, send uses the sandbox key of first-run.json, or --live', async () => {
  const { dataDir } = service;
  const sandbox = await run(['send', ...MAIL], { dataDir });
  assert.match(sandbox.stdout, /^msg_\w+ queued in the sandbox\n$/, sandbox.stderr);
  assert.equal(await modeOf(sandbox.stdout), 'sandbox');
  const live = await run(['send', ...MAIL, '--live'], { dataDir });
  assert.match(live.stdout, /^msg_\w+ queued\n$/, live.stderr);
  assert.equal(await modeOf(live.stdout), 'live');
  await waitUntil('the live message at the peer', () => sink.messages.length === 1);
  const elsewhere = await run(['send', ...MAIL, '--url', 'http://mail.example.com'], { dataDir });
  assert.equal(elsewhere.code, 2);
  assert.match(elsewhere.stderr, /the saved key is for http:\/\/127\.0\.0\.1:\d+, not for http:\/\/mail\.example\.com/);
});

test('without credentials the command prints what to do', async () => {
  const none = await run(['send', ...MAIL]);
  assert.equal(none.code, 2);
  assert.match(none.stderr, /use --id and --key, run postrider login, or run this command in the folder of a service/);
  const half = await run(['send', ...MAIL, '--id', service.live.accountId]);
  assert.match(half.stderr, /POSTRIDER_KEY is required/);
});

test('login saves a valid key for its owner only, and send uses it', async () => {
  const { accountId, apiKey } = service.sandbox;
  const login = ['login', '--url', `${service.url}/`, '--id', accountId, '--key'];
  const wrong = await run([...login, 'pr_test_wrong', '--json']);
  assert.equal(wrong.code, 1);
  assert.equal(JSON.parse(wrong.stdout).error.code, 'UNAUTHORIZED');
  assert.equal((await run(['send', ...MAIL])).code, 2, 'a rejected key is not saved');

  const kept = await run([...login, apiKey, '--json']);
  assert.equal(kept.code, 0, kept.stderr);
  assert.equal(kept.stdout.includes(apiKey), false);
  const { file } = JSON.parse(kept.stdout);
  assert.equal(file, path.join(home, '.config/postrider/default.json'));
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(path.dirname(file)).mode & 0o777, 0o700);
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).url, service.url);
  assert.equal(await modeOf((await run(['send', ...MAIL])).stdout), 'sandbox');

  const { body } = await service.api.post('/api-keys', { mode: 'live', scope: 'send' });
  const xdg = { XDG_CONFIG_HOME: path.join(home, 'xdg') };
  const second = await run([...login, String(body.apiKey), '--profile', 'shop'], { env: xdg });
  assert.equal(second.code, 0, second.stderr);
  assert.match(second.stdout, /xdg\/postrider\/shop\.json/);
  const withProfile = await run(['send', ...MAIL, '--profile', 'shop'], { env: xdg });
  assert.equal(await modeOf(withProfile.stdout), 'live', withProfile.stderr);
  assert.match((await run(['send', ...MAIL, '--profile', 'no'])).stderr, /there is no profile no/);
});

test('precedence: options, environment, profile, first-run.json', async () => {
  const { dataDir } = service;
  const { accountId, apiKey } = service.sandbox;
  const wrong = { POSTRIDER_ID: accountId, POSTRIDER_KEY: 'pr_test_wrong', POSTRIDER_URL: service.url };
  const byEnvironment = await run(['send', ...MAIL], { env: wrong, dataDir });
  assert.match(byEnvironment.stderr, /401 UNAUTHORIZED/, 'not the existing profile');
  const byOptions = await run(['send', ...MAIL, '--id', accountId, '--key', apiKey], { env: wrong, dataDir });
  assert.equal(byOptions.code, 0, byOptions.stderr);
  const file = path.join(home, '.config/postrider/default.json');
  writeFileSync(file, readFileSync(file, 'utf8').replace(apiKey, 'pr_test_wrong'));
  assert.match((await run(['send', ...MAIL], { dataDir })).stderr, /401 UNAUTHORIZED/, 'not first-run.json');
  const elsewhere = await run(['send', ...MAIL, '--url', 'http://localhost:1'], { dataDir });
  assert.match(elsewhere.stderr, /the saved key is for/, 'a saved key is sent nowhere else');
});
