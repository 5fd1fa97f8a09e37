/** Server order, CNAMEs, TTLs, and DNSSEC, with queries counted at the servers. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { type FakeDns, type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { freePort } from '../../test/kit/free-ports.ts';
import { type Dns, type DnsOptions, openDns } from './dns.ts';
import { openResolver } from './dns-resolver.ts';
import { parseDnsServer } from './dns-servers.ts';

async function serverOf(t: TestContext, zone: FakeZone): Promise<FakeDns> {
  const server = await fakeDns(zone);
  t.after(server.close);
  return server;
}

function open(t: TestContext, servers: (FakeDns | string)[], options: Partial<DnsOptions> = {}): Dns {
  const addresses = servers.map((one) => (typeof one === 'string' ? one : one.server));
  const dns = openDns({ servers: addresses, timeoutMs: 5_000, ...options });
  t.after(dns.close);
  return dns;
}

const A = { A: ['192.0.2.1'] };

for (const fail of ['SERVFAIL', 'REFUSED', 'lame'] as const) {
  test(`a first server that returns ${fail} is skipped and queried once`, async (t) => {
    const first = await serverOf(t, { 'a.example': { fail } });
    const second = await serverOf(t, { 'a.example': { TXT: ['x'] } });
    const answer = await open(t, [first, second]).resolveTxt('a.example');
    assert.equal(answer.status, 'found');
    assert.equal(first.questions.length, 1);
    const alone = await open(t, [first]).resolveTxt('a.example');
    assert.deepEqual(alone, {
      status: 'temporary',
      cause: { SERVFAIL: 'ESERVFAIL', REFUSED: 'EREFUSED', lame: 'ELAME' }[fail],
    });
    assert.equal(first.questions.length, 2, 'the server is not queried again for verification');
  });
}

test('a silent server is tried twice with a doubled timeout, and then goes last', async (t) => {
  const silent = await serverOf(t, { 'a.example': { fail: 'timeout' }, 'b.example': { TXT: ['late'] } });
  const began = performance.now();
  const alone = await open(t, [silent], { timeoutMs: 150 }).resolveTxt('a.example');
  const tookMs = performance.now() - began;
  assert.deepEqual(alone, { status: 'temporary', cause: 'ETIMEOUT' });
  assert.deepEqual(silent.questions, ['TXT a.example', 'TXT a.example']);
  assert.ok(tookMs >= 440, `${tookMs} ms`);

  const good = await serverOf(t, { 'a.example': { TXT: ['x'] }, 'b.example': { TXT: ['soon'] } });
  const dns = open(t, [silent, good], { timeoutMs: 1_000 });
  assert.equal((await dns.resolveTxt('a.example')).status, 'found');
  const answer = await dns.resolveTxt('b.example');
  assert.ok(answer.status === 'found');
  assert.deepEqual(answer.value, ['soon']);
  assert.equal(silent.questions.length, 3, 'the server that was silent recently is not waited for');
});

test('a definitive answer such as NXDOMAIN ends the query', async (t) => {
  const [first, second] = [await serverOf(t, {}), await serverOf(t, { 'a.example': { TXT: ['x'] } })];
  assert.equal((await open(t, [first, second]).resolveTxt('a.example')).status, 'no-such-domain');
  assert.equal(second.questions.length, 0);
});

function chain(length: number, options: { cnameOnly?: boolean } = {}): FakeZone {
  const links = Array.from({ length }, (_, index): [string, FakeZone[string]] => [
    `c${index}.example`,
    { CNAME: `C${index + 1}.Example`, ttl: 300 + index, ...options },
  ]);
  return { ...Object.fromEntries(links), [`c${length}.example`]: { ...A, ttl: 3_000 } };
}

for (const cnameOnly of [false, true]) {
  const how = cnameOnly ? 'that are handed out one by one' : 'in one answer';
  test(`eight CNAMEs ${how} are followed, nine are rejected, and a loop ends`, async (t) => {
    const server = await serverOf(t, chain(8, { cnameOnly }));
    server.soaMinimum = 60;
    const dns = open(t, [server]);
    const answer = await dns.resolveAddresses('c0.example');
    assert.ok(answer.status === 'found');
    assert.equal(answer.canonicalName, 'c8.example');
    assert.deepEqual(answer.value, ['192.0.2.1']);
    assert.equal(answer.ttlMs, 300_000, 'the lowest TTL of the chain');
    assert.equal(server.questions.length, cnameOnly ? 18 : 2);

    server.zone = chain(9, { cnameOnly });
    const loop = { status: 'temporary', cause: 'ECNAMELOOP' };
    assert.deepEqual(await open(t, [server]).resolveAddresses('c0.example'), loop);
    server.zone = { 'a.example': { CNAME: 'b.example', cnameOnly }, 'b.example': { CNAME: 'a.example', cnameOnly } };
    assert.deepEqual(await open(t, [server]).resolveMx('a.example'), loop);
    server.zone = { 'a.example': { CNAME: 'a.example', cnameOnly } };
    assert.deepEqual(await open(t, [server]).resolveMx('a.example'), loop);
    assert.deepEqual((await open(t, [server]).resolveCname('a.example')).status, 'found', 'it is still a CNAME');
  });
}

test('a CNAME to nothing returns what its server reports', async (t) => {
  const server = await serverOf(t, {
    'a.example': { CNAME: 'gone.example' },
    'b.example': { CNAME: 'mail.example' },
    'mail.example': A,
  });
  const dns = open(t, [server]);
  assert.deepEqual(await dns.resolveMx('a.example'), { status: 'no-such-domain', secure: false });
  server.soaMinimum = 60;
  assert.deepEqual(await dns.resolveMx('b.example'), { status: 'no-data', secure: false });
});

const ttls: [seconds: number, expectedMs: number][] = [
  [0, 30_000],
  [5, 30_000],
  [77, 77_000],
  [86_400, 3_600_000],
  [0xffff_ffff, 3_600_000],
];
for (const [ttl, expectedMs] of ttls) {
  test(`a TTL of ${ttl} s is applied as ${expectedMs / 1000} s for every type`, async (t) => {
    const server = await serverOf(t, {
      'a.example': {
        ...A,
        TXT: ['x'],
        MX: [[1, 'mx.example']],
        NS: ['ns.example'],
        TLSA: [[3, 1, 1, '00']],
        ttl,
      },
    });
    const dns = open(t, [server]);
    for (const ask of [dns.resolveAddresses, dns.resolveTxt, dns.resolveMx, dns.resolveNs, dns.resolveTlsa]) {
      const answer = await ask('a.example');
      assert.ok(answer.status === 'found');
      assert.equal(answer.ttlMs, expectedMs);
    }
    const asked = server.questions.length;
    const again = await dns.resolveTxt('a.example');
    assert.ok(again.status === 'found' && again.ttlMs <= expectedMs && again.ttlMs > expectedMs - 5_000);
    assert.equal(server.questions.length, asked, 'remembered');
  });
}

const negatives: [minimum: number | undefined, nameErrorMs: number, noDataMs: number][] = [
  [undefined, 30_000, 30_000],
  [5, 30_000, 30_000],
  [45, 45_000, 45_000],
  [900, 60_000, 900_000],
  [86_400, 60_000, 3_600_000],
];
for (const [minimum, nameErrorMs, noDataMs] of negatives) {
  test(`negative caching with ${minimum ?? 'no'} s in the SOA: ${nameErrorMs / 1000} s and ${noDataMs / 1000} s`, async (t) => {
    const server = await serverOf(t, { 'a.example': A });
    // The SOA's own TTL is an hour, and applies if it is lower.
    if (minimum !== undefined) server.soaMinimum = minimum;
    const servers = [parseDnsServer(server.server)];
    const resolver = openResolver({ servers: () => servers, timeoutMs: 5_000, tries: 1, trustEveryServer: false });
    t.after(resolver.close);
    const nothing = await resolver.lookUp('none.example', 'MX');
    assert.deepEqual(nothing, { status: 'no-such-domain', secure: false, ttlMs: nameErrorMs });
    assert.deepEqual(await resolver.lookUp('a.example', 'MX'), { status: 'no-data', secure: false, ttlMs: noDataMs });
    const dns = open(t, [server]);
    await dns.resolveMx('none.example');
    await dns.resolveMx('none.example');
    assert.equal(server.questions.length, 3, 'remembered');
  });
}

test('a result is secure only if AD is set in every answer, including denials', async (t) => {
  const server = await serverOf(t, {
    'good.example': { ...A, AAAA: ['2001:db8::1'], MX: [[1, 'mx.example']], secure: true },
    'plain.example': A,
    'to-good.example': { CNAME: 'good.example', secure: true },
    'to-plain.example': { CNAME: 'plain.example', secure: true },
    'from-plain.example': { CNAME: 'good.example' },
    'piecewise.example': { CNAME: 'plain.example', secure: true, cnameOnly: true },
    'empty.example': { secure: true },
    'half.example': { ...A, secure: true },
  });
  // Queries for AAAA get no answer, as if an attacker suppressed them.
  server.tamper = (answer) => {
    const isHeldBack = /^.{12}\u0004half\u0007example\0\0\u001c/is.test(answer.toString('latin1'));
    return isHeldBack ? [] : [answer];
  };
  const secureOf = async (name: string, dns: Dns): Promise<unknown> => {
    const answer = await dns.resolveAddresses(name);
    assert.ok(answer.status !== 'temporary');
    return answer.secure;
  };
  const dns = open(t, [server]);
  assert.equal(await secureOf('good.example', dns), true);
  assert.equal(await secureOf('to-good.example', dns), true);
  assert.equal(await secureOf('empty.example', dns), true, 'a validated denial');
  for (const name of ['plain.example', 'to-plain.example', 'from-plain.example', 'piecewise.example']) {
    assert.equal(await secureOf(name, dns), false, name);
  }
  const heldBack = performance.now();
  assert.equal(
    await secureOf('half.example', open(t, [server], { timeoutMs: 500, tries: 1 })),
    true,
    'suppressing one answer does not make the other insecure',
  );
  assert.ok(performance.now() - heldBack > 490);
  const mx = await dns.resolveMx('good.example');
  assert.ok(mx.status === 'found' && mx.secure);
  const none = await dns.resolveTlsa('good.example');
  assert.deepEqual(none, { status: 'no-data', secure: true });

  // The same server by an address that is not known to be on this host: an attacker on the path could set the bit.
  const mapped = `[::ffff:127.0.0.1]:${server.port}`;
  assert.equal(await secureOf('good.example', open(t, [mapped])), false);
  assert.equal(await secureOf('good.example', open(t, [mapped], { dnssec: 'trust' })), true);
});

test('10,000 concurrent queries are answered with a bounded number of sockets', {
  skip: existsSync('/proc/self/fd') ? false : 'open files cannot be counted here',
}, async (t) => {
  const server = await serverOf(t, {});
  const names = Array.from({ length: 10_000 }, (_, index) => `n${index}.example`);
  for (const name of names) server.zone[name] = { TXT: [name] };
  const descriptors = (): number => readdirSync('/proc/self/fd').length;
  const before = descriptors();
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, descriptors() - before);
  }, 2);
  t.after(() => clearInterval(watch));
  const dns = open(t, [server], { timeoutMs: 10_000 });
  const answers = await Promise.all(names.map((name) => dns.resolveTxt(name)));
  for (const [index, answer] of answers.entries()) {
    assert.ok(answer.status === 'found', `${names[index]}: ${JSON.stringify(answer)}`);
    assert.deepEqual(answer.value, [names[index]]);
  }
  assert.equal(new Set(server.questions).size, 10_000);
  assert.ok(most <= 256 + 1_000 + 20, `${most} more descriptors than before`);
});

test('1,000 unanswered names do not delay others', async (t) => {
  const server = await serverOf(t, { 'good.example': { TXT: ['good'] } });
  const names = Array.from({ length: 1_000 }, (_, index) => `dead${index}.example`);
  for (const name of names) server.zone[name] = { fail: 'timeout' };
  const dns = open(t, [server], { timeoutMs: 3_000, tries: 1 });
  const dead = names.map((name) => dns.resolveTxt(name));
  const startMs = performance.now();
  assert.equal((await dns.resolveTxt('good.example')).status, 'found');
  assert.ok(performance.now() - startMs < 7_000, '256 at a time, each for 3 s, take 9 s');
  for (const answer of await Promise.all(dead)) assert.deepEqual(answer, { status: 'temporary', cause: 'ETIMEOUT' });
});

test('close ends running and waiting queries and leaves no socket', async (t) => {
  const server = await serverOf(t, {});
  server.tamper = () => [];
  const dns = open(t, [server], { timeoutMs: 60_000 });
  const asked = Array.from({ length: 2_000 }, (_, index) => dns.resolveTxt(`n${index}.example`));
  await new Promise((resolve) => setTimeout(resolve, 50));
  dns.close();
  for (const answer of await Promise.all(asked)) assert.deepEqual(answer, { status: 'temporary', cause: 'ECANCELLED' });
  assert.deepEqual(await dns.resolveTxt('later.example'), { status: 'temporary', cause: 'ECANCELLED' });
});

test("a zone's own servers are queried without recursion or cache, and must be authoritative", async (t) => {
  const usual = await serverOf(t, { 'other.example': { TXT: ['elsewhere'] }, 'a.example': { TXT: ['old'] } });
  const own = await serverOf(t, {
    'a.example': { TXT: ['new'], secure: true },
    'led.example': { CNAME: 'other.example', cnameOnly: true },
    'lame.example': { fail: 'lame' },
  });
  const flags: number[] = [];
  own.tamper = (answer, { query }) => {
    flags.push(query.readUInt16BE(2));
    return [answer];
  };
  const dns = open(t, [usual]);
  assert.deepEqual(await dns.resolveTxt('a.example').then((one) => one.status === 'found' && one.value), ['old']);
  const asked = dns.atServers([`127.0.0.1:${await freePort()}`, own.server]);
  for (const value of ['new', 'newer']) {
    own.zone['a.example'] = { TXT: [value], secure: true };
    const answer = await asked.resolveTxt('a.example');
    assert.ok(answer.status === 'found');
    assert.deepEqual(answer.value, [value]);
    assert.equal(answer.secure, false, 'it does not validate itself');
  }
  assert.ok(
    flags.every((one) => (one & 0x0100) === 0),
    'RD is not set',
  );
  assert.equal(usual.questions.length, 1);
  const led = await asked.resolveTxt('led.example');
  assert.ok(led.status === 'found');
  assert.deepEqual(led.value, ['elsewhere'], 'followed by the usual servers');
  assert.deepEqual(await asked.resolveTxt('lame.example'), { status: 'temporary', cause: 'ELAME' });
  assert.throws(() => dns.atServers(['ns.example']), /ns\.example/);
});
