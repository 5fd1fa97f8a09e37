/**
 * Runs every command and snippet of README.md and docs/ as printed, in a directory like a checkout. All blocks of a document run in one
 * shell session, in order, with the variables and files that docs/README.md says the examples start from. Only the ports are replaced, since
 * others may use them. A document that uses the command line or the data directory has a service after its first start. The others share
 * one, with an account each.
 *
 * A failed request ends the session, and so does any failed command. In the Markdown, a comment before a block says `not run here:` with
 * the reason, which is printed, or `runs on:` if a command runs until it is ended.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { newSecret, secretKeyOf, signatureOf } from '../../src/webhooks/sign.ts';
import type { JsonObject } from '../kit/api.ts';
import { missing } from '../kit/requirements.ts';
import { PROGRAM, type Service, startService } from '../kit/start-service.ts';
import { TEST_LOGO } from '../kit/test-logo.ts';

const root = path.resolve(import.meta.dirname, '../..');
const LANGUAGES = ['sh', 'js', 'python', 'php', 'go'];

interface Block {
  language: string;
  code: string;
  line: number;
  notRun: string | undefined;
  runsOn: boolean;
}

const textOf = (document: string): string => readFileSync(path.join(root, document), 'utf8');

/** README.md, the table of contents and every page below docs/ that has a command or snippet to run. */
function documentsWithCommands(): string[] {
  const pages = globSync('docs/{get-started,guides,reference,explanation,move}/*.md', { cwd: root }).sort();
  return ['README.md', 'docs/README.md', ...pages].filter((document) =>
    blocksOf(textOf(document)).some(({ language, notRun }) => LANGUAGES.includes(language) && notRun === undefined),
  );
}

function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/(?:^<!-- (not run here|runs on): (.+) -->\n)?^```(\w+)\n([\s\S]*?)^```$/gm)].map(
    (match) => {
      const [, mark, reason, language = '', code = ''] = match;
      const line = markdown.slice(0, match.index).split('\n').length;
      return { language, code, line, notRun: mark === 'not run here' ? reason : undefined, runsOn: mark === 'runs on' };
    },
  );
}

/** The variables of a webhook receiver when it gets a request. */
function receivedRequest(): string {
  const secret = newSecret();
  const body = JSON.stringify({ eventType: 'Bounce', recipient: 'ann@example.com', bounce: { advice: 'Remove it.' } });
  const timestampSeconds = Math.floor(Date.now() / 1000);
  const headers = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signatureOf({ id: 'evt_1', timestampSeconds, body }, [secretKeyOf(secret)!]),
  };
  return `process.env.WEBHOOK_SECRET = ${JSON.stringify(secret)};
const [secret, rawBody, body, request] = [process.env.WEBHOOK_SECRET, ${JSON.stringify(body)}, ${JSON.stringify(body)}, ${JSON.stringify({ headers })}];
`;
}

/** The variables and files that docs/README.md says the examples start from. */
const PROLOGUE = `set -eao pipefail
curl() { command curl --show-error --fail-with-body "$@"; }
ID=$(jq -r .accountId data/first-run.json)
KEY=$(jq -r .sandboxApiKey data/first-run.json)
LIVE_KEY=$(jq -r .apiKey data/first-run.json)
head -c 3000000 /dev/urandom > plan.pdf
echo ${TEST_LOGO} | base64 -d > logo.png
head -c 2500000 /dev/urandom > report.pdf
`;

/** The document that runs npx itself. */
const WITH_NPX = 'README.md';
/** In the other documents this function replaces npx, whose own start takes longer than most commands, and runs the built program. */
const NPX = `npx() { test "$1" = postrider; shift; node '${PROGRAM}' "$@"; }\n`;

function commandOf({ language, code, runsOn, line }: Block): string {
  const end = 'END-OF-BLOCK';
  if (language === 'js') return `node --input-type=module <<'${end}'\n${receivedRequest()}${code}${end}\n`;
  if (language === 'python') return `python3 - <<'${end}'\n${code}${end}\n`;
  if (language !== 'sh') throw new Error(`line ${line}: no way to run ${language}; say why it is not run here`);
  if (!runsOn) return code;
  return `: > said
setsid bash -c '${code.replaceAll("'", "'\\''")}' > said 2>&1 &
until [ -s said ]; do kill -0 $! || { cat said; exit 1; }; sleep 0.1; done
cat said; kill -TERM -- -$!; wait $! || true
`;
}

function withPorts(script: string, service: Service): string {
  return script.replace(/\b587\b/g, String(service.smtpPort)).replaceAll('localhost:3000', new URL(service.url).host);
}

let shared: Promise<Service> | undefined;
after(async () => (await shared)?.close());

/** Returns whether a script only calls the API with the keys of an account. */
const isOnlyApi = (script: string): boolean => !/\bnpx\b|\bdata\/|\boperator\b|OPERATOR|SMTP|swaks/.test(script);

/** Starts a service with its data in the folder; for a script that only calls the API, creates an account of the shared service. */
async function serviceFor(t: TestContext, folder: string, script: string): Promise<Service> {
  const env = { POSTRIDER_DOORS: 'resend,ses' };
  const dataDir = path.join(folder, 'data');
  if (isOnlyApi(script)) {
    shared ??= startService({ env });
    const service = await shared;
    mkdirSync(dataDir);
    const account = await service.cli('account', 'create', '--name', 'Documents');
    writeFileSync(path.join(dataDir, 'first-run.json'), JSON.stringify(account));
    return service;
  }
  const service = await startService({ dataDir, env });
  t.after(() => service.close());
  return service;
}

async function runSession(
  t: TestContext,
  document: string,
  markdown = textOf(document),
): Promise<{ said: string; code: number | null; service: Service }> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-docs-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['bin', 'src', 'test', 'migrations', 'node_modules', 'package.json', '.npmrc', 'docs']) {
    symlinkSync(path.join(root, name), path.join(folder, name));
  }
  const blocks = blocksOf(markdown).filter((one) => LANGUAGES.includes(one.language));
  for (const one of blocks) if (one.notRun) t.diagnostic(`${document}:${one.line} is not run here: ${one.notRun}`);
  const run = blocks.filter((one) => one.notRun === undefined);
  const service = await serviceFor(t, folder, run.map(({ code }) => code).join(''));
  const script = run.map((one) => `echo; echo "== ${document}:${one.line}"\n${withPorts(commandOf(one), service)}`);
  const file = path.join(folder, 'session.sh');
  writeFileSync(file, PROLOGUE + (document === WITH_NPX ? '' : NPX) + script.join('\n'));
  const kept = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|POSTRIDER_)/i.test(name));
  const found = (process.env.PATH ?? '').split(':').filter((one) => !one.includes('node_modules'));
  const env = { ...Object.fromEntries(kept), PATH: found.join(':'), HOME: folder, NODE_PATH: '' };
  const child = spawn('bash', [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { said, code, service };
}

const needs = missing('bash', 'npx', 'curl', 'jq', 'swaks', 'python3', 'openssl', 'setsid');

const documents = documentsWithCommands();
assert.ok(documents.length > 12, documents.join());
for (const document of documents) {
  test(`${document} runs as printed`, { skip: needs, timeout: 240_000 }, async (t) => {
    const { said, code, service } = await runSession(t, document);
    assert.equal(code, 0, said);
    if (document !== 'docs/guides/smtp.md') return;
    const inbox = (await service.sandboxApi.get('/sandbox/inbox')).body as unknown as JsonObject[];
    const subjects = inbox.map((one) => one.subject).sort();
    assert.deepEqual(subjects, ['Hello from Node', 'Hello from Python', 'Hello from swaks']);
  });
}

test('control: a failing command, even in a pipe, or a rejected request ends the session', {
  skip: needs,
}, async (t) => {
  const [marked] = blocksOf('text\n<!-- not run here: a reason -->\n```sh\nfalse\n```\n');
  assert.deepEqual([marked?.notRun, marked?.code], ['a reason', 'false\n']);
  const wrong = ['false', 'X=$(false | cat)', 'curl -s localhost:3000/account -H "X-Id: $ID" -H "X-Api-Key: no"'];
  for (const command of wrong) {
    const { code, said } = await runSession(t, 'control', `\`\`\`sh\n${command}\necho went on\n\`\`\`\n`);
    assert.notEqual(code, 0, command);
    assert.doesNotMatch(said, /went on/);
  }
});
