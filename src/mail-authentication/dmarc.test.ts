/** DMARC over scripted DNS answers: alignment, policies of subdomains, failed queries, and the limit on queries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answers, answersFrom } from '../../test/kit/dns-answers.ts';
import { checkDmarc, type DmarcResult, lookUpPolicy } from './dmarc.ts';
import type { Resolve } from './dns-query.ts';

const record = (tags: string): Answers[string] => ({ TXT: [`v=DMARC1; ${tags}`] });

interface Input {
  author?: string;
  spfDomains?: string[];
  dkimDomains?: string[];
  /** Domains whose check ended in a temporary error. */
  spfUnknown?: string[];
  dkimUnknown?: string[];
}

async function checkWith(resolve: Resolve, input: Input): Promise<DmarcResult> {
  const { author = 'shop.example', spfDomains = [], dkimDomains = [], spfUnknown = [], dkimUnknown = [] } = input;
  const spf = { passed: spfDomains, unknown: spfUnknown };
  const dkim = { passed: dkimDomains, unknown: dkimUnknown };
  return checkDmarc(await lookUpPolicy(author, resolve), { spf, dkim }, resolve);
}

async function check(zone: Answers, input: Input): Promise<string> {
  const { result, policy, reason } = await checkWith(answersFrom(zone), input);
  return [result, policy, reason].filter((part) => part !== undefined).join(' ');
}

test('identifiers are aligned if they have the same organizational domain', async () => {
  const relaxed = { '_dmarc.shop.example': record('p=reject') };
  assert.equal(await check(relaxed, {}), 'fail reject');
  for (const domain of ['shop.example', 'mail.shop.example', 'SHOP.example.']) {
    assert.equal(await check(relaxed, { spfDomains: [domain] }), 'pass reject');
    assert.equal(await check(relaxed, { dkimDomains: ['bank.example', domain] }), 'pass reject');
  }
  for (const domain of ['notshop.example', 'example', 'bank.example', 'shop.example.test'])
    assert.equal(await check(relaxed, { dkimDomains: [domain] }), 'fail reject', domain);
  const strict = { '_dmarc.shop.example': record('p=reject; adkim=s; aspf=s') };
  assert.equal(await check(strict, { dkimDomains: ['mail.shop.example'] }), 'fail reject');
  assert.equal(await check(strict, { spfDomains: ['mail.shop.example'] }), 'fail reject');
  assert.equal(await check(strict, { dkimDomains: ['shop.example'] }), 'pass reject');
  const separate = { ...relaxed, '_dmarc.user.shop.example': record('p=none; psd=n') };
  assert.equal(await check(separate, { dkimDomains: ['user.shop.example'] }), 'fail reject', 'its own organization');
  const suffix = { '_dmarc.example': record('p=reject; psd=y') };
  assert.equal(await check(suffix, { dkimDomains: ['bank.example'] }), 'fail reject', 'below a public suffix');
});

test('a subdomain inherits a policy that depends on whether it exists', async () => {
  const author = 'mail.shop.example';
  const zone: Answers = { '_dmarc.shop.example': record('p=none; sp=quarantine; np=reject') };
  assert.equal(await check(zone, { author }), 'fail reject');
  assert.equal(await check({ ...zone, [author]: {} }, { author }), 'fail quarantine');
  const alias: Answers = { ...zone, [author]: { CNAME: ['gone.example'] } };
  const answers = answersFrom(alias);
  const resolve: Resolve = async (name, type) =>
    name === author && type === 'A' ? { status: 'no-such-domain' } : answers(name, type);
  const { policy } = await checkWith(resolve, { author });
  assert.equal(policy, 'quarantine', 'a CNAME to a missing name');
  assert.equal(
    await check({ ...zone, [author]: 'fails' }, { author }),
    `temperror quarantine A of ${author}: ESERVFAIL`,
  );
});

test('a failed query is temporary unless the result does not depend on it', async () => {
  const failed = { '_dmarc.shop.example': 'fails' } as const;
  assert.equal(await check(failed, {}), 'temperror TXT of _dmarc.shop.example: ESERVFAIL');
  const above: Answers = { '_dmarc.shop.example': record('p=reject'), '_dmarc.example': 'fails' };
  assert.equal(await check(above, { dkimDomains: ['shop.example'] }), 'pass reject');
  assert.equal(await check(above, { dkimDomains: ['shop.test'] }), 'fail reject');
  assert.equal(
    await check(above, { dkimDomains: ['mail.shop.example'] }),
    'temperror reject TXT of _dmarc.example: ESERVFAIL',
  );
});

test('a check of an aligned domain that ended in a temporary error is temporary', async () => {
  const relaxed: Answers = { '_dmarc.shop.example': record('p=reject') };
  const strict: Answers = { '_dmarc.shop.example': record('p=reject; adkim=s; aspf=s') };
  for (const [key, name] of [
    ['spfUnknown', 'SPF'],
    ['dkimUnknown', 'DKIM'],
  ] as const) {
    const aligned = `temperror reject ${name} of an aligned domain ended in a temporary error`;
    assert.equal(await check(relaxed, { [key]: ['shop.example'] }), aligned);
    assert.equal(await check(relaxed, { [key]: ['bank.example', 'mail.shop.example'] }), aligned);
    assert.equal(await check(strict, { [key]: ['shop.example'] }), aligned);
    assert.equal(await check(strict, { [key]: ['mail.shop.example'] }), 'fail reject', 'not aligned');
    assert.equal(await check(relaxed, { [key]: ['bank.example', 'notshop.example', 'bank.test'] }), 'fail reject');
    assert.equal(
      await check({ ...relaxed, '_dmarc.mail.shop.example': 'fails' }, { [key]: ['mail.shop.example'] }),
      'temperror reject TXT of _dmarc.mail.shop.example: ESERVFAIL',
      'possibly aligned',
    );
    assert.equal(await check(relaxed, { [key]: ['shop.example'], dkimDomains: ['shop.example'] }), 'pass reject');
  }
});

test('a domain without a usable record has no policy', async () => {
  assert.equal(await check({}, { dkimDomains: ['shop.example'] }), 'none');
  assert.equal(await check({ '_dmarc.shop.example': record('p=monitor') }, {}), 'none');
  assert.equal(await check({ '_dmarc.shop.example': record('p=monitor; rua=mailto:a@b.example') }, {}), 'fail none');
  assert.equal(await check({ '_dmarc.shop.example': record('p=none; p=reject') }, {}), 'none');
  assert.equal(await check({}, { author: '[192.0.2.1]' }), 'none');
});

test('a message causes at most eleven tree walks', async () => {
  const asked: string[] = [];
  const resolve = answersFrom({ '_dmarc.shop.example': record('p=reject') }, asked);
  const dkimDomains = Array.from({ length: 50 }, (_, index) => `a.b.c.d.e.f.g${index}.shop.example`);
  const own = { '_dmarc.shop.example': record('p=reject') };
  const separate = Object.fromEntries(dkimDomains.map((domain) => [`_dmarc.${domain}`, record('p=none; psd=n')]));
  assert.equal(await check({ ...own, ...separate }, { dkimDomains: dkimDomains.slice(0, 10) }), 'fail reject');
  assert.match(await check({ ...own, ...separate }, { dkimDomains }), /^temperror reject alignment of .* not checked/);
  await checkWith(resolve, { dkimDomains: dkimDomains.slice(0, 1) });
  assert.ok(asked.length <= 16, `${asked.length} queries`);
});
