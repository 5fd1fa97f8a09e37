/**
 * Ten thousand messages of every kind, each signed with RSA and Ed25519, checked by three other verifiers: mailauth, dkimpy, and OpenDKIM.
 * All accept both signatures; every tenth message has one byte changed in transit, and none accepts it.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { dkimVerify } from 'mailauth/lib/dkim/verify.js';
import { compose } from '../../src/mail/compose/compose.ts';
import { generateDkimKeys, signDkim } from '../../src/mail/compose/dkim-sign.ts';
import { missing } from '../kit/requirements.ts';
import { anyMail } from './any-mail.ts';

const MAILS = 10_000;
const ALGORITHMS = ['rsa', 'ed25519'] as const;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-signatures-'));
const keyFile = path.join(folder, 'keys');
after(() => rmSync(folder, { recursive: true, force: true }));

interface Signed {
  file: string;
  content: Buffer;
  isForged: boolean;
}

const published = new Map<string, string>();
const signed: Signed[] = [];

/** Changes a letter in the last line of the body with letters, or else of the sender. */
function forge(mail: Buffer): void {
  const text = mail.toString('latin1');
  const body = text.indexOf('\r\n\r\n') + 4;
  const inBody = text.slice(body).search(/[\x21-\x7e]/);
  const at = inBody === -1 ? text.lastIndexOf('b.example', body) : body + inBody;
  mail[at] = mail[at] === 0x41 ? 0x42 : 0x41;
}

before(async () => {
  const generated = await generateDkimKeys();
  for (const one of ALGORITHMS) published.set(`${one}._domainkey.example.com`, generated[one].dnsValue);
  writeFileSync(keyFile, [...published].map(([name, value]) => `${name} ${value}\n`).join(''));
  const keys = ALGORITHMS.map((algorithm) => ({
    algorithm,
    selector: algorithm,
    privateKey: createPrivateKey(generated[algorithm].privateKeyPem),
  }));
  const nowMs = Date.now();
  for (const [index, mail] of fc.sample(anyMail, MAILS).entries()) {
    const { content } = compose(mail);
    const fields = await signDkim({ content, domain: 'example.com', keys, nowMs });
    const whole = Buffer.concat([Buffer.from(fields), content]);
    const isForged = index % 10 === 0;
    if (isForged) forge(whole);
    const file = path.join(folder, `${index}.eml`);
    writeFileSync(file, whole);
    signed.push({ file, content: whole, isForged });
  }
});

function compare(accepted: ReadonlySet<string>): void {
  assert.equal(signed.length, MAILS);
  const wrong = signed.filter(({ file, isForged }) => accepted.has(file) === isForged);
  const shown = wrong
    .slice(0, 3)
    .map(({ content, isForged }) => `${isForged ? 'forged' : 'genuine'}\n${content.toString('latin1')}`);
  assert.equal(wrong.length, 0, shown.join('\n\n'));
}

test('mailauth', { timeout: 300_000 }, async () => {
  const resolver = async (name: string) => [[published.get(name) ?? '']];
  const accepted = new Set<string>();
  for (const { file, content } of signed) {
    const { results } = await dkimVerify(content, { resolver });
    if (results.length === 2 && results.every(({ status }: { status: { result: string } }) => status.result === 'pass'))
      accepted.add(file);
  }
  compare(accepted);
});

const DKIMPY = `
import sys, dkim
keys = dict(line.strip().split(' ', 1) for line in open(sys.argv[1]))
def lookup(name, timeout=5):
    return keys[name.decode().rstrip('.')].encode()
for file in sys.stdin.read().split():
    mail = open(file, 'rb').read()
    try:
        good = all(dkim.DKIM(mail).verify(idx=index, dnsfunc=lookup) for index in (0, 1))
    except dkim.DKIMException:
        good = False
    if good:
        print(file)
`;

/** The lines that a program prints. */
async function linesOf(program: string, args: string[], input: string): Promise<string[]> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(input);
  let said = '';
  for await (const part of child.stdout.setEncoding('utf8')) said += part;
  return said.split('\n');
}

const hasDkimpy = (): boolean => {
  try {
    execFileSync('/usr/bin/python3', ['-c', 'import dkim, nacl'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

test('dkimpy', {
  timeout: 300_000,
  skip: missing('python3') || (!process.env.CI && !hasDkimpy() && 'no dkimpy'),
}, async () => {
  const files = signed.map(({ file }) => file).join('\n');
  compare(new Set(await linesOf('/usr/bin/python3', ['-c', DKIMPY, keyFile], files)));
});

test('OpenDKIM', { timeout: 300_000, skip: missing('opendkim') }, async () => {
  const config = path.join(folder, 'opendkim.conf');
  writeFileSync(config, `Mode v\nTestPublicKeys ${keyFile}\n`);
  const accepted = new Set<string>();
  for (let from = 0; from < signed.length; from += 200) {
    const files = signed.slice(from, from + 200).map(({ file }) => file);
    const said = await linesOf('sh', ['-c', 'exec opendkim -x "$0" -t "$1" 2>&1', config, files.join(',')], '');
    for (const line of said) {
      const file = /^opendkim: (\S+): verification \([^)]*\) succeeded/.exec(line)?.[1];
      if (file !== undefined) accepted.add(file);
    }
  }
  compare(accepted);
});
