/**
 * DKIM between Postrider and other implementations: OpenDKIM (libopendkim, C) and dkimpy (Python). Every message of the corpus is signed
 * with each algorithm; each verifier must accept it, and must reject it with one byte changed. In the other direction, Postrider verifies
 * what they sign. The keys are read from a file, so no DNS is involved. A missing program is skipped with a message, and is an error in CI.
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
import { type GeneratedDkimKey, generateDkimKeys, signDkim } from '../../src/mail/compose/dkim-sign.ts';
import { BodyHashes, readSignature, verifySignature } from '../../src/mail-authentication/dkim.ts';
import { createKeyLookup } from '../../src/mail-authentication/dkim-key.ts';
import { parseFields } from '../../src/mail-authentication/fields.ts';
import { answersFrom } from '../kit/dns-answers.ts';

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

let generated: Record<(typeof ALGORITHMS)[number], GeneratedDkimKey>;
before(async () => {
  generated = await generateDkimKeys();
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

// Another python earlier in the PATH does not see the system's packages.
const python = ['/usr/bin/python3', 'python3'].find(
  (path) => spawnSync(path, ['-c', 'import dkim, nacl']).status === 0,
);

test('dkimpy accepts every signature and no forgery', (t) => {
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

/** Returns Postrider's result for the first signature of a message. */
async function verified(message: Buffer): Promise<string> {
  const text = message.toString('latin1');
  const fields = parseFields(text.slice(0, text.indexOf('\r\n\r\n') + 2));
  const signature = readSignature(fields.find(({ name }) => name === 'dkim-signature')!);
  if ('result' in signature) return `${signature.result}: ${signature.reason}`;
  const bodyHashes = new BodyHashes([signature]);
  bodyHashes.update(message.subarray(text.indexOf('\r\n\r\n') + 4));
  const records = ALGORITHMS.map((one) => [`s-${one}._domainkey.example.com`, { TXT: [generated[one].dnsValue] }]);
  const keys = createKeyLookup(answersFrom(Object.fromEntries(records)));
  return (await verifySignature(signature, { fields, bodyHashes, keys, nowSeconds: Date.now() / 1000 })).result;
}

async function expectVerified(label: string, field: string, content: Buffer): Promise<void> {
  const message = Buffer.concat([Buffer.from(field, 'latin1'), content]);
  assert.equal(await verified(message), 'pass', label);
  assert.equal(await verified(forged(message, field.length)), 'fail', `${label}, forged`);
}

const SIGN = `
import sys, json, dkim
w = json.load(sys.stdin)
def sign(one):
    return dkim.sign(one['content'].encode('latin1'), one['selector'].encode(), b'example.com', one['key'].encode(),
        canonicalize=(one['header'].encode(), one['body'].encode()), signature_algorithm=one['algorithm'].encode()).decode()
print(json.dumps([sign(one) for one in w]))
`;

/** The PKCS #1 text for RSA and the bare seed for Ed25519, in Base64, as dkimpy wants them. */
function keyForDkimpy(algorithm: (typeof ALGORITHMS)[number]): string {
  const key = createPrivateKey(generated[algorithm].privateKeyPem);
  if (algorithm === 'rsa') return key.export({ type: 'pkcs1', format: 'pem' }).toString();
  return key.export({ type: 'pkcs8', format: 'der' }).subarray(-32).toString('base64');
}

test('Postrider accepts every signature of dkimpy and no forgery', async (t) => {
  if (python === undefined) return missing('dkimpy (python3-dkim, python3-nacl)', (message) => t.skip(message));
  const forms = ['simple', 'relaxed'];
  const wanted = Object.entries(corpus).flatMap(([name, content]) =>
    ALGORITHMS.flatMap((algorithm) =>
      forms.flatMap((header) =>
        forms.map((body) => ({
          name,
          content: content.toString('latin1'),
          algorithm: `${algorithm}-sha256`,
          selector: `s-${algorithm}`,
          key: keyForDkimpy(algorithm),
          header,
          body,
        })),
      ),
    ),
  );
  const { stdout, stderr, status } = spawnSync(python, ['-c', SIGN], {
    input: JSON.stringify(wanted),
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.equal(status, 0, stderr);
  const fields = JSON.parse(stdout) as string[];
  assert.equal(fields.length, Object.keys(corpus).length * 8);
  for (const [index, field] of fields.entries()) {
    const { name, algorithm, header, body, content } = wanted[index]!;
    await expectVerified(`${name}, ${algorithm}, ${header}/${body}`, field, Buffer.from(content, 'latin1'));
  }
});

test('Postrider accepts every signature of OpenDKIM and no forgery', async (t) => {
  if (spawnSync('opendkim', ['-V']).error !== undefined) return missing('opendkim', (message) => t.skip(message));
  const key = join(folder, 'rsa.pem');
  writeFileSync(key, keyForDkimpy('rsa'), { mode: 0o600 });
  for (const form of ['simple/simple', 'simple/relaxed', 'relaxed/simple', 'relaxed/relaxed']) {
    const config = join(folder, 'sign.conf');
    const settings = ['Mode s', 'Domain example.com', 'Selector s-rsa', `KeyFile ${key}`, 'InternalHosts 0.0.0.0/0'];
    writeFileSync(config, [...settings, `Canonicalization ${form}`, 'RequireSafeKeys no', ''].join('\n'));
    for (const [name, content] of Object.entries(corpus)) {
      // Its test mode normalizes the space after a colon, which the simple form preserves.
      if (form.startsWith('simple/') && /^[^\s:]+:(?! \S)/m.test(content.toString('latin1'))) continue;
      const file = join(folder, 'unsigned.eml');
      const whole = content.toString('latin1').endsWith('\r\n')
        ? content
        : Buffer.concat([content, Buffer.from('\r\n')]);
      writeFileSync(file, whole);
      const options = { encoding: 'latin1', timeout: 30_000 } as const;
      const { stdout, stderr } = spawnSync('opendkim', ['-x', config, '-vv', '-t', file], options);
      const value = /hname='DKIM-Signature' hvalue='([^']*)'/.exec(stdout + stderr)?.[1];
      assert.ok(value !== undefined, `${name}: ${stdout}${stderr}`);
      await expectVerified(`${name}, ${form}`, `DKIM-Signature: ${value.replaceAll('\n', '\r\n')}\r\n`, whole);
    }
  }
});
