/** The destination of a domain before, during and after the DNS answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import type { Dns, MxHost } from '../../net/dns.ts';
import { PROVIDERS } from '../destinations/providers.ts';
import { keyOfMxHosts, openMxSets } from './mx-sets.ts';

type Answer = Awaited<ReturnType<Dns['resolveMx']>>;

function setUp() {
  const clock = fakeClock();
  const zone: Record<string, Answer> = {};
  const asked: string[] = [];
  const changed: string[] = [];
  const resolveMx = (domain: string): Promise<Answer> => {
    asked.push(domain);
    return Promise.resolve(zone[domain] ?? { status: 'no-data', secure: false });
  };
  const sets = openMxSets({
    dns: { resolveMx },
    clock,
    providers: PROVIDERS,
    onChanged: (domain, before) => changed.push(`${domain}: ${before} -> ${sets.destinationOf(domain)}`),
  });
  const mx = (domain: string, hosts: Record<string, number>): void => {
    const found: MxHost[] = Object.entries(hosts).map(([host, preference]) => ({ host, preference }));
    zone[domain] = { status: 'found', value: { nullMx: false, hosts: found } } as Answer;
  };
  const known = async (domain: string): Promise<string> => {
    sets.lookUp(domain);
    await nextTurn();
    return sets.destinationOf(domain);
  };
  return { clock, zone, asked, changed, sets, mx, known };
}

test('the destination is the best MX hosts, sorted, or the name of their provider', async () => {
  const { mx, known } = setUp();
  mx('a.example', { 'mx2.example.net': 10, 'mx1.example.net': 10, 'backup.example.org': 20 });
  mx('b.example', { 'mx1.example.net': 5, 'mx2.example.net': 5 });
  mx('shop.example', { 'aspmx.l.google.com': 1, 'alt1.aspmx.l.google.com': 5 });
  mx('mixed.example', { 'smtp.google.com': 1, 'mx.example.net': 1 });
  assert.equal(await known('a.example'), 'mx1.example.net,mx2.example.net');
  assert.equal(await known('b.example'), 'mx1.example.net,mx2.example.net');
  assert.equal(await known('shop.example'), 'google');
  assert.equal(await known('mixed.example'), 'google,mx.example.net');
  assert.equal(await known('none.example'), 'none.example', 'without MX the domain is its own MX host');
});

test('a destination is pending until the first DNS answer, which is kept while DNS fails', async () => {
  const { clock, zone, asked, changed, sets, mx, known } = setUp();
  mx('a.example', { 'mx.example.net': 10 });
  assert.equal(sets.destinationOf('a.example'), 'a.example');
  assert.deepEqual(asked, [], 'reading the name causes no query');
  sets.lookUp('a.example');
  assert.equal(sets.destinationOf('a.example'), 'a.example');
  assert.ok(sets.isPending('a.example'));
  await nextTurn();
  assert.ok(!sets.isPending('a.example'));
  assert.deepEqual(changed, ['a.example: a.example -> mx.example.net']);
  assert.deepEqual(sets.domainsOf('mx.example.net'), ['a.example']);
  for (let i = 0; i < 5; i += 1) await known('a.example');
  assert.equal(asked.length, 1);

  zone['a.example'] = { status: 'temporary', cause: 'ESERVFAIL' };
  clock.advance(60_000);
  assert.equal(await known('a.example'), 'mx.example.net');
  assert.equal(asked.length, 2);
  mx('a.example', { 'mx.example.org': 10 });
  clock.advance(5_000);
  assert.equal(await known('a.example'), 'mx.example.org');
  assert.deepEqual(changed.slice(1), ['a.example: mx.example.net -> mx.example.org']);
  assert.deepEqual(sets.domainsOf('mx.example.net'), []);

  zone['b.example'] = { status: 'temporary', cause: 'ETIMEOUT' };
  assert.equal(await known('b.example'), 'b.example', 'the domain, if the DNS has never answered');
  assert.ok(!sets.isPending('b.example'));
});

test('a session serves domains that share its host, and domains with the same MX hosts are equal', async () => {
  const { sets, mx, known } = setUp();
  mx('a.example', { 'mx.example.net': 10 });
  mx('b.example', { 'mx.example.net': 10, 'backup.b.example': 20 });
  mx('c.example', { 'mx.example.net': 10 });
  for (const domain of ['a.example', 'b.example', 'c.example']) assert.equal(await known(domain), 'mx.example.net');
  assert.ok(sets.serves('a.example', 'mx.example.net') && sets.serves('b.example', 'mx.example.net'));
  assert.ok(!sets.serves('b.example', 'backup.b.example'));
  assert.ok(sets.areAlike('a.example', 'c.example'));
  assert.ok(!sets.areAlike('a.example', 'b.example'));
  await known('n1.example');
  await known('n2.example');
  assert.ok(!sets.areAlike('n1.example', 'n2.example'), 'two domains without MX are two hosts');
});

test('the number of entries and the length of keys are limited', async () => {
  const { sets, asked, known } = setUp();
  for (let i = 0; i < 21_000; i += 1) await known(`d${i}.example`);
  assert.equal(asked.length, 21_000);
  assert.equal(sets.domainsOf('d0.example').length, 0);
  assert.equal(sets.domainsOf('d20999.example').length, 1);
  const long = Array.from({ length: 20 }, (_, i) => `${'x'.repeat(60)}${i}.example.net`);
  assert.ok(keyOfMxHosts(long, PROVIDERS).length < 200);
  assert.notEqual(keyOfMxHosts(long, PROVIDERS), keyOfMxHosts(long.slice(1), PROVIDERS));
});
