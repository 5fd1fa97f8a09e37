/**
 * The nginx and Caddy configurations in docs/guides/reverse-proxy.md, run as printed except for file names and ports: API calls, uploads,
 * event streams, changes with a login, and the client's address.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { freePorts } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

const NAME = 'mail.example.com';
/** An address of this machine from which proxies do not connect. */
const CLIENT = '127.0.0.9';
const STRANGER = '127.0.0.66';
const document = readFileSync(path.join(import.meta.dirname, '../../docs/guides/reverse-proxy.md'), 'utf8');

function printed(language: string): string {
  const [, text] = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(document) ?? [];
  assert.ok(text, `docs/guides/reverse-proxy.md prints settings for ${language}`);
  return text;
}

interface Proxy {
  port: number;
  /** Port of the service behind it. */
  behind: number;
  folder: string;
}

/** Replaces text that must exist. */
function replaced(text: string, pairs: [string, string][]): string {
  return pairs.reduce((now, [from, to]) => {
    assert.ok(now.includes(from), `${from} is in ${now}`);
    return now.replaceAll(from, to);
  }, text);
}

function startNginx({ port, behind, folder }: Proxy): ChildProcess {
  const live = '/etc/letsencrypt/live/mail.example.com';
  const server = replaced(printed('nginx'), [
    ['listen 443 ssl', `listen 127.0.0.1:${port} ssl`],
    [`${live}/fullchain.pem`, path.join(folder, 'cert.pem')],
    [`${live}/privkey.pem`, path.join(folder, 'key.pem')],
    ['127.0.0.1:3000', `127.0.0.1:${behind}`],
  ]);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (one) => `${one}_temp_path ${folder}/${one};`,
  );
  const file = path.join(folder, 'nginx.conf');
  const whole = `daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off; ${temporary.join(' ')}\n${server}}\n`;
  writeFileSync(file, whole);
  return spawn('nginx', ['-c', file, '-p', folder, '-e', 'stderr'], {
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    stdio: 'ignore',
  });
}

function startCaddy({ port, behind, folder }: Proxy): ChildProcess {
  // Its certificate comes from a public CA, which a test does not use.
  const site = replaced(printed('caddy'), [
    ['mail.example.com {', `mail.example.com:${port} {\n  bind 127.0.0.1\n  tls ${folder}/cert.pem ${folder}/key.pem`],
    ['127.0.0.1:3000', `127.0.0.1:${behind}`],
  ]);
  const file = path.join(folder, 'Caddyfile');
  writeFileSync(file, `{\n  admin off\n  auto_https disable_redirects\n  skip_install_trust\n}\n${site}`);
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  return spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], { env, stdio: 'ignore' });
}

interface Answer {
  status: number;
  text: string;
  headers: Record<string, unknown>;
}

interface Call {
  method?: string;
  headers?: Record<string, string>;
  body?: string | Buffer;
  /** Address that the client connects from. */
  from?: string;
}

function caller(port: number) {
  const connection = {
    host: '127.0.0.1',
    port,
    servername: NAME,
    ca: testCertificate([NAME]).cert,
    agent: false,
  } as const;
  const open = (at: string, { method = 'GET', headers = {}, from = CLIENT }: Call) =>
    https.request({
      ...connection,
      localAddress: from,
      path: at,
      method,
      headers: { Host: `${NAME}:${port}`, ...headers },
    });
  const call = (at: string, options: Call = {}): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const request = open(at, options).once('error', reject);
      request.once('response', (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part;
        });
        response.once('end', () => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }));
      });
      request.end(options.body);
    });
  return { open, call };
}

async function behindProxy(t: TestContext, start: (proxy: Proxy) => ChildProcess) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-proxy-'));
  const { cert, key } = testCertificate([NAME]);
  writeFileSync(path.join(folder, 'cert.pem'), cert);
  writeFileSync(path.join(folder, 'key.pem'), key);
  const [port = 0] = await freePorts(1);
  const service = await startService({
    env: { POSTRIDER_BASE_URL: `https://${NAME}:${port}`, POSTRIDER_TRUSTED_PROXIES: '127.0.0.1' },
  });
  const child = start({ port, behind: Number(new URL(service.url).port), folder });
  t.after(async () => {
    child.kill('SIGTERM');
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const { open, call } = caller(port);
  await waitUntil('the proxy to answer', () =>
    call('/health').then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  return { service, port, open, call };
}

type Behind = Awaited<ReturnType<typeof behindProxy>>;

const withKey = ({ live }: Service): Record<string, string> => ({
  'X-Api-Key': live.apiKey,
  'X-Id': live.accountId,
  'Content-Type': 'application/json',
});

/** A large message: upload URLs with the public address, and files above the proxy's default limits. */
async function upload({ service, port, call }: Behind): Promise<void> {
  const { accountId } = service.live;
  await service.cli('account', 'set', accountId, '--email-limit', '20000000');
  const file = Buffer.alloc(5_000_000, 'x');
  const { createHash } = await import('node:crypto');
  const sha256 = createHash('sha256').update(file).digest('hex');
  const body = JSON.stringify({
    attachments: [{ name: 'a.bin', contentType: 'application/octet-stream', sizeBytes: file.length, sha256 }],
  });
  const registered = await call('/attachments', { method: 'POST', headers: withKey(service), body });
  assert.equal(registered.status, 201, registered.text);
  const { attachmentUploads } = JSON.parse(registered.text) as {
    attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  };
  const { uploadUrl, requiredHeaders } = attachmentUploads[0]!;
  assert.ok(uploadUrl.startsWith(`https://${NAME}:${port}/`), uploadUrl);
  const { pathname, search } = new URL(uploadUrl);
  const put = await call(pathname + search, { method: 'PUT', headers: requiredHeaders, body: file });
  assert.equal(put.status, 200, put.text);
}

/** The first byte of the stream must arrive while the stream is open. */
async function stream({ service, open, call }: Behind): Promise<void> {
  const headers = { ...withKey(service), 'X-Api-Key': service.sandbox.apiKey };
  let text = '';
  const request = open('/events/stream', { headers });
  request.once('response', (response) =>
    response.setEncoding('utf8').on('data', (part: string) => {
      text += part;
    }),
  );
  request.on('error', () => undefined).end();
  const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Hello', text: 'x' };
  await waitUntil('an event', async () => {
    const sent = await call('/send', { method: 'POST', headers, body: JSON.stringify(mail) });
    assert.equal(sent.status, 202, sent.text);
    return text.includes('Delivery');
  });
  request.destroy();
}

/** Logs in and changes something as a browser at the public address does. */
async function signIn({ service, port, call }: Behind): Promise<void> {
  const { email, password } = (await service.cli(
    'user',
    'create',
    '--email',
    'op@example.com',
    '--operator',
  )) as JsonObject;
  const headers = {
    'Content-Type': 'application/json',
    'X-Requested-With': 'postrider',
    Origin: `https://${NAME}:${port}`,
    'X-Forwarded-For': '203.0.113.9',
  };
  const body = JSON.stringify({ email: email ?? 'op@example.com', password });
  const signedIn = await call('/session', { method: 'POST', headers, body });
  assert.equal(signedIn.status, 200, signedIn.text);
  const cookie = String(signedIn.headers['set-cookie']);
  assert.match(cookie, /; Secure/);
  const made = await call('/operator/accounts', {
    method: 'POST',
    body: JSON.stringify({ name: 'Made' }),
    headers: { ...headers, Cookie: cookie.split(';')[0]! },
  });
  assert.ok(made.status < 300, made.text);
  const log = await call('/operator/audit?limit=100', { headers: { Cookie: cookie.split(';')[0]! } });
  const entries = JSON.parse(log.text) as { action: string; address: string | null; from?: string }[];
  const entry = entries.find(({ action }) => action === 'account.create');
  assert.match(JSON.stringify(entry), /"127\.0\.0\.9"/, 'the address of the client, not of the proxy');
  assert.doesNotMatch(log.text, /203\.0\.113\.9/, 'the client cannot set it');

  const statuses: number[] = [];
  for (let count = 0; count < 31; count += 1) {
    const wrong = JSON.stringify({ email: `nobody${count}@example.com`, password: 'wrong' });
    statuses.push((await call('/session', { method: 'POST', headers, body: wrong, from: STRANGER })).status);
  }
  assert.equal(statuses.at(-1), 429, `a blocked client is locked out: ${statuses.join(' ')}`);
  const again = await call('/session', { method: 'POST', headers, body, from: STRANGER });
  assert.equal(again.status, 429);
  const other = await call('/session', { method: 'POST', headers, body, from: '127.0.0.10' });
  assert.equal(other.status, 200, 'other clients of the same proxy are not');
}

for (const [name, start] of [
  ['nginx', startNginx],
  ['caddy', startCaddy],
] as const) {
  test(`${name} with the configuration of docs/guides/reverse-proxy.md`, {
    skip: missing(name, 'openssl'),
  }, async (t) => {
    const behind = await behindProxy(t, start);
    const { service, call, port } = behind;
    await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    assert.equal((await call('/metrics')).status, 401, 'not from this machine');
    await upload(behind);
    await stream(behind);
    await signIn(behind);
    const dns = await fakeDns({ [NAME]: { A: ['127.0.0.1'] } });
    t.after(() => dns.close());
    const { stdout } = await runCommand(['doctor'], {
      dataDir: service.dataDir,
      env: {
        POSTRIDER_DOCTOR_NETWORK: 'on',
        POSTRIDER_BASE_URL: `https://${NAME}:${port}`,
        POSTRIDER_DNS_SERVERS: dns.server,
      },
    });
    assert.match(stdout, /^ok {4}public address: \S+ points to this service$/m);
    assert.match(
      stdout,
      /^fail {2}certificate: clients do not trust the certificate of \S+/m,
      'the certificate is self-signed',
    );
  });
}
