/** SPF records and the sending host: every form of record with a scripted DNS, and advice that extends the existing record. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeDns, fakeDns } from '../../test/kit/fake-dns.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { lookUpSpf, suggestedSpf } from './spf.ts';

const HOST = 'mail.sender.example';

let server: FakeDns;
let dns: Dns;
before(async () => {
  server = await fakeDns({
    [HOST]: { A: ['203.0.113.7'] },
    'alias.example': { A: ['203.0.113.7'] },
    'other.example': { A: ['198.51.100.1'] },
    'ours.example': { TXT: ['v=spf1 ip4:203.0.113.0/24 -all'] },
    'theirs.example': { TXT: ['v=spf1 ip4:198.51.100.0/24 -all'] },
    'refusing.example': { TXT: ['v=spf1 -ip4:203.0.113.7 +all'] },
    'loop.example': { TXT: ['v=spf1 include:loop.example -all'] },
    'macro.example': { TXT: ['v=spf1 exists:%{i}.spf.example -all'] },
    'broken.example': { fail: 'SERVFAIL' },
    'mx.example': { MX: [[10, HOST]], A: ['198.51.100.2'] },
  });
  dns = openDns({ servers: [server.server] });
});
after(async () => {
  dns.close();
  await server.close();
});

const rows: [record: string, status: string][] = [
  ['v=spf1 a:mail.sender.example ~all', 'verified'],
  ['V=SPF1 +A:Mail.Sender.Example -all', 'verified'],
  ['v=spf1 ip4:203.0.113.7 -all', 'verified'],
  ['v=spf1 ip4:203.0.113.0/24 -all', 'verified'],
  ['v=spf1 a:alias.example -all', 'verified'],
  ['v=spf1 mx:mx.example -all', 'verified'],
  ['v=spf1 include:ours.example -all', 'verified'],
  ['v=spf1 include:theirs.example include:ours.example -all', 'verified'],
  ['v=spf1 redirect=ours.example', 'verified'],
  ['v=spf1 exists:%{i}.spf.example ip4:203.0.113.7 -all', 'verified'],
  ['v=spf1 -all', 'different'],
  ['v=spf1 a -all', 'different'],
  ['v=spf1 a:other.example ~all', 'different'],
  ['v=spf1 -a:mail.sender.example ~all', 'different'],
  ['v=spf1 ~a:mail.sender.example -all', 'different'],
  ['v=spf1 ip4:203.0.114.0/24 ip6:2001:db8::/32 -all', 'different'],
  ['v=spf1 include:theirs.example -all', 'different'],
  ['v=spf1 include:refusing.example -all', 'different'],
  ['v=spf1 include:nowhere.example -all', 'different'],
  ['v=spf1 include:loop.example -all', 'different'],
  ['v=spf1 -all redirect=ours.example', 'different'],
  ['v=spf1 include:macro.example -all', 'unknown'],
  ['v=spf1 include:broken.example -all', 'unknown'],
  ['v=spf1 ptr -all', 'unknown'],
];

for (const [index, [record, status]] of rows.entries()) {
  test(`${record} → ${status}`, async () => {
    const domain = `d${index}.example`;
    server.zone[domain] = { TXT: ['unrelated', record], A: ['198.51.100.9'] };
    const finding = await lookUpSpf(domain, { dns, sendingHost: HOST });
    assert.equal(finding.status, status);
    if (status === 'verified') {
      assert.deepEqual([finding.value, finding.note], [record, null]);
      return;
    }
    assert.match(finding.note!, /\.$/);
    // The advice is the existing record with an addition, and it passes.
    assert.equal(finding.value.replace(` a:${HOST}`, ''), record.replace(` a:${HOST}`, ''));
    if (!/[-~]a:mail|redirect/.test(record)) {
      server.zone[`fixed-${domain}`] = { TXT: [finding.value], A: ['198.51.100.9'] };
      const fixed = await lookUpSpf(`fixed-${domain}`, { dns, sendingHost: HOST });
      assert.ok(fixed.status === 'verified' || /loop/.test(record), finding.value);
    }
  });
}

test('a missing record is missing, and a failed DNS lookup is unknown', async () => {
  const missing = await lookUpSpf('other.example', { dns, sendingHost: HOST });
  assert.deepEqual(missing, { status: 'missing', value: `v=spf1 a:${HOST} ~all`, found: [], note: null });
  assert.equal((await lookUpSpf('broken.example', { dns, sendingHost: HOST })).status, 'unknown');
});

test('two SPF records are an error that the note explains, even if one matches', async () => {
  server.zone['two.example'] = { TXT: [`v=spf1 a:${HOST} ~all`, 'v=spf1 include:theirs.example -all'] };
  const finding = await lookUpSpf('two.example', { dns, sendingHost: HOST });
  assert.equal(finding.status, 'different');
  assert.match(finding.note!, /There are 2 SPF records .* at two\.example/);
});

test('more than ten DNS lookups are an error', async () => {
  const many = Array.from({ length: 11 }, () => 'a:other.example').join(' ');
  server.zone['many.example'] = { TXT: [`v=spf1 ${many} -all`] };
  const finding = await lookUpSpf('many.example', { dns, sendingHost: HOST });
  assert.equal(finding.status, 'different');
  assert.match(finding.note!, /more than 10 DNS lookups/);
});

test('an mx with more than ten hosts is an error, and none is looked up', async () => {
  const MX = Array.from({ length: 11 }, (_, index): [number, string] => [10, `m${index}.wide.example`]);
  server.zone['wide.example'] = { MX, TXT: ['v=spf1 mx -all'] };
  const finding = await lookUpSpf('wide.example', { dns, sendingHost: HOST });
  assert.match(finding.note!, /more than 10 DNS lookups/);
  assert.ok(!server.questions.some((one) => one.endsWith('m0.wide.example')));
});

test('a record with unresponsive names times out after 20 s', async (t) => {
  t.mock.method(performance, 'now', () => nowMs);
  let nowMs = 0;
  const MX = Array.from({ length: 10 }, (_, index): [number, string] => [10, `m${index}.deaf.example`]);
  const record = { status: 'found', value: [`v=spf1 ${'mx:deaf.example '.repeat(9)}-all`], secure: false, ttlMs: 1 };
  let asked = 0;
  const deaf = {
    resolveMx: async () => ({
      status: 'found',
      value: { hosts: MX.map(([preference, host]) => ({ preference, host })) },
    }),
    resolveAddresses: async () => {
      asked += 1;
      nowMs += 9_000;
      return { status: 'temporary', cause: 'ETIMEOUT' };
    },
    resolveTxt: async () => record,
  } as unknown as Dns;
  const finding = await lookUpSpf('deaf.example', { dns: deaf, sendingHost: HOST, addresses: ['203.0.113.7'] });
  assert.deepEqual([finding.status, asked], ['unknown', 3]);
});

test('advice never names a host without public DNS', async () => {
  for (const host of ['localhost', 'build-7', 'box.local', 'node.internal', '203.0.113.7', 'app.localdomain']) {
    const { value, note } = suggestedSpf(host);
    assert.doesNotMatch(value, /a:/, value);
    assert.match(note!, /POSTRIDER_SMTP_HOSTNAME/);
    const finding = await lookUpSpf('theirs.example', { dns, sendingHost: host });
    assert.doesNotMatch(finding.value, /a:/);
    assert.notEqual(finding.status, 'verified');
  }
});

test('an invalid record and an unknown term are named', async () => {
  const rows: [string, RegExp][] = [
    ['"v=spf1 a:mail.sender.example ~all"', /quotation marks/],
    ['v=spf1 ipv4:203.0.113.7 -all', /the term ipv4:203\.0\.113\.7, which is an error for receivers/],
    ['v=spf1 include: -all', /the term include:,/],
    ['v=spf1 a:mail.sender.example, -all', /does not include|the term/],
  ];
  for (const [record, note] of rows) {
    server.zone['spoilt.example'] = { TXT: [record] };
    const fresh = openDns({ servers: [server.server] });
    const finding = await lookUpSpf('spoilt.example', { dns: fresh, sendingHost: HOST });
    fresh.close();
    assert.equal(finding.status, 'different', record);
    assert.match(finding.note!, note);
    assert.deepEqual(finding.found, [record]);
  }
});
