/**
 * Messages made to be slow to verify: each shape takes bounded time, other messages get their results in the meantime, and the serving
 * thread is hardly blocked. CPU time is measured, since the machine may be busy.
 */
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { createMailVerifier, type MailVerifier } from '../../src/inbound-routes/mail-verifier.ts';
import { type Dns, openDns } from '../../src/net/dns.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';

const MOST = 25_000_000;
const FROM = 'From: a@shop.example\r\n';
const EMPTY_BODY = '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';

interface Tags {
  s?: string;
  l?: number;
  bh?: string;
  h?: string;
  c?: string;
  more?: string;
}
const signature = ({ s = 's', l, bh = 'AAAA', h = 'from', c = 'relaxed/relaxed', more = '' }: Tags): string =>
  `DKIM-Signature: v=1; a=rsa-sha256; c=${c}; d=shop.example; s=${s}; h=${h};${l === undefined ? '' : ` l=${l};`}${more}\r\n bh=${bh}; b=AAAA\r\n`;
const times = (count: number, make: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => make(index)).join('');
/** The largest possible body, with two signatures that hash it in two ways. */
const large = (piece: string): string =>
  `${signature({ l: MOST })}${signature({ l: MOST - 1 })}${FROM}\r\n`.padEnd(MOST, piece);
const arcSet = (index: number): string =>
  `ARC-Seal: i=${index}; a=rsa-sha256; d=shop.example; s=a${index}; cv=${index === 1 ? 'none' : 'pass'}; b=AAAA\r\n` +
  `ARC-Message-Signature: i=${index}; a=rsa-sha256; d=shop.example; s=a${index}; h=from; bh=${EMPTY_BODY}; b=AAAA\r\n` +
  `ARC-Authentication-Results: i=${index}; mx.example; ${'dkim=pass header.d=x; '.repeat(150)}\r\n`;

/** The message and its CPU time limit in ms: several times that of a slow machine, far below that of quadratic work. */
const SHAPES: Record<string, [content: () => string, cpuMs: number]> = {
  'tabs, 25 MB': [() => large(' \t x\r\n'), 60_000],
  'one line, 25 MB': [() => large('x'), 24_000],
  'line ends, 25 MB': [() => large('\r\n'), 24_000],
  'boundaries, 25 MB': [
    () => `Content-Type: multipart/mixed; boundary=${'b'.repeat(70)}\r\n${large(`--${'b'.repeat(60)}c\r\n`)}`,
    24_000,
  ],
  'ten lengths of 100 KB': [
    () => `${times(10, (l) => signature({ l: 90_000 + l }))}${FROM}\r\n`.padEnd(99_000, ' \t x\r\n'),
    2_000,
  ],
  'ten lengths of 25 MB': [() => times(8, (l) => signature({ l })) + large(' \t x\r\n'), 8_000],
  'spaces in tags': [() => `${times(10, () => signature({ more: ` z=${' '.repeat(7_800)}x;` }))}${FROM}\r\n`, 8_000],
  'fields in h=': [
    () =>
      `${times(10, () => signature({ h: `from:${'b:'.repeat(3_500)}`, bh: EMPTY_BODY }))}${FROM}${'b: x\r\n'.repeat(4_900)}\r\n`,
    16_000,
  ],
  '50,000 signatures': [() => `${times(50_000, () => signature({}))}${FROM}\r\n`, 8_000],
  'a header of 25 MB': [() => `${FROM}X: ${'x'.repeat(MOST - 1_000)}\r\n\r\n`, 8_000],
  'an unterminated header': [() => FROM.repeat(1_000_000), 8_000],
  folds: [() => `${FROM}X: y\r\n${' z\r\n'.repeat(4_900)}\r\n`, 8_000],
  'spaces before a colon': [() => `${FROM}X${' '.repeat(200_000)}: y\r\n\r\n`, 8_000],
  'fifty ARC sets': [() => `${times(50, (index) => arcSet(index + 1))}${FROM}\r\n`, 12_000],
  '5,000 ARC sets': [() => `${times(5_000, () => arcSet(1))}${FROM}\r\n`, 8_000],
  comments: [() => `ARC-Authentication-Results: ${'('.repeat(8_000)}\r\n`.repeat(20) + FROM, 8_000],
  addresses: [() => `From: ${'a@b.example,'.repeat(600)}\r\n\r\n`, 8_000],
  'From fields': [() => `${FROM.repeat(4_900)}\r\n`, 8_000],
  'a key of 16,384 bits': [() => `${times(10, () => signature({ s: 'huge', bh: EMPTY_BODY }))}${FROM}\r\n`, 8_000],
};

let zone: FakeDns;
let dns: Dns;
let verifier: MailVerifier;
before(async () => {
  zone = await fakeDns();
  const small = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey;
  const modulus = randomBytes(2_048);
  modulus[0]! |= 0x80;
  modulus[2_047]! |= 1;
  const jwk = { kty: 'RSA', n: modulus.toString('base64url'), e: 'AQAB' };
  const recordOf = (key: ReturnType<typeof createPublicKey>): string =>
    `v=DKIM1; k=rsa; p=${key.export({ type: 'spki', format: 'der' }).toString('base64')}`;
  zone.zone = {
    'shop.example': { TXT: ['v=spf1 ip4:192.0.2.1 -all'] },
    '_dmarc.shop.example': { TXT: ['v=DMARC1; p=reject'] },
    's._domainkey.shop.example': { TXT: [recordOf(small)] },
    'huge._domainkey.shop.example': { TXT: [recordOf(createPublicKey({ key: jwk, format: 'jwk' }))] },
    ...Object.fromEntries(
      times(50, (index) => ` a${index + 1}._domainkey.shop.example`)
        .trim()
        .split(' ')
        .map((name) => [name, { TXT: [recordOf(small)] }]),
    ),
  };
  dns = openDns({ servers: [zone.server] });
  verifier = createMailVerifier({
    dns,
    log: createLog('error', () => undefined),
    workMs: 120_000,
  });
});
after(async () => {
  await verifier?.stop();
  dns?.close();
  await zone?.close();
});

const verify = (content: string) =>
  verifier.verify({
    content: Buffer.from(content, 'latin1'),
    address: '192.0.2.1',
    helo: 'mx.shop.example',
    envelopeFrom: 'a@shop.example',
  });

for (const [name, [make, mostCpuMs]] of Object.entries(SHAPES)) {
  test(`${name}: bounded, without delaying other mail`, { timeout: 240_000 }, async () => {
    const hostile = make();
    await verify(`${FROM}\r\nx\r\n`);
    const cpu = process.cpuUsage();
    const thread = process.threadCpuUsage();
    const [found, honest] = await Promise.all([verify(hostile), verify(`${FROM}\r\nhello\r\n`)]);
    const { user, system } = process.cpuUsage(cpu);
    const serving = process.threadCpuUsage(thread);
    const cpuMs = Math.round((user + system) / 1_000);
    const servingMs = Math.round((serving.user + serving.system) / 1_000);
    assert.deepEqual([honest.spf.result, honest.dmarc.result], ['pass', 'pass']);
    assert.equal(found.spf.result, 'pass', 'verified completely');
    assert.ok(found.dkim.every(({ result }) => result !== 'pass'));
    assert.ok(cpuMs < mostCpuMs, `${cpuMs} ms of the processor`);
    // Copying 25 MB and forwarding DNS results takes 150 ms; slow machines are ten times slower for seconds.
    assert.ok(servingMs < 2_000, `the serving thread was busy for ${servingMs} ms`);
    assert.ok(zone.questions.length < 500);
  });
}

test('an unresponsive thread is ended, and concurrent messages are verified in the next one', {
  timeout: 120_000,
}, async (t) => {
  const isAnswered = { now: false };
  const never = new Promise<never>(() => undefined);
  const stuck: Dns = { ...dns, resolveTxt: (name) => (isAnswered.now ? dns.resolveTxt(name) : never) };
  const lines: string[] = [];
  // The timeout for the work is shorter than that for DNS, as if the thread did not receive the results.
  const impatient = createMailVerifier({
    dns: stuck,
    dnsMs: 60_000,
    workMs: -50_000,
    log: createLog('error', (line) => lines.push(line)),
  });
  t.after(() => impatient.stop());
  const mail = { content: Buffer.from(`${FROM}\r\nx\r\n`), address: '192.0.2.1', helo: 'x' };
  const verifyAgain = () => impatient.verify({ ...mail, envelopeFrom: 'a@shop.example' });
  const first = verifyAgain();
  await new Promise((resolve) => setTimeout(resolve, 500));
  const second = verifyAgain();
  const { spf } = await first;
  isAnswered.now = true;
  assert.equal(spf.result, 'temperror');
  assert.match(spf.reason!, /timed out/);
  assert.match(lines.at(-1)!, /"beside":1.*terminated/);
  assert.equal((await second).dmarc.result, 'pass');
  assert.equal((await verifyAgain()).dmarc.result, 'pass');
});
