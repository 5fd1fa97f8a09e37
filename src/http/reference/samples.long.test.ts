/**
 * The sample programs of every operation are correct in their languages, also with hostile example values. The programs of an operation with
 * such values send exactly these values.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { missing } from '../../../test/kit/requirements.ts';
import type { OpenapiDocument } from './document.ts';
import { languages, type SampleCall } from './samples.ts';
import { ReferenceView } from './view-model.ts';

const run = promisify(execFile);
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-samples-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const document = JSON.parse(
  readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'),
) as OpenapiDocument;
const view = new ReferenceView(document);
const operations = view.tags.flatMap((tag) => tag.operations.map(({ id }) => view.operation(id)));

const HOSTILE = `It's "a" \\ back\\slash, \`tick\`, $HOME \${HOME} $(id) %s {{x}} #{x} <?php ?> </code> é€😀 \u2028 !`;
const hostileCall: SampleCall = {
  method: 'POST',
  target: '/send?name=%24%28id%29%60',
  headers: [
    { name: 'X-Api-Key', text: '', variable: 'POSTRIDER_KEY' },
    { name: 'Content-Type', text: 'application/json' },
    { name: 'X-Note', text: `it's "$HOME" \\ \`id\`` },
  ],
  body: {
    kind: 'json',
    value: {
      text: HOSTILE,
      lines: 'a\r\nb\tc\u0001',
      "it's": { nested: [null, true, false, -1.5, [], {}] },
      17: 'number',
    },
  },
  result: 'json',
};
const hostileText: SampleCall = {
  ...hostileCall,
  body: { kind: 'text', text: `@${HOSTILE}\r\na,b\n` },
  result: 'text',
};

const EXTENSIONS: Readonly<Record<string, string>> = { curl: 'sh', node: 'mjs', python: 'py', php: 'php', go: 'go' };

function write(name: string, language: string, code: string): string {
  const file = path.join(folder, `${name}.${EXTENSIONS[language]}`);
  writeFileSync(file, `${code}\n`);
  return file;
}

/** Writes all programs in this language, and returns their files. */
function programs(language: string): string[] {
  const { write: sample } = languages.find(({ id }) => id === language)!;
  return [
    ...operations.map(({ id, samples }) => write(id, language, samples.find((one) => one.language === language)!.code)),
    write('hostile', language, sample(hostileCall)),
    write('hostile-text', language, sample(hostileText)),
  ];
}

/** Each checker receives the files as arguments, fails on an error, and prints the names of the files that it rejects. */
const CHECKERS: Readonly<Record<string, { program: string; args: string[] }>> = {
  curl: { program: 'bash', args: ['-c', 'for file; do bash -n "$file" || exit 1; done', 'bash'] },
  node: {
    program: process.execPath,
    args: [
      '--experimental-vm-modules',
      '--no-warnings',
      '--eval',
      `for (const file of process.argv.slice(1)) {
         new (require('node:vm').SourceTextModule)(require('node:fs').readFileSync(file, 'utf8'), { identifier: file });
       }`,
    ],
  },
  python: {
    program: 'python3',
    args: ['-c', 'import ast, sys\nfor file in sys.argv[1:]: ast.parse(open(file).read(), file)'],
  },
  // One process compiles all files, since PHP takes longer to start than to compile one of them. Nothing is executed.
  php: {
    program: 'php',
    args: [
      '-d',
      'opcache.enable_cli=1',
      '-r',
      'foreach (array_slice($argv, 1) as $file) if (!opcache_compile_file($file)) exit(1);',
    ],
  },
  go: { program: 'gofmt', args: ['-e', '-l'] },
};

for (const { id: language, name } of languages) {
  const { program, args } = CHECKERS[language]!;
  test(`every program in ${name} is correct`, { skip: missing(program) }, async () => {
    const files = programs(language);
    assert.equal(files.length, operations.length + 2);
    const { stdout } = await run(program, [...args, ...files]);
    assert.equal(stdout, '', 'files that the checker rejects');
    const broken = path.join(folder, `broken.${EXTENSIONS[language]}`);
    writeFileSync(broken, `${readFileSync(files[0]!, 'utf8')}\n${language === 'php' ? 'echo (;' : '(\' "`'}`);
    await assert.rejects(run(program, [...args, broken]), 'control');
  });
}

interface Received {
  url: string | undefined;
  headers: http.IncomingHttpHeaders;
  body: string;
}

/** Starts a server that records its last request. */
async function recorder(t: TestContext): Promise<{ url: string; last: () => Received | undefined }> {
  let last: Received | undefined;
  const server = http.createServer(async (request, response) => {
    last = { url: request.url, headers: request.headers, body: await text(request) };
    response.end('{}');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, last: () => last };
}

const RUNNERS: Readonly<Record<string, { needs: string; program: string; args: string[] }>> = {
  curl: { needs: 'curl', program: 'bash', args: [] },
  node: { needs: process.execPath, program: process.execPath, args: [] },
  python: { needs: 'python3', program: 'python3', args: [] },
  php: { needs: 'php', program: 'php', args: [] },
};

for (const [language, { needs, program, args }] of Object.entries(RUNNERS)) {
  test(`a program in ${language} sends hostile values unchanged`, { skip: missing(needs) }, async (t) => {
    const { url, last } = await recorder(t);
    const { write: sample } = languages.find(({ id }) => id === language)!;
    const env = { ...process.env, POSTRIDER_URL: url, POSTRIDER_KEY: 'secret', NODE_OPTIONS: '' };
    for (const call of [hostileCall, hostileText]) {
      await run(program, [...args, write('sent', language, sample(call))], { env });
      const received = last();
      assert.equal(received?.url, call.target);
      assert.equal(received.headers['x-api-key'], 'secret');
      assert.equal(received.headers['x-note'], call.headers[2]!.text);
      if (call.body?.kind === 'json') assert.deepEqual(JSON.parse(received.body), call.body.value);
      if (call.body?.kind === 'text') assert.equal(received.body, call.body.text);
    }
  });
}
