/**
 * The DNS records of a domain, with real resolvers that query scripted servers: each common mistake has its note, and authoritative servers
 * take precedence over a resolver.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeDns, type FakeName, type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { generateDkimKeys } from '../mail/compose/dkim-sign.ts';
import { type Dns, openDns } from '../net/dns.ts';
import { checkRecords, type DnsRecord, knownRecords } from './dns-records.ts';
import type { ZoneServer } from './published.ts';
import type { DomainKey, SenderDomain } from './store.ts';
import { zoneServers } from './zone-servers.ts';

const HOST = 'mail.sender.example';
const NAME = 's1._domainkey.mail.shop.example';

let resolver: FakeDns;
const authorities: FakeDns[] = [];
const servers: ZoneServer[] = [];
const dnsOf = ({ server }: FakeDns) => openDns({ servers: [server], timeoutMs: 300, tries: 1 });
let domain: SenderDomain;
let rsa: string;
let lookUp: Parameters<typeof checkRecords>[1];

before(async () => {
  resolver = await fakeDns();
  for (const host of ['ns1.shop.example', 'ns2.shop.example']) {
    const authority = await fakeDns();
    authorities.push(authority);
    // Queried each time, like authoritative servers.
    servers.push({ host, dns: freshly(authority) });
  }
  const generated = await generateDkimKeys();
  const key = (algorithm: 'rsa' | 'ed25519', selector: string): DomainKey => ({
    algorithm,
    selector,
    publicKey: generated[algorithm].dnsValue,
    state: 'active',
    publishedAt: null,
    shownSince: null,
    createdAt: 0,
    retiredAt: null,
  });
  rsa = generated.rsa.dnsValue;
  domain = {
    id: 'dom_1',
    accountId: 'acc_1',
    domain: 'mail.shop.example',
    status: 'pending',
    createdAt: 0,
    checkedAt: null,
    failingSince: null,
    tracking: null,
    keys: [key('rsa', 's1'), key('ed25519', 's2')],
  };
  lookUp = { dns: freshly(resolver), sendingHost: HOST };
});
after(async () => {
  for (const one of [resolver, ...authorities]) await one.close();
});

/** A Dns without a cache. */
function freshly(fake: FakeDns): Dns {
  return dnsOf(fake).atServers([fake.server]);
}

/** The RSA key record with these texts, or at this name, in the resolver's zone. */
async function keyWith(published: string[] | FakeName, at = NAME): Promise<DnsRecord> {
  resolver.zone = { [at]: Array.isArray(published) ? { TXT: published } : published };
  return (await checkRecords(domain, lookUp))[0]!.record;
}

test('every record has its purpose, its value, and whether it is required', () => {
  const shown = knownRecords(domain, { sendingHost: HOST, bounceDomain: 'in.postrider.example' });
  assert.deepEqual(
    shown.map(({ purpose, type, name, status, found, required }) => [purpose, type, name, status, found, required]),
    [
      ['dkim', 'TXT', NAME, 'pending', null, true],
      ['dkim', 'TXT', 's2._domainkey.mail.shop.example', 'pending', null, false],
      ['spf', 'TXT', 'mail.shop.example', 'pending', null, false],
      ['dmarc', 'TXT', '_dmarc.mail.shop.example', 'pending', null, false],
      ['return-path', 'CNAME', 'bounces.mail.shop.example', 'pending', null, false],
    ],
  );
  assert.equal(shown.at(-1)!.value, 'in.postrider.example');
  assert.equal(knownRecords(domain, { sendingHost: HOST }).length, 4, 'no return path without a bounce domain');
});

test('the domain above the bounce domain lists the TLS records, with their published state', async () => {
  const bounceDomain = 'bounces.mail.shop.example';
  const settings = { sendingHost: HOST, bounceDomain };
  const shown = knownRecords(domain, settings).slice(4);
  assert.deepEqual(
    shown.map(({ purpose, name, value, status }) => [purpose, name, value, status]),
    [
      ['mta-sts', `_mta-sts.${bounceDomain}`, 'v=STSv1; id=1;', 'pending'],
      ['tls-rpt', `_smtp._tls.${bounceDomain}`, `v=TLSRPTv1; rua=mailto:postmaster@${bounceDomain}`, 'pending'],
    ],
    'not an alias of itself',
  );
  const [sts, rpt] = shown.map(({ name }) => name) as [string, string];
  const cases: [zone: Record<string, FakeName>, ...expected: [status: string, note: RegExp | null][]][] = [
    [
      {},
      ['missing', /at https:\/\/mta-sts\.bounces\.mail\.shop\.example\/\.well-known\/mta-sts\.txt/],
      ['missing', null],
    ],
    [
      {
        [sts]: { TXT: ['v=STSv1; id=20261123;'] },
        [rpt]: { TXT: ['other', 'v=TLSRPTv1; rua=https://reports.example/'] },
      },
      ['verified', null],
      ['verified', null],
    ],
    [
      { [sts]: { TXT: ['v=STSv1; id=1;', 'v=STSv1; id=2;'] }, [rpt]: { TXT: ['v=TLSRPTv1; rua=postmaster'] } },
      ['different', /There are 2 of these records/],
      ['different', /has a syntax error/],
    ],
    [{ [sts]: { fail: 'SERVFAIL' }, [rpt]: { fail: 'SERVFAIL' } }, ['unknown', /Try again/], ['unknown', /Try again/]],
  ];
  for (const [zone, ...expected] of cases) {
    resolver.zone = zone;
    const found = (await checkRecords(domain, { ...lookUp, ...settings })).slice(-2).map(({ record }) => record);
    for (const [index, [status, note]] of expected.entries()) {
      assert.equal(found[index]!.status, status, found[index]!.note ?? '');
      if (note === null) assert.equal(found[index]!.note, null);
      else assert.match(found[index]!.note!, note);
    }
  }
  for (const other of ['in.postrider.example', 'xmail.shop.example'])
    assert.equal(knownRecords(domain, { ...settings, bounceDomain: other }).length, 5, 'not a domain of another owner');
});

const p = (): string => rsa.split('p=')[1]!;
const mistakes: [what: string, texts: () => string[], status: DnsRecord['status'], note: RegExp | null][] = [
  ['as it should be', () => [rsa], 'verified', null],
  ['with spaces where its strings meet', () => [`${rsa.slice(0, 255)} ${rsa.slice(255)}`], 'verified', null],
  ['beside other texts', () => ['unrelated', rsa], 'verified', null],
  ['nothing', () => [], 'missing', /no TXT record at s1\._domainkey\.mail\.shop\.example yet/],
  ['only other texts', () => ['unrelated'], 'missing', /is not a DKIM key/],
  ['cut off after 255 characters', () => [rsa.slice(0, 255)], 'different', /is truncated: \d+ of 392 characters.*255/],
  ['cut off in front', () => [`v=DKIM1; k=rsa; p=${p().slice(200)}`], 'different', /is truncated: 192 of 392/],
  [
    'in two records',
    () => [rsa.slice(0, 255), rsa.slice(255)],
    'different',
    /split into 2 records. Publish one record/,
  ],
  ['in two records, the second first', () => [rsa.slice(255), rsa.slice(0, 255)], 'different', /split into 2 records/],
  ['in quotes', () => [`"${rsa}"`], 'different', /contains quotation marks/],
  ['with quotes inside', () => [`${rsa.slice(0, 255)}" "${rsa.slice(255)}`], 'different', /quotation marks/],
  ['with escaped semicolons', () => [rsa.replaceAll(';', '\\;')], 'different', /contains backslashes.*semicolons/],
  ['twice', () => [rsa, domain.keys[1]!.publicKey], 'different', /There are 2 keys/],
  ['revoked', () => ['v=DKIM1; k=rsa; p='], 'different', /is empty, which means that it was revoked/],
  ['of another version', () => [rsa.replace('DKIM1', 'DKIM2')], 'different', /has v=DKIM2/],
  ['of another kind', () => [rsa.replace('rsa', 'ed25519')], 'different', /has k=ed25519; it must have k=rsa/],
  ['another key', () => [domain.keys[1]!.publicKey], 'different', /a different key/],
];

for (const [what, texts, status, note] of mistakes) {
  test(`a DKIM key, ${what}: ${status}`, async () => {
    const record = await keyWith(texts());
    assert.equal(record.status, status, record.note ?? '');
    if (note === null) assert.equal(record.note, null);
    else assert.match(record.note!, note);
    assert.deepEqual(record.found, what === 'beside other texts' ? [rsa] : texts());
  });
}

test('a record published under an auto-completed name is detected', async () => {
  for (const zone of ['shop.example', 'mail.shop.example']) {
    const doubled = await keyWith([rsa], `${NAME}.${zone}`);
    assert.equal(doubled.status, 'missing');
    const within = NAME.slice(0, -zone.length - 1);
    assert.ok(doubled.note!.includes(`The record is published at ${NAME}.${zone} instead of `), doubled.note!);
    assert.ok(doubled.note!.includes(`Enter ${within} as its name in the zone ${zone}.`), doubled.note!);
    assert.deepEqual(doubled.found, [rsa]);
  }
  const short = await keyWith([rsa], 's1._domainkey.shop.example');
  assert.match(
    short.note!,
    /part of the name is missing\. Enter s1\._domainkey\.mail as its name in the zone shop\.example\./,
  );
});

test('a failed DNS lookup has the status unknown', async () => {
  const record = await keyWith({ fail: 'SERVFAIL' });
  assert.deepEqual([record.status, record.found], ['unknown', null]);
  assert.match(record.note!, /DNS lookup of .* failed/);
});

async function dmarcWith(texts: string[], at = '_dmarc.mail.shop.example'): Promise<DnsRecord> {
  resolver.zone = { [at]: { TXT: texts } };
  return (await checkRecords(domain, lookUp)).find(({ record }) => record.purpose === 'dmarc')!.record;
}

test('DMARC requires one valid policy, at the domain or a parent', async () => {
  const rows: [string[], DnsRecord['status'], RegExp | null][] = [
    [['v=DMARC1; p=reject; rua=mailto:a@b.example'], 'verified', null],
    [['v=DMARC1;p=none'], 'verified', null],
    [['v=DMARC1; p=none', 'v=DMARC1; p=reject'], 'different', /2 DMARC records/],
    [['v=DMARC1; rua=mailto:a@b.example'], 'verified', /has no p tag; receivers treat it as p=none/],
    [['v=DMARC1; p=monitor'], 'different', /no policy that receivers know/],
    [['v=DMARC1\\; p=none'], 'different', /backslashes/],
    [['"v=DMARC1; p=none"'], 'different', /quotation marks/],
    [['unrelated'], 'missing', null],
  ];
  for (const [texts, status, note] of rows) {
    const record = await dmarcWith(texts);
    assert.equal(record.status, status, texts.join());
    if (note) assert.match(record.note!, note);
    else assert.equal(record.note, null);
  }
  const inherited = await dmarcWith(['v=DMARC1; p=reject'], '_dmarc.shop.example');
  assert.deepEqual(
    [inherited.status, inherited.note],
    ['verified', 'The policy of shop.example also applies to mail.shop.example.'],
  );
  resolver.zone = { '_dmarc.shop.example': { fail: 'SERVFAIL' } };
  const unknown = (await checkRecords(domain, lookUp)).find(({ record }) => record.purpose === 'dmarc')!.record;
  assert.deepEqual([unknown.status, unknown.found], ['unknown', null], 'a parent domain does not respond');
});

test('the return path can be a CNAME to the bounce domain', async () => {
  const find = async (name?: FakeName): Promise<DnsRecord> => {
    resolver.zone = name ? { 'bounces.mail.shop.example': name } : {};
    const found = await checkRecords(domain, { ...lookUp, bounceDomain: 'In.Postrider.example' });
    return found.at(-1)!.record;
  };
  assert.deepEqual((await find()).status, 'missing');
  assert.deepEqual((await find({ CNAME: 'in.postrider.example' })).status, 'verified');
  const other = await find({ CNAME: 'in.other.example' });
  assert.deepEqual([other.status, other.found], ['different', ['in.other.example']]);
  assert.match(other.note!, /points to in\.other\.example; it must point to In\.Postrider\.example\.$/);
  assert.equal((await find({ fail: 'SERVFAIL' })).status, 'unknown');
});

test('the return path can have the MX records of the bounce domain and its own SPF', async () => {
  const find = async (own: FakeName): Promise<DnsRecord> => {
    const bounceZone: FakeName = { MX: [[10, HOST]] };
    resolver.zone = {
      'bounces.mail.shop.example': own,
      'in.postrider.example': bounceZone,
      [HOST]: { A: ['192.0.2.1'] },
    };
    const found = await checkRecords(domain, { ...lookUp, bounceDomain: 'in.postrider.example' });
    return found.at(-1)!.record;
  };
  const spf = [`v=spf1 a:${HOST} -all`];
  const good = await find({ MX: [[5, HOST]], TXT: spf });
  assert.deepEqual([good.status, good.found], ['verified', [`MX ${HOST}`]]);
  const elsewhere = await find({ MX: [[5, 'mx.other.example']], TXT: spf });
  assert.equal(elsewhere.status, 'different');
  assert.match(elsewhere.note!, /point elsewhere. Replace them with a CNAME to in\.postrider\.example/);
  const without = await find({ MX: [[5, HOST]] });
  assert.equal(without.status, 'different');
  assert.match(without.note!, /publish at bounces\.mail\.shop\.example, as its only SPF record: v=spf1 /);
});

/** The key's record with these texts at the authoritative servers and at the resolver; null: no response. */
async function keyAt(own: (string[] | null)[], resolved: string[] | null) {
  const zoneOf = (texts: string[] | null) => ({
    [NAME]: texts === null ? ({ fail: 'SERVFAIL' } as const) : { TXT: texts },
  });
  resolver.zone = zoneOf(resolved);
  for (const [index, texts] of own.entries()) authorities[index]!.zone = zoneOf(texts);
  const [found] = await checkRecords(domain, { ...lookUp, serversOf: async () => servers });
  return found!;
}

test('authoritative servers are queried, so a new record counts before resolvers return it', async () => {
  const fresh = await keyAt([[rsa], [rsa]], []);
  assert.deepEqual([fresh.record.status, fresh.isEverywhere], ['verified', true]);
  assert.match(
    fresh.record.note!,
    /authoritative servers have the record\. Resolvers can return the cached result \(nothing\)/,
  );
  const replaced = await keyAt([[rsa], [rsa]], ['v=DKIM1; k=rsa; p=OLD']);
  assert.match(replaced.record.note!, /Resolvers can return the cached result \(“v=DKIM1; k=rsa; p=OLD”\)/);
  for (const { questions } of authorities) assert.ok(questions.includes(`TXT ${NAME}`));
});

test('a record deleted at the authoritative servers is missing, even if resolvers cached it', async () => {
  const gone = await keyAt([[], []], [rsa]);
  assert.deepEqual([gone.record.status, gone.isSomewhere], ['missing', false]);
  assert.match(gone.record.note!, /Resolvers still return the previous record\.$/);
});

test('authoritative servers that differ are listed', async () => {
  const half = await keyAt([[rsa], []], [rsa]);
  assert.deepEqual([half.record.status, half.isEverywhere, half.isSomewhere], ['different', false, true]);
  assert.match(half.record.note!, /Not every server of the zone has .*: ns2\.shop\.example does not show it yet/);
});

test('unresponsive servers are listed, and the resolver is used if none responds', async () => {
  const half = await keyAt([[rsa], null], [rsa]);
  assert.deepEqual([half.record.status, half.isEverywhere, half.unanswered], ['verified', true, ['ns2.shop.example']]);
  assert.deepEqual((await keyAt([null, null], [rsa])).unanswered?.length, 2);
  assert.equal((await keyAt([null, null], [rsa])).record.status, 'verified');
  assert.equal((await keyAt([null, null], [])).record.status, 'missing');
  assert.equal((await keyAt([null, null], null)).record.status, 'unknown');
});

/** The resolver, whose zones have servers at public addresses; the addresses are mapped to the scripted servers. */
function resolverWithServers(): { dns: Dns; asked: string[][] } {
  const dns = freshly(resolver);
  const asked: string[][] = [];
  const atServers = (addresses: readonly string[]): Dns => {
    asked.push([...addresses]);
    const index = Number(addresses[0]!.split('.').at(-1)) - 1;
    return dns.atServers([authorities[index]!.server]);
  };
  return { dns: { ...dns, atServers }, asked };
}

test('the servers of the closest zone are queried at their addresses', async () => {
  const zone = {
    'shop.example': { NS: ['ns1.shop.example', 'ns2.shop.example', 'ns3.shop.example', 'gone.shop.example'] },
    'ns1.shop.example': { A: ['198.41.0.1'], AAAA: ['2001:503:ba3e::1'] },
    'ns2.shop.example': { A: ['10.0.0.9', '198.41.0.2'] },
    'ns3.shop.example': { A: ['127.0.0.1'], AAAA: ['fe80::1'] },
    'mail.shop.example': { A: ['198.41.0.9'] },
  };
  const { dns, asked } = resolverWithServers();
  const find = async (own: string[][]) => {
    resolver.zone = { ...zone, [NAME]: { TXT: [rsa] } };
    for (const [index, TXT] of own.entries()) authorities[index]!.zone = { [NAME]: { TXT } };
    return (await checkRecords(domain, { ...lookUp, dns, serversOf: zoneServers(dns) }))[0]!;
  };
  assert.equal((await find([[rsa], [rsa]])).isEverywhere, true);
  assert.ok(
    asked.length > 0 && asked.every((one) => one.length === 1 && /^198\.41\.0\.[12]$/.test(one[0]!)),
    String(asked),
  );
  assert.deepEqual((await find([[rsa], [rsa]])).unanswered, ['ns3.shop.example'], 'not queried in the private network');
  const half = await find([[rsa], []]);
  assert.match(half.record.note!, /ns2\.shop\.example does not show it yet/);
  assert.equal((await find([[], []])).record.status, 'missing');
});

test('the resolver is used if the servers are unknown or the lookup failed', async () => {
  const { dns, asked } = resolverWithServers();
  const serversOf = zoneServers(dns);
  for (const above of [
    {},
    { 'shop.example': { fail: 'SERVFAIL' } as const },
    { 'shop.example': { NS: ['gone.example'] } },
  ]) {
    resolver.zone = { ...above, [NAME]: { TXT: [rsa] } };
    assert.equal((await checkRecords(domain, { ...lookUp, dns, serversOf }))[0]!.record.status, 'verified');
  }
  assert.deepEqual(asked, []);
});

test('servers after the eighth, unresolvable ones, and those of an unknown zone are skipped', async () => {
  const { dns, asked } = resolverWithServers();
  const unheard = async (zone: FakeZone) => {
    resolver.zone = { [NAME]: { TXT: [rsa] }, ...zone };
    return (await checkRecords(domain, { ...lookUp, dns, serversOf: zoneServers(dns) }))[0]!.unanswered;
  };
  const many = Array.from({ length: 10 }, (_, index) => `ns${index}.gone.example`);
  assert.deepEqual(await unheard({ 'shop.example': { NS: many } }), many.slice(8));
  const lost = { 'shop.example': { NS: ['ns1.shop.example'] }, 'ns1.shop.example': { fail: 'SERVFAIL' } as const };
  assert.deepEqual(await unheard(lost), ['ns1.shop.example']);
  assert.deepEqual(await unheard({ 'shop.example': { fail: 'SERVFAIL' } }), [`the servers of ${NAME}`]);
  assert.deepEqual(await unheard({}), []);
  assert.deepEqual(asked, []);
});
