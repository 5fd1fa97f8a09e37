/**
 * Clients generated from the OpenAPI document by two popular generators: they compile in strict mode, and send, read, and are refused
 * with the types of the document.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type Service, startService } from '../kit/start-service.ts';
import { noTestTools, toolPath } from '../kit/test-tools.ts';

const skip = noTestTools();
const EMAIL = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Hello', text: 'Hello Ann.' };

let service: Service;
let folder: string;

const node = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

before(async () => {
  if (skip) return;
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-generated-'));
  service = await startService();
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const { body } = await service.anonymous.get('/openapi.json');
  writeFileSync(path.join(folder, 'openapi.json'), JSON.stringify(body));
  writeFileSync(path.join(folder, 'package.json'), '{ "type": "module" }');
});

after(async () => {
  if (skip) return;
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Compiles a program and the client that it imports, runs it, and returns the JSON that it prints. */
function run(name: string, program: string): Record<string, unknown> {
  writeFileSync(path.join(folder, `${name}.ts`), program);
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,dom,dom.iterable'];
  node(toolPath('typescript/bin/tsc'), '--outDir', 'built', ...options, `${name}.ts`);
  return JSON.parse(node(path.join('built', `${name}.js`)));
}

const EXPECTED = {
  accepted: 202,
  status: 'delivered',
  recipients: 1,
  refused: 400,
  code: 'INVALID_REQUEST',
  field: 'subject',
  unknown: 404,
};

test('@hey-api/openapi-ts generates a working client', { skip }, () => {
  node(toolPath('@hey-api/openapi-ts/bin/run.js'), '-i', 'openapi.json', '-o', 'hey', '-c', '@hey-api/client-fetch');
  const { accountId, apiKey } = service.sandbox;
  const printed = run(
    'with-hey',
    `import { client } from './hey/client.gen.js';
import { getMessage, sendEmail, waitForSandboxMessage } from './hey/index.js';
client.setConfig({
  baseUrl: ${JSON.stringify(service.url)},
  auth: ({ name }) => (name === 'X-Api-Key' ? ${JSON.stringify(apiKey)} : name === 'X-Id' ? ${JSON.stringify(accountId)} : undefined),
});
const body = ${JSON.stringify(EMAIL)};
const sent = await sendEmail({ body });
if (!sent.data || !('data' in sent.data)) throw new Error(JSON.stringify(sent.error));
const { messageId, totalRecipients } = sent.data.data;
await waitForSandboxMessage({ query: { to: body.to } });
const get = () => getMessage({ path: { id: messageId } });
let read = await get();
for (let tries = 0; read.data?.status !== 'delivered' && tries < 100; tries += 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  read = await get();
}
const refused = await sendEmail({ body: { ...body, subject: 'a\\nb' } });
const unknown = await getMessage({ path: { id: 'msg_unknown' } });
console.log(JSON.stringify({
  accepted: sent.response?.status,
  status: read.data?.status,
  recipients: totalRecipients,
  refused: refused.response?.status,
  code: refused.error?.error.code,
  field: refused.error?.error.details?.[0]?.field,
  unknown: unknown.response?.status,
}));`,
  );
  assert.deepEqual(printed, EXPECTED);
});

test('orval generates a working client', { skip }, () => {
  const config = {
    postrider: {
      input: './openapi.json',
      output: { target: './orval/api.ts', client: 'fetch', baseUrl: service.url },
    },
  };
  writeFileSync(path.join(folder, 'orval.config.mjs'), `export default ${JSON.stringify(config)};`);
  node(toolPath('orval/dist/bin/orval.mjs'), '--config', 'orval.config.mjs');
  const { accountId, apiKey } = service.sandbox;
  const printed = run(
    'with-orval',
    `import { getMessage, sendEmail, waitForSandboxMessage } from './orval/api.js';
const headers = { 'X-Id': ${JSON.stringify(accountId)}, 'X-Api-Key': ${JSON.stringify(apiKey)} };
const body = ${JSON.stringify(EMAIL)};
const sent = await sendEmail(body, undefined, { headers });
if (sent.status !== 202) throw new Error(JSON.stringify(sent.data));
const { messageId, totalRecipients } = sent.data.data;
await waitForSandboxMessage({ to: body.to }, { headers });
const get = async () => {
  const response = await getMessage(messageId, { headers });
  if (response.status !== 200) throw new Error(JSON.stringify(response.data));
  return response.data;
};
let read = await get();
for (let tries = 0; read.status !== 'delivered' && tries < 100; tries += 1) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  read = await get();
}
const refused = await sendEmail({ ...body, subject: 'a\\nb' }, undefined, { headers });
if (refused.status !== 400) throw new Error(JSON.stringify(refused.data));
const unknown = await getMessage('msg_unknown', { headers });
console.log(JSON.stringify({
  accepted: sent.status,
  status: read.status,
  recipients: totalRecipients,
  refused: refused.status,
  code: refused.data.error.code,
  field: refused.data.error.details?.[0]?.field,
  unknown: unknown.status,
}));`,
  );
  assert.deepEqual(printed, EXPECTED);
});
