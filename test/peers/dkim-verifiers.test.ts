/**
 * Verifies our DKIM signatures with other implementations: OpenDKIM (libopendkim, C) and dkimpy (Python). Every message of the corpus is
 * signed with each algorithm; each verifier must accept it, and must reject it with one byte changed. The verifiers read the keys from a
 * file, so no DNS is involved. A missing verifier is skipped with a message, and is an error in CI.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createPrivateKey, randomBytes } from 'node:crypto';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { parseAddress } from '../../src/mail/address.ts';
import { compose } from '../../src/mail/compose/compose.ts';
import { generateDkimKeys, signDkim } from '../../src/mail/compose/dkim-sign.ts';

const HEADER =
  'From: Ann <ann@example.com>\r\nTo: b@example.org\r\nSubject: Hello\r\nDate: Fri, 20 Nov 2026 09:44:00 +0000\r\nMessage-ID: <1@example.com>\r\n';

function composed(): Buffer {
  const from = parseAddress('Ännchen <ann@example.com>');
  assert.ok(from.ok);
  return compose({
    from: from.value,
    to: [from.value],
    cc: [],
    replyTo: [],
    subject: 'Grüße aus Köln '.repeat(12),
    text: 'Hallo  Ann \n\n',
    html: `<p>${'Zeile mit Umlaut ü '.repeat(100)}</p>`,
    headers: [['List-Unsubscribe', '<https://example.com/unsubscribe?u=1>']],
    attachments: [{ name: 'Übersicht.pdf', contentType: 'application/pdf', content: randomBytes(20_000) }],
    messageId: '<1@example.com>',
    dateMs: Date.now(),
  }).content;
}

const corpus: Record<string, Buffer> = {
  plain: Buffer.from(`${HEADER}\r\nHello Ann\r\n`),
  'empty body': Buffer.from(`${HEADER}\r\n`),
  'only empty lines': Buffer.from(`${HEADER}\r\n\r\n\r\n`),
  'no line end': Buffer.from(`${HEADER}\r\nno line end`),
  whitespace: Buffer.from(`${HEADER}\r\n  leading, \t tabs\t\t and trailing \t \r\n\r\n \t\r\nend\r\n\r\n\r\n`),
  folded: Buffer.from(
    'From: a@example.com\r\nSubject:\r\n folded  \r\n\tsubject \r\nX-Other: x\r\nTo:b@example.org,\r\n\tc@example.org\r\n\r\nx\r\n',
  ),
  repeated: Buffer.from(
    'From: a@example.com\r\nList-Id: <one.x>\r\nList-Id: <two.x>\r\nReferences: <1@x>\r\nReferences: <2@x>\r\nSubject:\r\n\r\nx\r\n',
  ),
  'eight-bit': Buffer.from(`${HEADER}Cc: à@example.org\r\n\r\nGrüße à la carte \r\n`),
  composed: composed(),
};

const ALGORITHMS = ['rsa', 'ed25519'] as const;
const folder = mkdtempSync(join(tmpdir(), 'dkim-judges-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Signed files with the expected results. */
const cases: { label: string; file: string; valid: boolean }[] = [];

/** Changes one byte of the signed message, in the body if there is one: the first letter of the last line with letters. */
function forged(message: Buffer, headerBytes: number): Buffer {
  const copy = Buffer.from(message);
  let at = copy.length - 1;
  while (at > headerBytes && copy[at]! <= 0x20) at -= 1;
  const index = at > headerBytes && copy.indexOf('\r\n\r\n') < at ? at : copy.indexOf('From: ') + 6;
  copy[index] = copy[index] === 0x41 ? 0x42 : 0x41;
  return copy;
}

before(async () => {
  const generated = await generateDkimKeys();
  const keys = ALGORITHMS.map(
    (algorithm) => `s-${algorithm}._domainkey.example.com ${generated[algorithm].dnsValue}\n`,
  );
  writeFileSync(join(folder, 'keys'), keys.join(''));
  for (const algorithm of ALGORITHMS) {
    const privateKey = createPrivateKey(generated[algorithm].privateKeyPem);
    for (const [name, content] of Object.entries(corpus)) {
      const field = await signDkim({
        content,
        domain: 'example.com',
        keys: [{ algorithm, selector: `s-${algorithm}`, privateKey }],
        nowMs: Date.now(),
      });
      const message = Buffer.concat([Buffer.from(field), content]);
      for (const valid of [true, false]) {
        const file = join(folder, `${algorithm}-${name.replaceAll(' ', '-')}-${valid}.eml`);
        writeFileSync(file, valid ? message : forged(message, field.length));
        cases.push({ label: `${algorithm}, ${name}, ${valid ? 'as signed' : 'forged'}`, file, valid });
      }
    }
  }
});

/** A missing verifier: skipped on a developer's machine, an error in CI. */
function missing(judge: string, skip: (message: string) => void): void {
  if (process.env.CI === 'true') assert.fail(`${judge} is not installed`);
  skip(`${judge} is not installed`);
}

function compare(judge: string, accepted: Set<string>): void {
  assert.ok(cases.length === Object.keys(corpus).length * 4);
  const wrong = cases.filter(({ file, valid }) => accepted.has(file) !== valid).map(({ label }) => label);
  assert.deepEqual(wrong, [], `${judge} disagrees`);
}

const VERIFY = `
import sys, dkim
keys = dict(line.strip().split(' ', 1) for line in open(sys.argv[1]))
def lookup(name, timeout=5):
    return keys[name.decode().rstrip('.')].encode()
for file in sys.argv[2:]:
    try:
        good = dkim.DKIM(open(file, 'rb').read()).verify(dnsfunc=lookup)
    except dkim.DKIMException:
        good = False
    if good:
        print(file)
`;

test('dkimpy accepts every signature and no forgery', (t) => {
  // Another python earlier in the PATH does not see the system's packages.
  const python = ['/usr/bin/python3', 'python3'].find(
    (path) => spawnSync(path, ['-c', 'import dkim, nacl']).status === 0,
  );
  if (python === undefined) return missing('dkimpy (python3-dkim, python3-nacl)', (message) => t.skip(message));
  const files = cases.map(({ file }) => file);
  const { stdout, stderr, status } = spawnSync(python, ['-c', VERIFY, join(folder, 'keys'), ...files], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  assert.equal(status, 0, stderr);
  compare('dkimpy', new Set(stdout.split('\n')));
});

test('OpenDKIM accepts every signature and no forgery', (t) => {
  if (spawnSync('opendkim', ['-V']).error !== undefined) return missing('opendkim', (message) => t.skip(message));
  const config = join(folder, 'opendkim.conf');
  writeFileSync(config, `Mode v\nTestPublicKeys ${join(folder, 'keys')}\n`);
  // Its file reader drops a last line without a line end, which no message received over SMTP has.
  for (const { file } of cases) if (!readFileSync(file, 'latin1').endsWith('\r\n')) appendFileSync(file, '\r\n');
  const files = cases.map(({ file }) => file);
  const { stdout, stderr } = spawnSync('opendkim', ['-x', config, '-t', files.join(',')], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  const accepted = [...`${stdout}${stderr}`.matchAll(/^opendkim: (\S+): verification \([^)]*\) succeeded/gm)].map(
    (m) => m[1]!,
  );
  compare('opendkim', new Set(accepted));
});
