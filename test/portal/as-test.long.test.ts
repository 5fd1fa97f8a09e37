/**
 * The tests that the inbox offers to copy: each runs as printed, passes if its email arrives, also with a grouped code, and fails if there
 * is only an older email with the same address and subject. Playwright's `test`, `expect`, and `page` are small replacements.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { testsOf } from '../../portal/src/pages/inbox/as-test.ts';
import { asTest } from '../../portal/src/texts/inbox.ts';
import { type Service, startService } from '../kit/start-service.ts';

const TEXT = 'Your code is 482 913. Or open https://shop.example/confirm';
const SUBJECT = "Ann's code";

let service: Service;
let folder: string;
before(async () => {
  service = await startService();
  folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-as-test-'));
  const playwright = path.join(folder, 'node_modules/@playwright/test');
  mkdirSync(playwright, { recursive: true });
  writeFileSync(
    path.join(playwright, 'package.json'),
    '{ "name": "@playwright/test", "type": "module", "exports": "./index.js" }',
  );
  writeFileSync(
    path.join(playwright, 'index.js'),
    `import assert from 'node:assert/strict';
import { test as run } from 'node:test';
export const expect = (actual) => ({ toBe: (expected) => assert.equal(actual, expected) });
const page = {
  getByLabel: () => ({ fill: async (code) => assert.match(code, /^482 ?913$/) }),
  goto: async (link) => assert.equal(link, 'https://shop.example/confirm'),
};
export const test = (name, body) => run(name, () => body({ page }));
`,
  );
});
after(async () => {
  await service?.close();
  rmSync(folder, { recursive: true, force: true });
});

function mailTo(to: string): string {
  return JSON.stringify({ from: 'a@shop.example', to, subject: SUBJECT, text: TEXT });
}

async function send(to: string): Promise<void> {
  assert.equal((await service.sandboxApi.post('/send', mailTo(to))).status, 202);
}

/** The developer's replacement for the comment. */
const SENDS: Record<string, (to: string) => string> = {
  js: (to) => `await fetch('${service.url}/send', { method: 'POST', body: ${JSON.stringify(mailTo(to))}, headers: {
    'Content-Type': 'application/json', 'X-Id': '${service.sandbox.accountId}', 'X-Api-Key': process.env.POSTRIDER_KEY } });`,
  py: (
    to,
  ) => `urllib.request.urlopen(urllib.request.Request('${service.url}/send', data=${JSON.stringify(mailTo(to))}.encode(), headers={
        'Content-Type': 'application/json', 'X-Id': '${service.sandbox.accountId}', 'X-Api-Key': os.environ['POSTRIDER_KEY']}))`,
};

interface Kind {
  name: 'node:test' | 'pytest' | 'Playwright';
  file: string;
  command(file: string): [program: string, args: string[]];
  language: 'js' | 'py';
}

const KINDS: Kind[] = [
  {
    name: 'node:test',
    file: 'email.test.mjs',
    command: (file) => [process.execPath, ['--test', file]],
    language: 'js',
  },
  {
    name: 'Playwright',
    file: 'email.spec.mjs',
    command: (file) => [process.execPath, ['--test', file]],
    language: 'js',
  },
  {
    name: 'pytest',
    file: 'test_email.py',
    // As pytest does; it is not installed everywhere.
    command: () => ['python3', ['-c', 'import test_email; test_email.test_email_arrives()']],
    language: 'py',
  },
];

function run({ command }: Kind, file: string): Promise<{ code: number; output: string }> {
  const [program, args] = command(file);
  const env = { ...process.env, POSTRIDER_KEY: service.sandbox.apiKey, NODE_TEST_CONTEXT: undefined };
  return new Promise((resolve) => {
    execFile(program, args, { cwd: folder, env, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: `${stdout}${stderr}` });
    });
  });
}

describe('the copied test', () => {
  for (const kind of KINDS) {
    test(`of ${kind.name}`, async () => {
      const to = `${kind.language}-${kind.name.replace(/\W/g, '').toLowerCase()}@example.com`;
      const { accountId } = service.sandbox;
      const printed = testsOf({ url: service.url, accountId, to, subject: SUBJECT, hasCode: true, hasLink: true });
      const source = printed[kind.name]!;
      const comment = kind.language === 'py' ? `# ${asTest.send}` : `// ${asTest.send}`;
      assert.ok(source.includes(comment), source);
      await send(to);

      const old = source
        .replace(/timeoutSeconds: '30'/, "timeoutSeconds: '1'")
        .replace("'timeoutSeconds': 30", "'timeoutSeconds': 1");
      assert.notEqual(old, source);
      writeFileSync(path.join(folder, kind.file), old);
      const withoutEmail = await run(kind, kind.file);
      assert.notEqual(withoutEmail.code, 0, 'an older email does not count');
      assert.match(withoutEmail.output, /NOT_FOUND|404/);

      writeFileSync(path.join(folder, kind.file), source.replace(comment, SENDS[kind.language]!(to)));
      const { code, output } = await run(kind, kind.file);
      assert.equal(code, 0, output);
    });
  }
});
