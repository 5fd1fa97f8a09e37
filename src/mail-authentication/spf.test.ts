/** SPF by the published test suite for RFC 7208 (test/fixtures/spf), and the limits and internationalized names that it does not cover. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { type Answers, answersFrom } from '../../test/kit/dns-answers.ts';
import { reverseName } from '../net/dns-name.ts';
import type { QueryAnswer, QueryType, Resolve } from './dns-query.ts';
import { checkSpf } from './spf.ts';
import { parseDomainSpec } from './spf-macro.ts';

type SuiteRecord = string | Record<string, string | string[] | [number, string]>;

interface Suite {
  description: string;
  tests: Record<string, { helo: string; host: string; mailfrom: string; result: string | string[] }>;
  zonedata: Record<string, SuiteRecord[]>;
}

/** Answers as the suite's zone says: records of type SPF are also TXT records, unless the name has TXT records. */
function scripted(zone: Suite['zonedata']): Resolve {
  const names = new Map(Object.entries(zone).map(([name, records]) => [name.toLowerCase(), records]));
  const valuesOf = (records: SuiteRecord[], type: string): string[] =>
    records.flatMap((record) => {
      if (typeof record === 'string' || !(type in record)) return [];
      const value = record[type]!;
      if (type === 'MX') return [String(value[1])];
      if (value === 'NONE') return [];
      return [Array.isArray(value) ? value.join('') : String(value)];
    });
  const answer = (name: string, type: QueryType, aliases = 0): QueryAnswer => {
    const records = names.get(name.toLowerCase());
    if (!records) return { status: 'no-such-domain' };
    const alias = valuesOf(records, 'CNAME')[0];
    if (alias !== undefined && aliases < 8) return answer(alias, type, aliases + 1);
    const isText = type === 'TXT' && !records.some((record) => typeof record === 'object' && 'TXT' in record);
    const value = valuesOf(records, isText ? 'SPF' : type);
    if (value.length > 0) return { status: 'found', value };
    if (records.includes('TIMEOUT')) return { status: 'temporary', cause: 'ETIMEOUT' };
    return { status: 'no-data' };
  };
  return async (name, type) => answer(type === 'PTR' ? reverseName(name)! : name, type);
}

const suites = parseAllDocuments(
  readFileSync(new URL('../../test/fixtures/spf/rfc7208-tests.yml', import.meta.url), 'utf8'),
  { uniqueKeys: false },
).map((document) => document.toJS() as Suite | null);

let cases = 0;
for (const suite of suites) {
  if (!suite?.tests) continue;
  test(`RFC 7208 suite: ${suite.description}`, async () => {
    const resolve = scripted(suite.zonedata);
    for (const [name, { helo, host, mailfrom, result }] of Object.entries(suite.tests)) {
      cases += 1;
      const found = await checkSpf({ address: host, helo, envelopeFrom: mailfrom ?? '' }, resolve);
      assert.ok([result].flat().includes(found.result), `${name}: ${found.result}, not ${result}. ${found.reason}`);
    }
  });
}

test('the suite has all its cases', () => assert.equal(cases, 203));

const check = async (zone: Answers, change: Partial<Parameters<typeof checkSpf>[0]> = {}, asked: string[] = []) => {
  const input = { address: '192.0.2.1', helo: 'mx.shop.example', envelopeFrom: 'ann@shop.example', ...change };
  return checkSpf(input, answersFrom(zone, asked));
};

test('the envelope sender is checked, or the HELO name if it is empty', async () => {
  const zone = { 'shop.example': { TXT: ['v=spf1 ip4:192.0.2.1 -all'] }, 'mx.shop.example': { TXT: ['v=spf1 -all'] } };
  assert.deepEqual(await check(zone), { result: 'pass', domain: 'shop.example', reason: undefined });
  assert.deepEqual(await check(zone, { envelopeFrom: '' }), {
    result: 'fail',
    domain: 'mx.shop.example',
    reason: 'domain of postmaster@mx.shop.example does not designate 192.0.2.1 as permitted sender',
  });
  assert.equal((await check(zone, { address: '::ffff:192.0.2.1' })).result, 'pass', 'an IPv4-mapped address');
  assert.equal((await check(zone, { address: 'unknown' })).result, 'temperror');
});

test('internationalized names are queried as A-labels', async () => {
  const zone = {
    'xn--bcher-kva.example': { TXT: ['v=spf1 exists:%{o}.list.example -exists:%{l}.%{o}.example ?all'] },
    'xn--bcher-kva.example.list.example': { A: ['127.0.0.2'] },
  };
  const found = await check(zone, { envelopeFrom: 'ann@BÜCHER.example' });
  assert.deepEqual([found.result, found.domain], ['pass', 'xn--bcher-kva.example']);
  const local = { 'shop.example': { TXT: ['v=spf1 -exists:%{l}.example include:%{s} ?all'] } };
  const asked: string[] = [];
  assert.equal((await check(local, { envelopeFrom: 'jö@shop.example' }, asked)).result, 'neutral');
  assert.deepEqual(asked, ['TXT shop.example'], 'RFC 8616 §4: such a term does not match');
});

test('the time for a domain-spec grows linearly with its length', async () => {
  // Quadratic time would take minutes for this length.
  assert.equal(parseDomainSpec(`x.${'a'.repeat(4_000_000)}-`), undefined);
  assert.equal(parseDomainSpec(`x.${'1'.repeat(4_000_000)}`), undefined);
  assert.notEqual(parseDomainSpec(`x.${'a'.repeat(63)}`), undefined);
  for (const label of ['1', '-a', 'a-', 'a_b', '']) assert.equal(parseDomainSpec(`x.${label}`), undefined, label);
  for (const label of ['a', '1-1', 'a1', '1a']) assert.notEqual(parseDomainSpec(`x.${label}`), undefined, label);
});

test('the number of queries is limited', async () => {
  const names = Array.from({ length: 40 }, (_, index) => `h${index}.example`);
  const records: [record: string, result: string, most: number][] = [
    ['v=spf1 include:shop.example -all', 'permerror', 1],
    ['v=spf1 redirect=shop.example', 'permerror', 1],
    [`v=spf1 ${names.map((name) => `exists:${name}`).join(' ')} -all`, 'permerror', 4],
    [`v=spf1 ${names.map(() => 'a:large.example').join(' ')} -all`, 'permerror', 2],
    ['v=spf1 mx:large.example -all', 'permerror', 12],
    ['v=spf1 ptr -all', 'fail', 12],
    [`v=spf1 ${'exists:%{p}.example '.repeat(40)}-all`, 'permerror', 15],
    [`v=spf1 ${'exists:%{l}%{l}%{l}%{l}%{l}%{l} '.repeat(100)}-all`, 'permerror', 4],
    [`v=spf1 ${'ip4:198.51.100.1 '.repeat(200)}-all`, 'fail', 1],
    [`v=spf1 ${'%'.repeat(4_000)}`, 'permerror', 1],
    [`v=spf1 a:${'a.'.repeat(400)}example -all`, 'fail', 2],
    [`v=spf1 a:${'a.'.repeat(1_000)}example -all`, 'fail', 1],
    [`v=spf1 a${'/1'.repeat(2_000)} -all`, 'permerror', 1],
    [`v=spf1 exists:${'%{s}'.repeat(1_000)}.example -all`, 'fail', 1],
    [`v=spf1 include:${'%{s}'.repeat(1_000)}.example -all`, 'permerror', 1],
    [`v=spf1 a:x.${'a'.repeat(64)} -all`, 'permerror', 1],
    [`v=spf1 ${'ip4:198.51.100.1 '.repeat(3_500)}-all`, 'permerror', 1],
    [`v=spf1 a:x.${'1'.repeat(60_000)}! -all`, 'permerror', 1],
  ];
  for (const [record, result, most] of records) {
    const asked: string[] = [];
    const zone: Answers = {
      'shop.example': { TXT: [record] },
      'large.example': { MX: names, A: ['198.51.100.1'] },
      '192.0.2.1': { PTR: names },
    };
    const found = await check(zone, { envelopeFrom: `${'x.'.repeat(30)}x@shop.example` }, asked);
    assert.equal(found.result, result, record.slice(0, 60));
    assert.ok(asked.length <= most, `${asked.length} queries for ${record.slice(0, 60)}`);
  }
});
