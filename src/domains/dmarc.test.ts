/** DMARC records as receivers read them (RFC 9989): each tag, broken records, and the tree walk over a scripted DNS. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import type { DnsAnswer } from '../net/dns.ts';
import { type AppliedDmarc, appliedDmarc, findDmarc, organizationOf } from './dmarc.ts';

const found = (texts: string[]): DnsAnswer<string[]> => foundAnswer(texts);
const RUA = 'rua=mailto:reports@shop.example';

test('a DMARC record is verified if receivers apply it', () => {
  const rows: [text: string, status: 'verified' | 'different' | 'missing', note?: RegExp][] = [
    ['v=DMARC1; p=none', 'verified'],
    ['v=DMARC1;p=reject', 'verified'],
    ['v = DMARC1 ; p = QUARANTINE ;', 'verified'],
    [`v=DMARC1; ${RUA}; p=reject`, 'verified'],
    ['v=DMARC1; p=reject; sp=quarantine; np=reject; t=y; psd=n; adkim=s; aspf=s; fo=1:d:s', 'verified'],
    ['v=DMARC1; p=none; x=unknown; nonsense', 'verified'],
    [`v=DMARC1; ${RUA}`, 'verified', /has no p tag; receivers treat it as p=none\.$/],
    ['v=DMARC1; rua=https://reports.shop.example/a,mailto:b@c.example!10m', 'verified', /has no p/],
    [
      'v=DMARC1',
      'different',
      /no policy that receivers know: p must be none, quarantine or reject\. Without p it needs rua/,
    ],
    ['v=DMARC1; rua=reports@shop.example', 'different', /Without p it needs rua/],
    ['v=DMARC1; p=monitor', 'different', /no policy that receivers know, so they ignore it: p must be/],
    [`v=DMARC1; p=monitor; ${RUA}`, 'different', /so they act as for p=none: p must be/],
    ['v=DMARC1; p=reject; sp=off', 'different', /so they ignore it: sp must be/],
    ['v=DMARC1; p=reject; np=', 'different', /so they ignore it: np must be/],
    ['v=DMARC1; p=none; p=reject', 'different', /has the tag p twice/],
    ['v=DMARC1; p=reject; t=maybe', 'verified'],
    ['v=DMARC1; p=reject; psd=y', 'verified', /has psd=y/],
    [
      'v=DMARC1; p=reject; pct=10',
      'verified',
      /has pct=10, which receivers ignore \(RFC 9989\); they apply p=reject to all email\. To test a policy, publish t=y/,
    ],
    ['v=DMARC1; p=none; pct=10', 'verified', /has pct, which receivers ignore .* Remove it\.$/],
    ['v=DMARC1; p=reject; pct=100; ri=86400; rf=afrf', 'verified', /has pct and rf and ri, .* Remove them\.$/],
    ['v=DMARC1\\; p=none', 'different', /backslashes/],
    ['"v=DMARC1; p=none"', 'different', /quotation marks/],
    ['p=none; v=DMARC1', 'missing'],
    ['v=dmarc1; p=none', 'missing'],
    ['v=DMARC10; p=none', 'missing'],
    ['v=spf1 -all', 'missing'],
  ];
  for (const [text, status, note] of rows) {
    const finding = findDmarc('shop.example', found([text]));
    assert.equal(finding.status, status, text);
    if (note) assert.match(finding.note ?? '', note);
    else assert.equal(finding.note, null, text);
  }
  const two = findDmarc('shop.example', found(['v=DMARC1; p=none', 'v=spf1 -all', 'v=DMARC1; p=reject']));
  assert.deepEqual([two.status, two.found?.length], ['different', 2]);
  assert.match(two.note ?? '', /2 DMARC records .* receivers ignore all of them/);
  assert.equal(findDmarc('shop.example', { status: 'temporary', cause: 'ESERVFAIL' }).status, 'unknown');
  assert.equal(findDmarc('shop.example', { status: 'no-such-domain', secure: false }).status, 'missing');
});

/** A DNS with these records, in which lookups of names in `fails` fail. Counts the lookups. */
function scripted(zone: Record<string, string[]>, { fails = [] as string[], exists = [] as string[] } = {}) {
  const asked: string[] = [];
  const resolveTxt = async (name: string): Promise<DnsAnswer<string[]>> => {
    asked.push(name);
    if (fails.includes(name)) return { status: 'temporary', cause: 'ESERVFAIL' };
    if (zone[name]) return found(zone[name]);
    return exists.includes(name) ? found([]) : { status: 'no-such-domain', secure: false };
  };
  return { asked, resolveTxt };
}

test('the tree walk queries every parent domain, at most eight', async () => {
  const short = scripted({});
  assert.equal(await appliedDmarc('a.mail.shop.example', short), undefined);
  assert.deepEqual(short.asked, [
    '_dmarc.a.mail.shop.example',
    '_dmarc.mail.shop.example',
    '_dmarc.shop.example',
    '_dmarc.example',
  ]);
  const eight = scripted({});
  await appliedDmarc('a.b.c.d.e.mail.shop.example', eight);
  assert.equal(eight.asked.length, 8);
  const long = scripted({});
  await appliedDmarc('a.b.c.d.e.f.g.h.i.j.mail.shop.example', long);
  assert.deepEqual(long.asked, [
    '_dmarc.a.b.c.d.e.f.g.h.i.j.mail.shop.example',
    '_dmarc.g.h.i.j.mail.shop.example',
    '_dmarc.h.i.j.mail.shop.example',
    '_dmarc.i.j.mail.shop.example',
    '_dmarc.j.mail.shop.example',
    '_dmarc.mail.shop.example',
    '_dmarc.shop.example',
    '_dmarc.example',
  ]);
});

test('a record with psd=y or psd=n ends the tree walk', async () => {
  for (const psd of ['y', 'n']) {
    const dns = scripted({ '_dmarc.mail.shop.example': [`v=DMARC1; p=none; psd=${psd}`] });
    await appliedDmarc('a.mail.shop.example', dns);
    assert.deepEqual(
      dns.asked.filter((name) => name.startsWith('_dmarc.')),
      ['_dmarc.a.mail.shop.example', '_dmarc.mail.shop.example'],
    );
  }
});

test('the organizational domain is found by the tree walk (§4.10.2)', async () => {
  const policy = 'v=DMARC1; p=reject';
  const rows: [zone: Record<string, string[]>, domain: string, organization: string][] = [
    [{}, 'a.mail.shop.example', 'a.mail.shop.example'],
    [{ '_dmarc.shop.example': [policy] }, 'a.mail.shop.example', 'shop.example'],
    [{ '_dmarc.mail.shop.example': [policy], '_dmarc.shop.example': [policy] }, 'a.mail.shop.example', 'shop.example'],
    [{ '_dmarc.mail.shop.example': [policy] }, 'a.mail.shop.example', 'mail.shop.example'],
    [
      { '_dmarc.mail.shop.example': [`${policy}; psd=n`], '_dmarc.shop.example': [policy] },
      'a.mail.shop.example',
      'mail.shop.example',
    ],
    [{ '_dmarc.example': [`${policy}; psd=y`] }, 'a.mail.shop.example', 'shop.example'],
    [
      { '_dmarc.mail.shop.example': [policy], '_dmarc.example': [`${policy}; psd=y`] },
      'a.mail.shop.example',
      'shop.example',
    ],
    [{ '_dmarc.shop.example': [`${policy}; psd=y`] }, 'shop.example', 'shop.example'],
    [
      { '_dmarc.mail.shop.example': [policy, policy], '_dmarc.shop.example': [policy] },
      'mail.shop.example',
      'shop.example',
    ],
    [{ '_dmarc.mail.shop.example': ['v=DMARC1; p=monitor'] }, 'mail.shop.example', 'mail.shop.example'],
    [{ '_dmarc.shop.example': ['v=DMARC1; p=none; p=none'] }, 'mail.shop.example', 'mail.shop.example'],
  ];
  for (const [zone, domain, organization] of rows)
    assert.equal(await organizationOf(domain, scripted(zone)), organization, JSON.stringify(zone));
  assert.equal(await organizationOf('mail.shop.example', scripted({}, { fails: ['_dmarc.shop.example'] })), undefined);
});

test('the policy of the domain, its organization, or the public suffix applies (§4.10.1)', async () => {
  const applied = async (
    domain: string,
    zone: Record<string, string[]>,
    options: Parameters<typeof scripted>[1] = {},
  ): Promise<[string, string] | undefined> => {
    const result = await appliedDmarc(domain, scripted(zone, { exists: [domain], ...options }));
    assert.notEqual(result, 'unknown');
    const policy = result as AppliedDmarc | undefined;
    return policy && [policy.publishedAt, policy.policy];
  };
  const organization = { '_dmarc.shop.example': ['v=DMARC1; p=none; sp=quarantine; np=reject'] };
  assert.deepEqual(await applied('shop.example', organization), ['shop.example', 'none']);
  assert.deepEqual(await applied('mail.shop.example', organization), ['shop.example', 'quarantine']);
  assert.deepEqual(await applied('mail.shop.example', organization, { exists: [] }), ['shop.example', 'reject']);
  assert.deepEqual(
    await applied('mail.shop.example', { '_dmarc.shop.example': ['v=DMARC1; p=reject'] }, { exists: [] }),
    ['shop.example', 'reject'],
  );
  const own = { ...organization, '_dmarc.mail.shop.example': ['v=DMARC1; p=quarantine; sp=none'] };
  assert.deepEqual(await applied('mail.shop.example', own), ['mail.shop.example', 'quarantine']);
  assert.deepEqual(
    await applied('a.mail.shop.example', own),
    ['shop.example', 'quarantine'],
    'not the policy of a domain in between',
  );
  const suffix = { '_dmarc.example': ['v=DMARC1; p=reject; sp=quarantine; psd=y'] };
  assert.deepEqual(await applied('shop.example', suffix), ['example', 'quarantine']);
  assert.deepEqual(await applied('mail.shop.example', suffix), ['example', 'quarantine']);
  for (const [tags, policy] of [
    ['p=reject; t=y', 'quarantine'],
    ['p=quarantine; t=y', 'none'],
    ['p=none; t=y', 'none'],
    ['p=reject; t=n', 'reject'],
    ['p=reject; t=maybe', 'reject'],
    ['p=reject; pct=0', 'reject'],
    [RUA, 'none'],
    [`p=monitor; ${RUA}`, 'none'],
    [`p=reject; sp=off; ${RUA}`, 'none'],
  ] as const)
    assert.deepEqual(
      await applied('shop.example', { '_dmarc.shop.example': [`v=DMARC1; ${tags}`] }),
      ['shop.example', policy],
      tags,
    );
  assert.equal(await applied('shop.example', { '_dmarc.shop.example': ['v=DMARC1; p=monitor'] }), undefined);
  assert.equal(await appliedDmarc('mail.shop.example', scripted({}, { fails: ['_dmarc.shop.example'] })), 'unknown');
});
