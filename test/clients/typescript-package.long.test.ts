/**
 * The package that clients/typescript would publish: it contains the build, README, and license and nothing else, has no dependencies,
 * imports nothing from Node, and works once installed; its types compile without Node's.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { missing } from '../kit/requirements.ts';
import { startService } from '../kit/start-service.ts';

const root = path.resolve(import.meta.dirname, '../..');
const source = path.join(root, 'clients/typescript');
const tsc = path.join(root, 'node_modules/typescript/bin/tsc');
const skip = missing('npm', 'tar');
let folder: string;
let files: string[];

const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

before(() => {
  if (skip) return;
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-client-'));
  const [packed] = JSON.parse(run('npm', 'pack', source, '--json', '--silent')) as [
    { filename: string; files: { path: string }[] },
  ];
  files = packed.files.map((one) => one.path).sort();
  const installed = path.join(folder, 'node_modules/@postrider/client');
  mkdirSync(installed, { recursive: true });
  run('tar', '-xzf', packed.filename, '-C', installed, '--strip-components', '1');
});

after(() => rmSync(folder ?? '', { recursive: true, force: true }));

test('the package contains every built module, README, license, and manifest', { skip }, () => {
  const built = globSync('*.ts', { cwd: path.join(source, 'src') }).flatMap((file) => [
    `dist/${file.replace(/\.ts$/, '.js')}`,
    `dist/${file.replace(/\.ts$/, '.d.ts')}`,
  ]);
  assert.deepEqual(files, ['LICENSE', 'README.md', 'package.json', ...built].sort());
  const manifest = JSON.parse(readFileSync(path.join(source, 'package.json'), 'utf8'));
  for (const group of ['dependencies', 'peerDependencies', 'optionalDependencies', 'devDependencies']) {
    assert.equal(manifest[group], undefined, group);
  }
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  assert.equal(manifest.version, version);
  assert.match(readFileSync(path.join(source, 'src/nodemailer.ts'), 'utf8'), new RegExp(`version = '${version}'`));
});

test('it runs from its install location and imports only its own files', { skip }, () => {
  const main = `
import { Postrider, PostriderError, verifyWebhook } from '@postrider/client';
import { PostriderTransport } from '@postrider/client/nodemailer';
const client = new Postrider({ url: 'http://127.0.0.1:1', accountId: 'acc_1', apiKey: 'pr_test_1', maxRetries: 0 });
const error = await client.account.get().catch((thrown) => thrown);
console.log(error instanceof PostriderError, error.code, typeof verifyWebhook, new PostriderTransport(client).name);
`;
  writeFileSync(path.join(folder, 'main.mjs'), main);
  // The machine's own Node may be older than the service's.
  assert.equal(run(process.execPath, 'main.mjs'), 'true CONNECTION_FAILED function Postrider\n');
  for (const file of globSync('node_modules/@postrider/client/dist/*.js', { cwd: folder })) {
    const text = readFileSync(path.join(folder, file), 'utf8');
    const foreign = [...text.matchAll(/\b(?:from|import\()\s*'([^']+)'/g)].filter(([, one]) => !one!.startsWith('./'));
    assert.deepEqual(foreign, [], file);
    assert.doesNotMatch(text, /\b(process|Buffer|require)\b[.(]/, file);
  }
});

test('the first example of the README sends a message', { skip }, async () => {
  const [, program = ''] = /```ts\n([\s\S]*?)```/.exec(readFileSync(path.join(source, 'README.md'), 'utf8')) ?? [];
  writeFileSync(path.join(folder, 'readme.ts'), program);
  const service = await startService();
  try {
    const { accountId, apiKey } = service.sandbox;
    const env = { ...process.env, POSTRIDER_URL: service.url, POSTRIDER_ID: accountId, POSTRIDER_KEY: apiKey };
    const { stdout } = await promisify(execFile)(process.execPath, ['readme.ts'], { cwd: folder, env });
    assert.match(stdout, /^(queued|sending|delivered)\n$/);
  } finally {
    await service.close();
  }
});

test('its types compile for browsers without Node types, and report misuse', { skip }, () => {
  const page = `
import { type Event, Postrider, PostriderError } from '@postrider/client';
const client = new Postrider({ url: 'https://mail.example.com', accountId: 'acc_1', apiKey: 'pr_test_1' });
export async function main(): Promise<string[]> {
  const subjects: string[] = [];
  for await (const message of client.messages.list({ status: 'bounced' })) subjects.push(message.subject);
  const { messageId } = await client.emails.send({ from: 'a@b.example', to: 'c@d.example', subject: 'x', text: 'x' });
  const event: Event = await client.webhooks.verify('{}', new Headers(), 'whsec_x');
  // @ts-expect-error there is no such status
  client.messages.list({ status: 'gone' });
  // @ts-expect-error there is no such field
  await client.emails.send({ from: 'a@b.example', too: 'c@d.example' });
  // @ts-expect-error the id is missing
  await client.call('getMessage');
  if (new PostriderError('x', { code: 'TIMEOUT' }).status === 0) subjects.push(messageId, event.eventId);
  return subjects;
}
`;
  writeFileSync(path.join(folder, 'page.ts'), page);
  const options = [
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--types',
    '',
    '--lib',
    'es2022,dom',
  ];
  run(process.execPath, tsc, ...options, 'page.ts');
});

test('the Nodemailer example of the README compiles with strict types', { skip }, () => {
  const readme = readFileSync(path.join(source, 'README.md'), 'utf8');
  const [, program = ''] = /## Nodemailer\n\n```ts\n([\s\S]*?)```/.exec(readme) ?? [];
  const values = 'declare const url: string, accountId: string, apiKey: string;\n';
  writeFileSync(path.join(folder, 'mail.mts'), `${program}\n${values}`);
  for (const name of ['nodemailer', '@types', 'undici-types']) {
    symlinkSync(path.join(root, 'node_modules', name), path.join(folder, 'node_modules', name));
  }
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node'];
  run(process.execPath, tsc, ...options, 'mail.mts');
});

/** Tags whose operations are for applications that send; operations for logged-in users are called by operationId. */
const WITH_METHODS = new Set([
  'send',
  'attachments',
  'messages',
  'events',
  'webhooks',
  'templates',
  'domains',
  'suppressions',
  'sandbox',
  'inbound',
  'account',
  'statistics',
  'requests',
  'incidents',
  'audit',
]);
/** Part of another method, or of public pages that require only a link. */
const WITHOUT_METHOD = [
  'addDomain',
  'getInboundFile',
  'getSharedMessage',
  'getSharedMessageContent',
  'getSharedTemplate',
  'uploadFile',
];

interface Operation {
  operationId: string;
  tags: string[];
}

test('every operation that applications call has a method', () => {
  const sources = globSync('*.ts', { cwd: path.join(source, 'src') }).filter((file) => file !== 'schema.ts');
  const text = sources.map((file) => readFileSync(path.join(source, 'src', file), 'utf8')).join('\n');
  const document = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
  const operations = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods as object),
  ) as Operation[];
  const wanted = operations.filter(({ tags }) => tags.some((tag) => WITH_METHODS.has(tag)));
  assert.ok(wanted.length > 60, `${wanted.length} operations`);
  const unused = wanted.map(({ operationId }) => operationId).filter((one) => !text.includes(`'${one}'`));
  assert.deepEqual(unused.sort(), WITHOUT_METHOD);
});
