/** Authentication results with a fake DNS. No message and no DNS response makes verification endless or blocks the service. */
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { after, before, test } from 'node:test';
import { type FakeDns, fakeDns } from '../../test/kit/fake-dns.ts';
import { createLog } from '../base/log.ts';
import { generateDkimKeys, signDkim } from '../mail/compose/dkim-sign.ts';
import { type Dns, openDns } from '../net/dns.ts';
import type { AuthenticationResults } from './authentication-results.ts';
import { createMailVerifier, type MailVerifier, type MailVerifierOptions } from './mail-verifier.ts';

const MAIL =
  'From: Ann <ann@shop.example>\r\nTo: b@in.example\r\nSubject: Hello\r\nDate: Fri, 20 Nov 2026 09:44:00 +0000\r\n\r\nHello  Bob\r\n';
const HERE = '192.0.2.1';

let zone: FakeDns;
let dns: Dns;
let verifier: MailVerifier;
let keys: Awaited<ReturnType<typeof generateDkimKeys>>;
const verifierWith = (options: Partial<MailVerifierOptions> = {}): MailVerifier =>
  createMailVerifier({
    dns,
    log: createLog('info', () => undefined),
    ...options,
  });

before(async () => {
  zone = await fakeDns();
  dns = openDns({ servers: [zone.server], timeoutMs: 300, tries: 1 });
  keys = await generateDkimKeys();
  verifier = verifierWith();
  zone.zone = {
    'shop.example': { TXT: [`v=spf1 ip4:${HERE} -all`] },
    '_dmarc.shop.example': { TXT: ['v=DMARC1; p=reject'] },
    's._domainkey.shop.example': { TXT: [keys.rsa.dnsValue] },
    'e._domainkey.shop.example': { TXT: [keys.ed25519.dnsValue] },
    's._domainkey.mail.shop.example': { TXT: [keys.rsa.dnsValue] },
    'gone._domainkey.shop.example': { TXT: ['v=DKIM1; k=rsa; p='] },
    's._domainkey.other.example': { TXT: [keys.rsa.dnsValue] },
    'away._domainkey.shop.example': { fail: 'SERVFAIL' },
    'strict.example': { A: [HERE] },
    '_dmarc.strict.example': { TXT: ['v=DMARC1; p=quarantine; adkim=s; aspf=s'] },
    'sub.strict.example': { TXT: ['v=spf1 +all'] },
    's._domainkey.sub.strict.example': { TXT: [keys.rsa.dnsValue] },
  };
});
after(async () => {
  await verifier?.stop();
  dns?.close();
  await zone?.close();
});

const verify = (
  content: string | Buffer,
  change: Partial<Parameters<MailVerifier['verify']>[0]> = {},
): Promise<AuthenticationResults> =>
  verifier.verify({
    content: Buffer.from(content),
    address: HERE,
    helo: 'mx.shop.example',
    envelopeFrom: 'ann@shop.example',
    ...change,
  });

async function signed(domain = 'shop.example', selector = 's', content = MAIL): Promise<string> {
  const algorithm = selector === 'e' ? 'ed25519' : 'rsa';
  const privateKey = createPrivateKey(keys[algorithm].privateKeyPem);
  const field = await signDkim({
    content: Buffer.from(content),
    domain,
    nowMs: Date.now(),
    keys: [{ algorithm, selector, privateKey }],
  });
  return field + content;
}

test('a signed message from a host of the domain passes', async () => {
  assert.deepEqual(await verify(await signed()), {
    spf: { result: 'pass', domain: 'shop.example', reason: null },
    dkim: [{ result: 'pass', domain: 'shop.example', selector: 's', reason: null }],
    dmarc: { result: 'pass', policy: 'reject', domain: 'shop.example', reason: null },
    arc: { result: 'none', reason: null },
  });
});

/** SPF, each signature, DMARC: `fail, fail, fail reject`. */
const short = ({ spf, dkim, dmarc }: AuthenticationResults): string =>
  [spf.result, ...dkim.map(({ result }) => result), `${dmarc.result} ${dmarc.policy}`].join(', ');
const ELSEWHERE = { address: '198.51.100.7' };

test('missing authentication is explained', async () => {
  const whole = await signed();
  const strict = MAIL.replace('ann@shop.example', 'ann@strict.example');
  const cases: [name: string, results: AuthenticationResults, expected: string][] = [
    ['not signed, from elsewhere', await verify(MAIL, ELSEWHERE), 'fail, fail reject'],
    ['signed, from elsewhere', await verify(whole, ELSEWHERE), 'fail, pass, pass reject'],
    ['changed', await verify(whole.replace('Bob', 'Eve'), ELSEWHERE), 'fail, fail, fail reject'],
    ['changed subject', await verify(whole.replace('Hello\r', 'Hi\r'), ELSEWHERE), 'fail, fail, fail reject'],
    ['Ed25519', await verify(await signed('shop.example', 'e'), ELSEWHERE), 'fail, pass, pass reject'],
    ['a key that is gone', await verify(await signed('shop.example', 'gone'), ELSEWHERE), 'fail, neutral, fail reject'],
    ['no key', await verify(await signed('shop.example', 'none'), ELSEWHERE), 'fail, neutral, fail reject'],
    [
      'a key that is away',
      await verify(await signed('shop.example', 'away'), ELSEWHERE),
      'fail, temperror, temperror reject',
    ],
    ['of a subdomain', await verify(await signed('mail.shop.example'), ELSEWHERE), 'fail, pass, pass reject'],
    ['of another domain', await verify(await signed('other.example'), ELSEWHERE), 'fail, pass, fail reject'],
    ['two', await verify(await signed('other.example', 's', whole), ELSEWHERE), 'fail, pass, pass, pass reject'],
    [
      'strict alignment',
      await verify(await signed('sub.strict.example', 's', strict), { envelopeFrom: 'a@sub.strict.example' }),
      'pass, pass, fail quarantine',
    ],
    ['no From', await verify('Subject: x\r\n\r\nx\r\n'), 'pass, permerror null'],
    ['two of them', await verify(`From: eve@other.example\r\n${whole}`), 'pass, fail, permerror null'],
    ['two of one domain', await verify(`From: eve@shop.example\r\n${whole}`), 'pass, fail, permerror null'],
    ['nothing', await verify(''), 'pass, permerror null'],
  ];
  for (const [name, results, expected] of cases) assert.equal(short(results), expected, name);
});

test('SPF results are explained', async () => {
  const of = async (record: string | string[], change: object = {}): Promise<string> => {
    const name = `d${Object.keys(zone.zone).length}.example`;
    zone.zone[name] = { TXT: [record].flat(), A: [HERE], MX: [[10, `mx.${name}`]] };
    zone.zone[`mx.${name}`] = { A: [HERE] };
    const { spf } = await verify(MAIL, { envelopeFrom: `a@${name}`, ...change });
    assert.equal(spf.domain, name);
    return spf.result;
  };
  assert.equal(await of('v=spf1 a -all'), 'pass');
  assert.equal(await of('v=spf1 mx -all'), 'pass');
  assert.equal(await of('v=spf1 mx -all', ELSEWHERE), 'fail');
  assert.equal(await of('v=spf1 ip6:2001:db8::/32 ~all', { address: '2001:db8::1' }), 'pass');
  assert.equal(await of('v=spf1 include:shop.example ~all'), 'pass');
  assert.equal(await of('v=spf1 include:shop.example ~all', ELSEWHERE), 'softfail');
  assert.equal(await of('v=spf1 redirect=shop.example', ELSEWHERE), 'fail');
  assert.equal(await of('v=spf1 ?all'), 'neutral');
  assert.equal(await of('other text'), 'none');
  assert.equal(await of(['v=spf1 +all', 'v=spf1 -all']), 'permerror');
  assert.equal(await of('v=spf1 ip4:300.1.1.1 -all'), 'permerror');
  zone.zone['1.2.0.192.in-addr.arpa'] = { PTR: ['mx.named.example'] };
  zone.zone['mx.named.example'] = { A: [HERE] };
  assert.equal(await of('v=spf1 ptr:named.example -all'), 'pass');
  const v6 = { address: '2001:db8::25' };
  const reverse = `5.2${'.0'.repeat(22)}.8.b.d.0.1.0.0.2.ip6.arpa`;
  zone.zone[reverse] = { PTR: ['six.named.example'] };
  zone.zone['six.named.example'] = { AAAA: [v6.address] };
  assert.equal(await of('v=spf1 ptr:named.example -all', v6), 'pass');
  const bounce = await verify(MAIL, { envelopeFrom: '', helo: 'shop.example' });
  assert.deepEqual([bounce.spf.result, bounce.spf.domain], ['pass', 'shop.example'], 'for the HELO name');
});

test('a name with characters of a URL is never verified as another name', async () => {
  zone.zone['attacker.example'] = { TXT: ['v=spf1 +all'] };
  zone.zone['s._domainkey.attacker.example'] = { TXT: [keys.rsa.dnsValue] };
  for (const separator of ['/', '?', '#', '\\', '/%2e', '%2f']) {
    const forged = `attacker.example${separator}.shop.example`;
    const byEnvelope = await verify(MAIL, { ...ELSEWHERE, envelopeFrom: `x@${forged}` });
    assert.equal(short(byEnvelope), 'none, fail reject', forged);
    const byHelo = await verify(MAIL, { ...ELSEWHERE, envelopeFrom: '', helo: forged });
    assert.equal(short(byHelo), 'none, fail reject', forged);
    const name = `macro${Object.keys(zone.zone).length}.example`;
    zone.zone[name] = { TXT: [`v=spf1 exists:%{l}.${name} -all`] };
    zone.zone['named.example'] = { A: ['192.0.2.9'] };
    const byMacro = await verify(MAIL, { envelopeFrom: `named.example${separator}@${name}` });
    assert.equal(byMacro.spf.result, 'fail', forged);
  }
  zone.zone['7.100.51.198.in-addr.arpa'] = { PTR: ['attacker.example/.shop.example'] };
  zone.zone['attacker.example']!.A = [ELSEWHERE.address];
  zone.zone['ptr.example'] = { TXT: ['v=spf1 ptr:shop.example -all'] };
  const byPtr = await verify(MAIL, { ...ELSEWHERE, envelopeFrom: 'a@ptr.example' });
  assert.equal(byPtr.spf.result, 'fail');
  const control = await verify(MAIL, { ...ELSEWHERE, envelopeFrom: 'x@attacker.example' });
  assert.equal(short(control), 'pass, fail reject', 'control');
});

/** Adds ARC sets by this domain. */
async function sealed(content: string, signingDomain: string, sets = 1): Promise<string> {
  const { sealMessage } = await import('mailauth/lib/arc/index.js');
  let whole = content;
  for (let instance = 1; instance <= sets; instance += 1) {
    const fields = await sealMessage(Buffer.from(whole), {
      signingDomain,
      selector: `s${instance}`,
      privateKey: keys.rsa.privateKeyPem,
      authResults: 'mx.list.example; spf=pass',
      i: instance,
      cv: instance === 1 ? 'none' : 'pass',
    } as never);
    whole = fields.toString() + whole;
  }
  return whole;
}

test('the domain of an ARC set is validated', async () => {
  zone.zone['s1._domainkey.attacker.example'] = { TXT: [keys.rsa.dnsValue] };
  assert.equal((await verify(await sealed(MAIL, 'attacker.example'))).arc.result, 'pass', 'control');
  const { arc } = await verify(await sealed(MAIL, 'attacker.example/.shop.example'));
  assert.deepEqual([arc.result, arc.reason], ['fail', 'i=1 as invalid d= or s=']);
});

test('SPF uses the addresses of one family, and all of them', async () => {
  zone.zone['half.example'] = { TXT: ['v=spf1 a -all'], A: [HERE], AAAA: ['2001:db8::1'] };
  zone.tamper = (answer, { query }) => {
    // The type follows the name `half.example`; RCODE 2 is SERVFAIL.
    const isA = query.includes('\x04half\x07example\0\0\x01', 'latin1');
    if (isA) answer.writeUInt8((answer.readUInt8(3) & 0xf0) | 2, 3);
    return [answer];
  };
  const failed = await verify(MAIL, { envelopeFrom: 'a@half.example' });
  delete zone.tamper;
  assert.equal(failed.spf.result, 'temperror');
  const others = Array.from({ length: 60 }, (_, index) => `198.51.100.${index + 1}`);
  zone.zone['crowd.example'] = { TXT: ['v=spf1 a -all'], A: [...others, HERE] };
  assert.equal((await verify(MAIL, { envelopeFrom: 'a@crowd.example' })).spf.result, 'pass');
});

test('SPF with too many lookups is permerror after ten', async () => {
  for (let index = 0; index < 30; index += 1)
    zone.zone[`i${index}.loop.example`] = { TXT: [`v=spf1 include:i${(index + 1) % 30}.loop.example -all`] };
  const before = zone.questions.length;
  const { spf } = await verify(MAIL, { envelopeFrom: 'a@i0.loop.example' });
  assert.equal(spf.result, 'permerror');
  const asked = zone.questions.slice(before).filter((one) => one.includes('loop.example'));
  assert.equal(asked.length, 11);
});

test('an unresponsive DNS returns a temporary error within its time limit', async (t) => {
  for (const name of ['_dmarc.silent.example', 's._domainkey.silent.example', 'silent.example'])
    zone.zone[name] = { fail: 'timeout' };
  const slow = openDns({ servers: [zone.server], timeoutMs: 60_000, tries: 1 });
  const quick = verifierWith({ dns: slow, dnsMs: 200 });
  t.after(async () => {
    await quick.stop();
    slow.close();
  });
  const began = performance.now();
  const content = Buffer.from(await signed('silent.example', 's', MAIL.replace('ann@shop', 'ann@silent')));
  const found = await quick.verify({ content, address: HERE, helo: 'x', envelopeFrom: 'a@silent.example' });
  assert.equal(short(found), 'temperror, temperror, temperror null');
  assert.match(found.dkim[0]!.reason!, /ETIMEOUT/);
  assert.ok(performance.now() - began < 3_000);
});

test('an unresponsive DNS does not block the verification of responsive domains', async (t) => {
  zone.zone['mute.example'] = { fail: 'timeout' };
  const slow = openDns({ servers: [zone.server], timeoutMs: 60_000, tries: 1 });
  const quick = verifierWith({ dns: slow, dnsMs: 60_000, busyDnsMs: 1_000 });
  t.after(async () => {
    await quick.stop();
    slow.close();
  });
  const done: number[] = [];
  const from = async (envelopeFrom: string, index: number): Promise<AuthenticationResults> => {
    const results = await quick.verify({ content: Buffer.from(MAIL), address: HERE, helo: 'x', envelopeFrom });
    done.push(index);
    return results;
  };
  const flood = Array.from({ length: 20 }, (_, index) => from('a@mute.example', index));
  const honest = await from('ann@shop.example', 20);
  assert.equal(short(honest), 'pass, pass reject');
  for (const one of await Promise.all(flood.slice(16))) assert.equal(one.spf.result, 'temperror');
  assert.deepEqual(
    done.toSorted((a, b) => a - b),
    [16, 17, 18, 19, 20],
    'the first messages have the full time',
  );
  assert.equal(done[0], 20);
});

test('a header above the limits is not verified, with the reason', async () => {
  const whole = await signed();
  const cases: [string, RegExp][] = [
    [`X-Large: ${'x'.repeat(300_000)}\r\n${whole}`, /300\d{3} bytes/],
    [`X-Long: x\r\n${' y\r\n'.repeat(6_000)}${whole}`, /lines/],
  ];
  for (const [content, reason] of cases) {
    const found = await verify(content);
    assert.equal(short(found), 'pass, neutral, permerror null');
    for (const why of [found.dkim[0]!.reason, found.dmarc.reason, found.arc.reason]) assert.match(why!, reason);
  }
});

test('signatures and fields above the limits are skipped, and DMARC is evaluated', async () => {
  const whole = await signed();
  const signature = whole.slice(0, whole.indexOf('From:'));
  const many = await verify(signature.repeat(10) + whole);
  assert.equal(short(many), `pass, ${'pass, '.repeat(10)}neutral, pass reject`);
  assert.match(many.dkim[10]!.reason!, /^1 more DKIM signatures were not evaluated/);
  assert.equal(short(await verify(signature.repeat(9) + whole)), `pass, ${'pass, '.repeat(10)}pass reject`, 'control');
  const unsigned = `DKIM-Signature: v=1\r\n`.repeat(500) + MAIL;
  assert.equal(short(await verify(unsigned, ELSEWHERE)), `fail, ${'neutral, '.repeat(11)}fail reject`);
  const long = await verify(`DKIM-Signature: ${'x'.repeat(9_000)}\r\n${whole}`, ELSEWHERE);
  assert.equal(short(long), 'fail, neutral, pass, pass reject');
  assert.match(long.dkim[0]!.reason!, /dkim-signature has more than 8192 bytes/);
  const seal = await verify(`ARC-Seal: ${'x'.repeat(20_000)}\r\n${whole}`);
  assert.deepEqual([short(seal), seal.arc.result], ['pass, pass, pass reject', 'fail']);
  assert.match(seal.arc.reason!, /arc-seal has more than/);
  const from = await verify(`${signature}${MAIL.replace('Ann', 'A'.repeat(9_000))}`, ELSEWHERE);
  assert.equal(short(from), 'fail, fail, permerror null');
  const large = await signed('shop.example', 's', MAIL + 'x'.repeat(1_000_000));
  const partial = [1, 2, 3].map((l) => signature.replace('; s=', `; l=${l}; s=`)).join('');
  const hashed = await verify(partial + large, ELSEWHERE);
  assert.equal(short(hashed), 'fail, fail, neutral, neutral, pass, pass reject');
  assert.match(hashed.dkim[2]!.reason!, /different hashes/);
});

test('a sender cannot use up the queries for DMARC', async (t) => {
  const hosts = Array.from({ length: 10 }, (_, index) => `h${index}.greedy.example`);
  zone.zone['greedy.example'] = { TXT: ['v=spf1 mx:many.greedy.example ptr -all'] };
  zone.zone['many.greedy.example'] = { MX: hosts.map((host) => [10, host]) };
  zone.zone['hang.example'] = { fail: 'timeout' };
  const slow = openDns({ servers: [zone.server], timeoutMs: 60_000, tries: 1 });
  const quick = verifierWith({ dns: slow, dnsMs: 2_000 });
  t.after(async () => {
    await quick.stop();
    slow.close();
  });
  const content = Buffer.from(await signed());
  const from = { content, address: ELSEWHERE.address, helo: 'x' };
  const hung = await quick.verify({ ...from, envelopeFrom: 'a@hang.example' });
  assert.equal(short(hung), 'temperror, pass, pass reject');
  const forged = await quick.verify({ ...from, content: Buffer.from(MAIL), envelopeFrom: 'a@hang.example' });
  assert.equal(short(forged), 'temperror, fail reject', 'SPF of another domain does not matter');
  const before = zone.questions.length;
  const chained = await verify(await sealed(MAIL, 'sealer.example', 11), { envelopeFrom: 'a@greedy.example' });
  assert.equal(short(chained), 'fail, fail reject');
  assert.match(chained.arc.reason!, /11 keys; the limit for verification is 10/);
  assert.deepEqual(
    zone.questions.slice(before).filter((one) => one.includes('sealer.example')),
    [],
  );
  for (let set = 1; set <= 10; set += 1) zone.zone[`s${set}._domainkey.sealer.example`] = { TXT: [keys.rsa.dnsValue] };
  assert.equal((await verify(await sealed(MAIL, 'sealer.example', 10))).arc.result, 'pass', 'control');
});

test('a partially signed body does not pass', async () => {
  const body = 'Hello Bob\r\n';
  const { dkimSign } = await import('mailauth/lib/dkim/sign.js');
  const content = `From: ann@shop.example\r\nSubject: x\r\n\r\n${body}`;
  const { signatures } = await dkimSign(content, {
    canonicalization: 'relaxed/relaxed',
    signTime: new Date(),
    signatureData: [
      { signingDomain: 'shop.example', selector: 's', privateKey: keys.rsa.privateKeyPem, maxBodyLength: 5 },
    ],
  } as never);
  const found = await verify(signatures + content, ELSEWHERE);
  assert.equal(short(found), 'fail, policy, fail reject');
  assert.deepEqual(found.dkim[0], {
    result: 'policy',
    domain: 'shop.example',
    selector: 's',
    reason: 'the last 6 bytes of the body are not signed (l=)',
  });
});
