import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { type Dns, openDns } from '../../src/net/dns.ts';
import { deliveryRig, type Rig } from '../kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';

let dns: FakeDns;
let sink: SmtpSink;
let rig: Rig;
let close: () => void;

before(async () => {
  dns = await fakeDns({
    'no-mx.example': { A: ['127.0.0.2'] },
    'mx.example': {
      MX: [
        [20, 'second.example'],
        [10, 'first.example'],
      ],
    },
    'first.example': { A: ['127.0.0.3'] },
    'second.example': { A: ['127.0.0.2'] },
    'null.example': { MX: [[0, '.']] },
    'servfail.example': { fail: 'SERVFAIL' },
    'timeout.example': { fail: 'timeout' },
    'loop.example': { CNAME: 'loop2.example' },
    'loop2.example': { CNAME: 'loop.example' },
    'empty.example': { TXT: ['x'] },
    'private.example': { MX: [[10, 'inside.example']] },
    'inside.example': { A: ['10.1.2.3', '127.0.0.1'] },
    'literal.example': { MX: [[10, '192.0.2.1']] },
    'many.example': { MX: Array.from({ length: 500 }, (_, i): [number, string] => [i, `h${i}.example`]) },
    ...Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`h${i}.example`, { A: ['127.0.0.3'] }])),
  });
  sink = await smtpSink({ host: '127.0.0.2' });
  const patient = openDns({ servers: [dns.server], timeoutMs: 30_000, tries: 1 });
  const impatient = openDns({ servers: [dns.server], timeoutMs: 200, tries: 1 });
  const resolverOf = (name: string): Dns => (name === 'timeout.example' ? impatient : patient);
  const resolver: Dns = {
    ...patient,
    resolveMx: (name) => resolverOf(name).resolveMx(name),
    resolveAddresses: (name) => resolverOf(name).resolveAddresses(name),
  };
  const allowed = parseCidrs('127.0.0.2/31');
  assert.ok(allowed.ok);
  rig = await deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: sink.port, mxAllow: allowed.cidrs },
  });
  close = () => {
    patient.close();
    impatient.close();
  };
});

after(async () => {
  await rig.close();
  close();
  await sink.close();
  await dns.close();
});

const rows: [domain: string, status: string, enhanced: string | null, category: string | null, suppressed: boolean][] =
  [
    ['no-mx.example', 'delivered', null, null, false],
    ['mx.example', 'delivered', null, null, false],
    ['null.example', 'bounced', '5.1.10', 'domain-not-found', true],
    ['nxdomain.example', 'bounced', '5.1.2', 'domain-not-found', true],
    ['servfail.example', 'delayed', null, 'network', false],
    ['timeout.example', 'delayed', null, 'network', false],
    ['loop.example', 'delayed', null, 'network', false],
    ['empty.example', 'bounced', '5.4.4', 'domain-not-found', false],
    ['private.example', 'bounced', '5.4.4', 'policy', false],
    ['literal.example', 'bounced', '5.4.4', 'domain-not-found', false],
    ['many.example', 'delayed', null, 'network', false],
  ];

for (const [domain, status, enhanced, category, suppressed] of rows) {
  test(`${domain} → ${status}`, async () => {
    const [id] = await rig.send({ to: [`a@${domain}`] });
    await waitUntil(`${domain} to be ${status}`, () => rig.status(id!) === status);
    const { bounce, deliveryDelay } = rig.events(id!)[1]!.detail;
    const failure = bounce ?? deliveryDelay;
    if (category !== null) {
      assert.equal(failure!.category, category);
      assert.equal(failure!.enhancedCode, enhanced);
      assert.equal(failure!.suppressed, suppressed);
    }
    const ends = rig
      .rows<{ expires_at: number | null }>('SELECT expires_at FROM suppression WHERE email = ?', `a@${domain}`)
      .map((row) => row.expires_at);
    assert.deepEqual(ends, suppressed ? [rig.clock.now() + 7 * 86_400_000] : [], 'for 7 days, or not at all');
  });
}

test('at most 5 of 500 MX hosts are contacted', () => {
  const asked = new Set(dns.questions.filter((question) => /^A h\d/.test(question)));
  assert.ok(asked.size <= 5, `${asked.size} MX hosts were looked up`);
});

for (const [stage, reply] of [
  ['banner', '554 5.7.1 not you'],
  ['mail', '451 4.3.0 not now'],
] as const) {
  test(`an MX host that replies ${reply} at ${stage} leaves the message to the next one`, async (t) => {
    const domain = `next-${stage}.example`;
    // A separate name, because an MX host that failed is tried last for a while.
    dns.zone[`first.${domain}`] = { A: ['127.0.0.3'] };
    dns.zone[domain] = {
      MX: [
        [10, `first.${domain}`],
        [20, 'second.example'],
      ],
    };
    const first = await smtpSink({ host: '127.0.0.3', port: sink.port, script: { [stage]: reply } });
    t.after(() => first.close());
    const [id] = await rig.send({ to: [`a@${domain}`] });
    await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
    assert.equal(first.connections.total, 1);
    assert.equal(rig.attempts(id!)[0]!.host, 'second.example');
  });
}
