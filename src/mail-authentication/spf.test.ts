/** SPF by the published test suite for RFC 7208 (test/fixtures/spf), and the limits and internationalized names that it does not cover. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { reverseName } from '../net/dns-name.ts';
import type { QueryAnswer, QueryType, Resolve } from './dns-query.ts';
import { checkSpf } from './spf.ts';

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
