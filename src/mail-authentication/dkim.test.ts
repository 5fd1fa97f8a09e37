/** DKIM signatures and key records: what passes, what does not and why, and the decisions where RFC 6376 leaves a choice. */
import assert from 'node:assert/strict';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { before, test } from 'node:test';
import { type Answers, answersFrom } from '../../test/kit/dns-answers.ts';
import { generateDkimKeys } from '../mail/compose/dkim-sign.ts';
import { BodyHashes, readSignature, verifySignature } from './dkim.ts';
import { createKeyLookup } from './dkim-key.ts';
import { parseFields } from './fields.ts';

let keys: Awaited<ReturnType<typeof generateDkimKeys>>;
before(async () => {
  keys = await generateDkimKeys();
});

const HEADER = 'From: ann@shop.example\r\nTo: b@in.example\r\nSubject: Hello\r\n';
const BODY = 'Hello Bob\r\n';
const NOW = 1_800_000_000;

/** Signs with simple canonicalization. `tags` are added to the usual ones or replace them; undefined removes one. */
function signed(tags: Record<string, string | undefined> = {}, { header = HEADER, body = BODY } = {}): string {
  const bh = createHash('sha256')
    .update(body.slice(0, Number(tags.l ?? body.length)))
    .digest('base64');
  const all = { v: '1', a: 'rsa-sha256', d: 'shop.example', s: 's', h: 'from:subject', bh, ...tags };
  const list = Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
  const field = `DKIM-Signature: ${list.join('; ')}; b=`;
  const names = (all.h ?? '').toLowerCase().split(':');
  const left = header.split('\r\n').filter(Boolean);
  const covered = names.flatMap((name) => {
    const at = left.findLastIndex((line) => line.toLowerCase().startsWith(`${name}:`));
    return at < 0 ? [] : left.splice(at, 1);
  });
  const data = Buffer.from([...covered, field].join('\r\n'));
  return `${field}${sign('sha256', data, createPrivateKey(keys.rsa.privateKeyPem)).toString('base64')}\r\n${header}`;
}

interface Verified {
  body?: string;
  records?: string[];
  zone?: Answers;
}

/** Returns the result with its reason, such as `fail: bad signature`. */
async function verified(header: string, { body = BODY, records, zone }: Verified = {}): Promise<string> {
  const fields = parseFields(header);
  const signature = readSignature(fields.find(({ name }) => name === 'dkim-signature')!);
  if ('result' in signature) return `${signature.result}: ${signature.reason}`;
  const bodyHashes = new BodyHashes([signature]);
  bodyHashes.update(Buffer.from(body));
  const published = zone ?? { 's._domainkey.shop.example': { TXT: records ?? [keys.rsa.dnsValue] } };
  const lookup = createKeyLookup(answersFrom(published));
  const { result, reason } = await verifySignature(signature, {
    fields,
    bodyHashes,
    keys: lookup,
    nowSeconds: NOW,
  });
  return [result, reason].filter((part) => part !== undefined).join(': ');
}

test('a signature passes until the message is changed', async () => {
  assert.equal(await verified(signed()), 'pass');
  assert.equal(await verified(signed().replace('Hello', 'Hallo')), 'fail: bad signature');
  assert.equal(await verified(signed().replace('b@in', 'c@in')), 'pass', 'To is not signed');
  assert.equal(await verified(signed(), { body: 'Hello Eve\r\n' }), 'fail: body hash did not verify');
  assert.equal(await verified(signed(), { body: `${BODY}\r\n\r\n` }), 'pass', 'empty lines at the end');
  assert.equal(await verified(signed().replace(/b=..../, 'b=####')), 'fail: bad signature');
});

test('a selector can contain underscores, a domain cannot', async () => {
  for (const selector of ['_s', 's_1', 'a_.b_c']) {
    const zone = { [`${selector}._domainkey.shop.example`]: { TXT: [keys.rsa.dnsValue] } };
    assert.equal(await verified(signed({ s: selector }), { zone }), 'pass', selector);
  }
  assert.match(await verified(signed({ d: 'a_b.shop.example' })), /^neutral: /);
  assert.match(await verified(signed({ s: 's_-' })), /^neutral: /);
});

test('a field that is listed once more than it occurs cannot be added', async () => {
  const added = (header: string): string => `Subject: Win\r\n${header}`;
  assert.equal(await verified(added(signed())), 'pass', 'the last field of a name is the signed one');
  assert.equal(await verified(added(signed({ h: 'from:subject:subject' }))), 'fail: bad signature');
  const twice = `Subject: first\r\n${HEADER}`;
  assert.equal(await verified(signed({ h: 'from:subject:subject' }, { header: twice })), 'pass');
});

test('tags are checked before the key is looked up', async () => {
  const cases: [tags: Record<string, string | undefined>, expected: string][] = [
    [{ v: '2' }, 'neutral: incompatible version'],
    [{ a: 'rsa-sha512' }, 'neutral: unknown algorithm'],
    [{ a: 'rsa-sha1' }, 'policy: weak algorithm'],
    [{ bh: undefined }, 'neutral: signature missing required tag'],
    [{ h: 'subject:to' }, 'neutral: From field not signed'],
    [{ h: ' : ' }, 'neutral: signature syntax error'],
    [{ d: 'shop' }, 'neutral: signature syntax error'],
    [{ l: '-1' }, 'neutral: signature syntax error'],
    [{ 'x!': '1' }, 'neutral: signature syntax error'],
    [{ q: 'dns/any' }, 'neutral: unsupported query method'],
    [{ q: 'http:dns/txt' }, 'pass'],
    [{ i: '@mail.shop.example' }, 'pass'],
    [{ i: 'Ann=20B@shop.example' }, 'neutral: signature syntax error'],
    [{ i: '@bank.example' }, 'neutral: domain mismatch'],
    [{ i: '@notshop.example' }, 'neutral: domain mismatch'],
    [{ t: String(NOW), x: String(NOW) }, 'neutral: invalid expiration'],
    [{ x: String(NOW - 1) }, 'neutral: expired'],
    [{ x: String(NOW) }, 'pass'],
    [{ t: String(NOW + 86_400) }, 'pass'],
    // RFC 6376 §3.5 has no white space around the slash, and no empty value.
    [{ c: 'simple / simple' }, 'neutral: unknown canonicalization'],
    [{ c: '' }, 'neutral: unknown canonicalization'],
    [{ c: 'simple' }, 'pass'],
  ];
  for (const [tags, expected] of cases) assert.equal(await verified(signed(tags)), expected, JSON.stringify(tags));
  const twice = signed().replace('d=shop.example', 'd=shop.example; d=shop.example');
  assert.equal(await verified(twice), 'neutral: signature syntax error');
});

test('SHA-1 is refused whatever the body is', async () => {
  assert.equal(await verified(signed({ a: 'rsa-sha1' }), { body: 'changed\r\n' }), 'policy: weak algorithm');
});

test('a signature of the start of a body does not pass', async () => {
  const partial = (bytes: number): string => `policy: the last ${bytes} bytes of the body are not signed (l=)`;
  assert.equal(await verified(signed({ l: '5' })), partial(6));
  assert.equal(await verified(signed({ l: '5' }), { body: `Hello${'x'.repeat(95)}\r\n` }), partial(97));
  assert.equal(await verified(signed({ l: '0' })), partial(BODY.length));
  assert.equal(await verified(signed({ l: '5' }).replace('Hello', 'Hallo')), 'fail: bad signature');
  assert.equal(await verified(signed({ l: String(BODY.length) })), 'pass', 'the entire body');
  assert.equal(await verified(signed({ l: '9'.repeat(76) })), 'pass', 'a length beyond the body');
});

test('key records are checked', async () => {
  const value = keys.rsa.dnsValue.replace(/^.*p=/, '');
  const cases: [record: string, expected: string][] = [
    [`p=${value}`, 'pass'],
    [`v=DKIM1; k=rsa; h=sha1:sha256; s=other:email; t=y; n=a "note"; p=${value.replace(/.{60}/g, '$& ')};`, 'pass'],
    [`v=DKIM1; h=sha1; p=${value}`, 'neutral: inappropriate hash algorithm'],
    [`v=DKIM1; s=other; p=${value}`, 'neutral: key not for email'],
    [`v=DKIM2; p=${value}`, 'neutral: unknown key version'],
    [`k=rsa; v=DKIM1; p=${value}`, 'neutral: unknown key version'],
    [`v=DKIM1; k=dsa; p=${value}`, 'neutral: unknown key type'],
    ['v=DKIM1; p=', 'neutral: invalid public key'],
    ['v=DKIM1; p=*', 'neutral: invalid public key'],
    ['v=DKIM1; p=AAAA', 'neutral: unknown key type'],
    [keys.ed25519.dnsValue, 'neutral: inappropriate key algorithm'],
  ];
  for (const [record, expected] of cases)
    assert.equal(await verified(signed(), { records: [record] }), expected, record);
  const strict = { records: [`v=DKIM1; t=y:s; p=${value}`] };
  assert.equal(await verified(signed({ i: '@shop.example' }), strict), 'pass');
  assert.equal(await verified(signed({ i: '@mail.shop.example' }), strict), 'neutral: domain mismatch');
});

test('a key is found among other TXT records in any order', async () => {
  for (const records of [
    [keys.rsa.dnsValue, 'v=spf1 -all'],
    ['v=spf1 -all', keys.rsa.dnsValue],
  ])
    assert.equal(await verified(signed(), { records }), 'pass');
});

test('several different keys at one name are not used', async () => {
  const other = (await generateDkimKeys()).rsa.dnsValue;
  for (const others of [[other], ['v=DKIM1; p='], ['v=spf1 -all', other]])
    for (const records of [
      [keys.rsa.dnsValue, ...others],
      [...others, keys.rsa.dnsValue],
    ])
      assert.equal(await verified(signed(), { records }), 'neutral: several keys');
  assert.equal(await verified(signed(), { records: ['p=', 'v=DKIM1; p='] }), 'neutral: invalid public key');
  assert.equal(await verified(signed(), { records: [keys.rsa.dnsValue, `${keys.rsa.dnsValue};`] }), 'pass', 'equal');
});

test('a failed lookup is temporary, a missing key is not', async () => {
  assert.equal(await verified(signed(), { zone: {} }), 'neutral: no key');
  const fails: Answers = { 's._domainkey.shop.example': 'fails' };
  assert.equal(await verified(signed(), { zone: fails }), 'temperror: DNS failure: ESERVFAIL');
});

test('each key is looked up once', async () => {
  const asked: string[] = [];
  const lookup = createKeyLookup(answersFrom({}, asked));
  await Promise.all(Array.from({ length: 5 }, () => lookup('shop.example', 's')));
  assert.deepEqual(asked, ['TXT s._domainkey.shop.example']);
});
