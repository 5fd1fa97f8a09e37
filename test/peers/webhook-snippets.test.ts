/**
 * The documentation's code for webhook receivers, run as printed against our signatures: it accepts a genuine request, even one signed with
 * two secrets, and rejects another body, another secret, and an old one.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { newSecret, secretKeyOf, signatureOf } from '../../src/webhooks/sign.ts';
import { missing } from '../kit/requirements.ts';

const guide = readFileSync(path.resolve(import.meta.dirname, '../../docs/guides/webhooks.md'), 'utf8');
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-snippets-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Returns the block in this language that defines the function. */
function snippet(language: string): string {
  const blocks = [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(
    (match) => match[1]!,
  );
  const found = blocks.find((block) => /verified/.test(block));
  assert.ok(found, `docs/guides/webhooks.md has a snippet in ${language}`);
  return found;
}

interface Case {
  name: string;
  secret: string;
  headers: Record<string, string>;
  body: string;
  genuine: boolean;
}

function cases(): Case[] {
  const [secret, other] = [newSecret(), newSecret()];
  const keys = [secretKeyOf(secret)!, secretKeyOf(other)!];
  const body = '{"eventId":"evt_1","subject":"Grüße – 100 %"}';
  const signed = (timestampSeconds: number, with_ = keys.slice(0, 1)): Record<string, string> => ({
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signatureOf({ id: 'evt_1', timestampSeconds, body }, with_),
  });
  const now = Math.floor(Date.now() / 1000);
  return [
    { name: 'genuine', secret, headers: signed(now), body, genuine: true },
    { name: 'two secrets, the first', secret, headers: signed(now, keys), body, genuine: true },
    { name: 'two secrets, the second', secret: other, headers: signed(now, keys), body, genuine: true },
    { name: 'another body', secret, headers: signed(now), body: `${body} `, genuine: false },
    { name: 'another secret', secret: other, headers: signed(now), body, genuine: false },
    { name: 'another id', secret, headers: { ...signed(now), 'webhook-id': 'evt_2' }, body, genuine: false },
    { name: 'six minutes old', secret, headers: signed(now - 360), body, genuine: false },
    {
      name: 'another time',
      secret,
      headers: { ...signed(now), 'webhook-timestamp': String(now + 1) },
      body,
      genuine: false,
    },
    { name: 'no time', secret, headers: { ...signed(now), 'webhook-timestamp': 'now' }, body, genuine: false },
  ];
}

/** Runs a program that reads the cases as JSON and prints its results as a JSON array. */
function judge(command: string, file: string, source: string): void {
  const program = path.join(folder, file);
  writeFileSync(program, source);
  const all = cases();
  const out = execFileSync(command, [program], { input: JSON.stringify(all), encoding: 'utf8' });
  const judged = JSON.parse(out) as boolean[];
  for (const [index, one] of all.entries()) assert.equal(judged[index], one.genuine, one.name);
}

test('Node', () => {
  const main = `
import { readFileSync } from 'node:fs';
const cases = JSON.parse(readFileSync(0, 'utf8'));
console.log(JSON.stringify(cases.map((one) => verified(one.secret, one.headers, one.body))));`;
  const own = guide.slice(guide.indexOf('\n### Node\n'));
  const block = /```js\n([\s\S]*?)```/.exec(own)?.[1];
  assert.ok(block);
  judge(process.execPath, 'node.mjs', block + main);
});

test('Python', { skip: missing('python3') }, () => {
  const main = `
import json, sys
cases = json.load(sys.stdin)
print(json.dumps([verified(one["secret"], one["headers"], one["body"].encode()) for one in cases]))`;
  judge('python3', 'receiver.py', snippet('python') + main);
});

/** Compilers that few machines have: their snippets only run where they are installed. */
function absent(program: string): string | false {
  try {
    execFileSync('/bin/sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
    return false;
  } catch {
    return `${program} is not installed; the snippet is not run here`;
  }
}

test('PHP', { skip: absent('php') }, () => {
  const main = `
echo json_encode(array_map(fn($one) => verified($one['secret'], $one['headers'], $one['body']),
    json_decode(file_get_contents('php://stdin'), true)));`;
  judge('php', 'receiver.php', `<?php\n${snippet('php')}${main}`);
});

test('Go', { skip: absent('go') }, () => {
  const source = snippet('go')
    .replace('package receiver', 'package main')
    .replace('import (', 'import (\n"encoding/json"\n"os"');
  const main = `
func main() {
	var cases []struct { Secret string; Headers map[string]string; Body string }
	json.NewDecoder(os.Stdin).Decode(&cases)
	judged := []bool{}
	for _, one := range cases {
		header := http.Header{}
		for name, value := range one.Headers { header.Set(name, value) }
		judged = append(judged, verified(one.Secret, header, []byte(one.Body)))
	}
	json.NewEncoder(os.Stdout).Encode(judged)
}`;
  const program = path.join(folder, 'receiver.go');
  writeFileSync(program, source + main);
  const all = cases();
  const env = { ...process.env, GOCACHE: path.join(folder, 'cache'), GOFLAGS: '-mod=mod', GO111MODULE: 'off' };
  const out = execFileSync('go', ['run', program], { input: JSON.stringify(all), encoding: 'utf8', env });
  assert.deepEqual(
    JSON.parse(out),
    all.map((one) => one.genuine),
  );
});
