/**
 * HAProxy with the configuration in docs/guides/reverse-proxy.md, in front of HTTP and of every SMTP port, and nginx's stream module: each
 * client keeps its own address for limits, logins, and stored messages.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type http from 'node:http';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { freePorts } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { connectTalker, plainResponse, type Talker } from '../kit/smtp-talker.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

const NAME = 'mail.example.com';
/** Addresses of this machine; proxies connect from 127.0.0.1, the only trusted address. */
const CLIENT = '127.0.0.9';
const STRANGER = '127.0.0.66';
const document = readFileSync(path.join(import.meta.dirname, '../../docs/guides/reverse-proxy.md'), 'utf8');

function printed(language: string, part: RegExp): string {
  const blocks = document.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'));
  const found = [...blocks].map(([, text = '']) => text).find((text) => part.test(text));
  assert.ok(found, `docs/guides/reverse-proxy.md prints settings for ${language} with ${part}`);
  return found;
}

function replaced(text: string, pairs: [string, string][]): string {
  return pairs.reduce((now, [from, to]) => {
    assert.ok(now.includes(from), `${from} is in ${now}`);
    // A port inserted earlier may start with the digits of another one.
    return now.replace(new RegExp(`${RegExp.escape(from)}(?!\\d)`, 'g'), () => to);
  }, text);
}

function run(t: TestContext, program: string, args: string[]): { said(): string; child: ChildProcess } {
  let said = '';
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };
  const child = spawn(program, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr?.on('data', (chunk) => {
    said += chunk;
  });
  t.after(() => {
    child.kill('SIGTERM');
  });
  return { said: () => said, child };
}

async function prepare(t: TestContext): Promise<{ service: Service; folder: string }> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-proxy-'));
  const service = await startService({
    env: {
      POSTRIDER_TRUSTED_PROXIES: '127.0.0.1',
      POSTRIDER_SMTPS_PORT: '0',
      POSTRIDER_INBOUND_PORT: '0',
      POSTRIDER_BOUNCE_DOMAIN: 'bounces.example.com',
      POSTRIDER_SMTP_MAX_CONNECTIONS_PER_ADDRESS: '1',
      POSTRIDER_INBOUND_MAX_CONNECTIONS_PER_ADDRESS: '1',
    },
  });
  t.after(async () => {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { service, folder };
}

/** The greeting once the proxy listens. */
async function greeted(port: number, from: string, isTls = false): Promise<Talker> {
  let talker: Talker | undefined;
  await waitUntil('the greeting through the proxy', async () => {
    talker = await connectTalker(port, { localAddress: from }).catch(() => undefined);
    if (talker && isTls) await talker.startTls();
    return talker !== undefined;
  });
  assert.match(await talker!.reply(), /^220 /);
  return talker!;
}

/** One connection per client, not a shared one. */
async function assertOwnAddresses(port: number, isTls = false): Promise<Talker> {
  const first = await greeted(port, CLIENT, isTls);
  const second = await connectTalker(port, { localAddress: CLIENT });
  if (isTls) await second.startTls();
  assert.match(await second.reply(), /^421 4\.7\.0 too many connections from your address/);
  const other = await greeted(port, STRANGER, isTls);
  other.destroy();
  second.destroy();
  return first;
}

/** Through a proxy: two clients are limited separately, and the stored message has its client's address. */
async function assertSubmission(service: Service, port: number, isTls = false): Promise<void> {
  const talker = await assertOwnAddresses(port, isTls);
  if (isTls) await talker.say('EHLO client.example');
  else await talker.secure();
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(service.smtpCredential)}`), /^235 /);
  // Held, so that nothing is delivered yet (RFC 4865).
  await talker.say('MAIL FROM:<a@shop.example> HOLDFOR=3600');
  // Another one each time: a retry bounces because the domain does not exist, and suppresses its address.
  await talker.say(`RCPT TO:<ann-${port}@example.com>`);
  await talker.say('DATA');
  const accepted = await talker.say('From: a@shop.example\r\nSubject: Hello\r\n\r\nx\r\n.');
  const [, id = ''] = /queued as (msg_\w+)/.exec(accepted) ?? [];
  const shown = await runCommand(['queue', 'retry', id], { dataDir: service.dataDir });
  assert.ok(shown.stdout.includes(` ${CLIENT}\n`), `${accepted} ${JSON.stringify(shown)}`);
  talker.destroy();
}

test('HAProxy with the configuration of docs/guides/reverse-proxy.md', {
  skip: missing('haproxy', 'openssl'),
}, async (t) => {
  const { service, folder } = await prepare(t);
  const { cert, key } = testCertificate([NAME]);
  writeFileSync(path.join(folder, 'site.pem'), cert + key);
  const [web = 0, submission = 0, submissions = 0, inbound = 0] = await freePorts(4);
  const file = path.join(folder, 'haproxy.cfg');
  const settings = replaced(printed('haproxy', /send-proxy/), [
    ['/etc/haproxy/mail.example.com.pem', path.join(folder, 'site.pem')],
    ['bind :443 ', `bind 127.0.0.1:${web} `],
    ['bind :587', `bind 127.0.0.1:${submission}`],
    ['bind :465', `bind 127.0.0.1:${submissions}`],
    ['bind :25\n', `bind 127.0.0.1:${inbound}\n`],
    ['127.0.0.1:3000', `127.0.0.1:${new URL(service.url).port}`],
    // HAProxy's health checks send LOCAL, and do not wait for a greeting.
    ['127.0.0.1:2587 send-proxy-v2', `127.0.0.1:${service.smtpPort} send-proxy-v2 check check-send-proxy inter 200ms`],
    ['127.0.0.1:2465', `127.0.0.1:${service.smtpsPort}`],
    ['127.0.0.1:2525', `127.0.0.1:${service.inboundPort}`],
  ]);
  writeFileSync(file, `defaults\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\n${settings}`);
  const { said, child } = run(t, 'haproxy', ['-db', '-f', file]);
  const call = (at: string, from: string, body?: object): Promise<{ status: number; cookie: string }> =>
    new Promise((resolve, reject) => {
      const request = https.request({
        host: '127.0.0.1',
        port: web,
        path: at,
        servername: NAME,
        ca: cert,
        agent: false,
        localAddress: from,
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          Host: `${NAME}:${web}`,
          'Content-Type': 'application/json',
          Origin: `https://${NAME}:${web}`,
          'X-Forwarded-For': '203.0.113.9',
        },
      });
      request.on('error', reject).on('response', (response: http.IncomingMessage) => {
        response.resume();
        resolve({ status: response.statusCode ?? 0, cookie: String(response.headers['set-cookie']) });
      });
      request.end(body && JSON.stringify(body));
    });
  await waitUntil('HAProxy', async () => {
    if (child.exitCode !== null) throw new Error(said());
    return call('/health', CLIENT).then(
      ({ status }) => status === 200,
      () => false,
    );
  });

  assert.equal((await call('/metrics', CLIENT)).status, 401);
  const { password } = (await service.cli('user', 'create', '--email', 'op@example.com', '--operator')) as JsonObject;
  const right = { email: 'op@example.com', password };
  const statuses: number[] = [];
  for (let count = 0; count < 31; count += 1) {
    statuses.push((await call('/session', STRANGER, { email: `nobody${count}@example.com`, password: 'x' })).status);
  }
  assert.deepEqual([statuses.at(0), statuses.at(-1)], [401, 429]);
  assert.equal((await call('/session', STRANGER, right)).status, 429, 'the blocked client is locked out');
  const signedIn = await call('/session', CLIENT, right);
  assert.equal(signedIn.status, 200, 'other clients are not');
  assert.match(signedIn.cookie, /; Secure$/);

  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await assertSubmission(service, submission);
  await assertSubmission(service, submissions, true);
  (await assertOwnAddresses(inbound)).destroy();
  assert.doesNotMatch(service.log, /PROXY protocol/, 'neither clients nor health checks are reported');
});

const MODULES = ['/usr/lib/nginx/modules', process.env.TEST_NGINX_MODULES ?? ''];
const streamModule = MODULES.map((folder) => path.join(folder, 'ngx_stream_module.so')).find((file) =>
  existsSync(file),
);

test('nginx as a TCP proxy with the configuration of docs/guides/reverse-proxy.md', {
  skip: missing('nginx') || (streamModule === undefined && 'nginx has no stream module'),
}, async (t) => {
  const { service, folder } = await prepare(t);
  const [submission = 0] = await freePorts(1);
  const stream = replaced(printed('nginx', /proxy_protocol on/), [
    ['listen 587', `listen 127.0.0.1:${submission}`],
    ['127.0.0.1:2587', `127.0.0.1:${service.smtpPort}`],
  ]);
  const file = path.join(folder, 'nginx.conf');
  const start = `load_module ${streamModule}; daemon off; pid ${folder}/pid; error_log stderr; events {}`;
  writeFileSync(file, `${start}\n${stream}`);
  run(t, 'nginx', ['-c', file, '-p', folder, '-e', 'stderr']);
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await assertSubmission(service, submission);
});
