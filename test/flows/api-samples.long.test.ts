/**
 * The sample programs of the API reference, run as they are against a started service with a sandbox key: each prints the response that the
 * reference describes.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { OpenapiDocument } from '../../src/http/reference/document.ts';
import { ReferenceView } from '../../src/http/reference/view-model.ts';
import { missing } from '../kit/requirements.ts';
import { type Service, startService } from '../kit/start-service.ts';

const run = promisify(execFile);
let service: Service;
let view: ReferenceView;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-api-samples-'));

before(async () => {
  service = await startService();
  const { body } = await service.anonymous.get('/openapi.json');
  view = new ReferenceView(body as unknown as OpenapiDocument);
});
after(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Operations in an order in which each can succeed, and a part of its response. */
const CALLS: [operationId: string, part: RegExp][] = [
  ['sendEmail', /msg_\w+/],
  ['sendEmailBatch', /\bstatus['"]?: ?202/],
  ['listMessages', /ann@example\.com/],
  ['getAccount', /acc_\w+/],
  ['suppressAddress', /ann@example\.com/],
  ['importSuppressions', /imported/],
  ['exportSuppressions', /email,reason/],
  ['listTemplates', /\[\]/],
  ['listSandboxInbox', /ann@example\.com/],
  ['getHealth', /ok/],
];

const LANGUAGES = {
  curl: { needs: 'curl', program: 'bash', extension: 'sh' },
  node: { needs: process.execPath, program: process.execPath, extension: 'mjs' },
  python: { needs: 'python3', program: 'python3', extension: 'py' },
};

for (const [language, { needs, program, extension }] of Object.entries(LANGUAGES)) {
  test(`programs in ${language} work as they are`, { skip: missing(needs), timeout: 590_000 }, async () => {
    const { apiKey, accountId } = service.sandbox;
    const env = { ...process.env, POSTRIDER_URL: service.url, POSTRIDER_KEY: apiKey, POSTRIDER_ID: accountId };
    for (const [id, part] of CALLS) {
      const sample = view.operation(id).samples.find((one) => one.language === language);
      assert.ok(sample, id);
      const file = path.join(folder, `${id}.${extension}`);
      writeFileSync(file, sample.code);
      const { stdout, stderr } = await run(program, [file], { env });
      assert.match(stdout, part, `${id}: ${stdout} ${stderr}`);
      assert.doesNotMatch(stdout, /"success":\s*false|requestId: 'req_/, id);
    }
  });
}
