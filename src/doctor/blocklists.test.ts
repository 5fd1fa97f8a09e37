/** Blocklists with a fake DNS: listed, clear, and inconclusive responses. */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { openDns } from '../net/dns.ts';
import { checkBlocklists } from './blocklists.ts';

const LIST = 'zen.list.example';
const ADDRESS = '185.199.10.7';
const KNOWS_ITSELF: FakeZone = { [`2.0.0.127.${LIST}`]: { A: ['127.0.0.2', '127.0.0.4', '127.0.0.10'] } };
const entry = `7.10.199.185.${LIST}`;

async function look(t: TestContext, zone: FakeZone, addresses = [ADDRESS]) {
  const fake = await fakeDns(zone);
  const dns = openDns({ servers: [fake.server], timeoutMs: 300, tries: 1 });
  t.after(() => {
    dns.close();
    return fake.close();
  });
  return { checks: await checkBlocklists([LIST], addresses, dns), questions: fake.questions };
}

test('an unlisted address is ok', async (t) => {
  const { checks, questions } = await look(t, KNOWS_ITSELF);
  assert.deepEqual([checks.length, checks[0]!.status], [1, 'ok']);
  assert.ok(questions.includes(`A ${entry}`));
});

test('a listed address fails with the text of the list', async (t) => {
  const zone = { ...KNOWS_ITSELF, [entry]: { A: ['127.0.0.3'], TXT: ['https://list.example/query/185.199.10.7'] } };
  const { checks } = await look(t, zone);
  assert.equal(checks[0]!.status, 'fail');
  assert.match(checks[0]!.message, /185\.199\.10\.7 is on zen\.list\.example: https:\/\/list\.example\/query/);
});

test('IPv6 is queried by nibbles', async (t) => {
  const name = `7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.1.0.0.0.8.f.4.0.1.0.a.2.${LIST}`;
  const { checks } = await look(t, { ...KNOWS_ITSELF, [name]: { A: ['127.0.0.2'] } }, ['2a01:4f8:1:2::7']);
  assert.equal(checks[0]!.status, 'fail');
});

const meaningless: [name: string, zone: FakeZone, message: RegExp][] = [
  ['an open resolver is refused with a code', { [`2.0.0.127.${LIST}`]: { A: ['127.255.255.254'] } }, /open resolver/],
  [
    'a resolver invents addresses',
    { [`2.0.0.127.${LIST}`]: { A: ['198.51.100.1'] }, [entry]: { A: ['198.51.100.1'] } },
    /open resolver/,
  ],
  ['its own test entry is not there', {}, /does not return its own test entry/],
  ['it does not answer', { [`2.0.0.127.${LIST}`]: { fail: 'SERVFAIL' } }, /did not respond/],
  ['it stops answering', { ...KNOWS_ITSELF, [entry]: { A: ['127.255.255.255'] } }, /did not respond for 185/],
];
for (const [name, zone, message] of meaningless) {
  test(`an inconclusive blocklist lookup is reported: ${name}`, async (t) => {
    const { checks } = await look(t, zone);
    assert.deepEqual([checks.length, checks[0]!.status], [1, 'warn']);
    assert.match(checks[0]!.message, message);
    assert.match(checks[0]!.remedy!, /POSTRIDER_DNS_SERVERS/);
  });
}

test('nothing is queried without an address', async (t) => {
  const { checks, questions } = await look(t, {}, []);
  assert.deepEqual([checks, questions], [[], []]);
});
