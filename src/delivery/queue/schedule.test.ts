/** Fair scheduling: how many slots an account can use, and the memory per lane. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { silentLog } from '../../base/log.ts';
import { MX_CONNECTIONS } from '../destinations/limits.ts';
import { Registry } from '../destinations/registry.ts';
import type { DeliveryItem } from './delivery-item.ts';
import { Schedule, type Slot } from './schedule.ts';

const SLOTS = 50;
const ANY = { mayStart: () => true };

function open(): { schedule: Schedule; registry: Registry } {
  const registry = new Registry({ clock: fakeClock(), log: silentLog, limits: { of: () => MX_CONNECTIONS } });
  return { registry, schedule: new Schedule({ registry, slots: SLOTS }) };
}

/** Records a reply of the destination. */
function prove(registry: Registry, key: string): void {
  registry.report(registry.of(key), { kind: 'answered', accepted: false }, 0);
}

function mailFor(account: string, domain: string): DeliveryItem {
  const email = { jobs: new Set<DeliveryItem>() };
  const item = {
    job: { lane: `${account}/${domain}` },
    hop: { destination: domain },
    domain,
    state: 'waiting',
    quarantined: false,
    email,
  };
  email.jobs.add(item as unknown as DeliveryItem);
  return item as unknown as DeliveryItem;
}

function allOf(schedule: Schedule): Slot[] {
  const slots: Slot[] = [];
  for (let slot = schedule.open(); slot; slot = schedule.open()) {
    schedule.opened(slot);
    slots.push(slot);
  }
  return slots;
}

test('accounts with a hundred domains each leave slots to other accounts', () => {
  const { schedule, registry } = open();
  const list = (account: string) => {
    for (let i = 0; i < 100; i += 1) schedule.add(mailFor(account, `dead${i}.${account}.example`));
  };
  list('acc_a');
  const first = allOf(schedule);
  assert.equal(first.length, SLOTS * 0.8 * 0.9, 'a tenth of the share is reserved for destinations that reply');
  for (let i = 0; i < 10; i += 1) {
    prove(registry, `quick${i}.example`);
    schedule.add(mailFor('acc_a', `quick${i}.example`));
  }
  const quick = allOf(schedule);
  assert.equal(first.length + quick.length, SLOTS * 0.8);
  assert.ok(quick.every(({ destination }) => destination.key.startsWith('quick')));
  assert.ok(schedule.shouldYield(first[0]!), 'its other domains alternate with those that have a slot');
  list('acc_b');
  const second = allOf(schedule);
  assert.ok(second.length > 0 && second.every(({ owner }) => owner === 'acc_b'));
  schedule.add(mailFor('acc_c', 'good.example'));
  const slot = schedule.open();
  assert.equal(slot?.destination.key, 'good.example');
  assert.ok(!schedule.shouldYield(slot!), 'the account has its share');
  for (const one of [...first, ...quick, ...second]) schedule.close(one);
  assert.ok(
    allOf(schedule).some(({ owner }) => owner === 'acc_b'),
    'freed slots are shared',
  );
});

test('an account that uses up its share does not delay other accounts', () => {
  const { schedule } = open();
  for (let i = 0; i < 100; i += 1) schedule.add(mailFor('acc_a', `d${i}.example`));
  allOf(schedule);
  schedule.add(mailFor('acc_b', 'd99.example'));
  assert.equal(schedule.open()?.destination.key, 'd99.example');
});

test('a destination has as many slots as its limit, and accounts alternate', () => {
  const { schedule, registry } = open();
  prove(registry, 'big.example');
  for (const account of ['acc_a', 'acc_a', 'acc_a', 'acc_b']) {
    for (let i = 0; i < 5; i += 1) schedule.add(mailFor(account, 'big.example'));
  }
  const slots = allOf(schedule);
  assert.equal(slots.length, MX_CONNECTIONS.initial);
  const order = [1, 2, 3, 4].map(() => {
    const [item] = schedule.next(slots[0]!, ANY)!;
    item!.state = 'running';
    return item!.job.lane.slice(0, 5);
  });
  assert.deepEqual(order, ['acc_a', 'acc_b', 'acc_a', 'acc_b']);
});

test('an unknown destination has one slot until it replies, and then opens as many as are open', () => {
  const { schedule, registry } = open();
  for (let i = 0; i < 50; i += 1) schedule.add(mailFor('acc_a', 'x.example'));
  const first = schedule.open()!;
  schedule.opened(first);
  assert.equal(schedule.open(), undefined);
  prove(registry, 'x.example');
  schedule.changed(first.destination);
  const second = schedule.open()!;
  assert.equal(schedule.open(), undefined, 'one open, one opening');
  schedule.opened(second);
  const [third, fourth, fifth] = [schedule.open(), schedule.open(), schedule.open()];
  assert.ok(third && fourth && !fifth, 'two open, two opening');
});

test('the busiest destinations are listed first', () => {
  const { schedule } = open();
  for (let i = 0; i < 6; i += 1) {
    for (let j = 0; j <= i; j += 1) schedule.add(mailFor('acc_a', `x${i}.example`));
  }
  assert.deepEqual(schedule.busiest(2), [
    { key: 'x5.example', waiting: 6, active: 0 },
    { key: 'x4.example', waiting: 5, active: 0 },
  ]);
  const slot = schedule.open();
  assert.equal(schedule.busiest(10).find((one) => one.key === slot?.destination.key)?.active, 1);
});

test('an account with many domains at a destination gets no more slots than one with a single domain', () => {
  const { schedule, registry } = open();
  prove(registry, 'google');
  const list = (account: string, domain: string) => {
    const item = mailFor(account, domain);
    item.hop = { destination: 'google' };
    schedule.add(item);
  };
  for (let i = 0; i < 50; i += 1) list('acc_a', `d${i}.example`);
  for (let i = 0; i < 5; i += 1) list('acc_b', 'one.example');
  const slot = schedule.open()!;
  const order = Array.from({ length: 10 }, () => {
    const [item] = schedule.next(slot, ANY)!;
    item!.state = 'running';
    return item!.job.lane.slice(4, 5);
  });
  assert.equal(order.join(''), 'ababababab');
});

test('a session stays with its domain for ten messages while other domains wait', () => {
  const { schedule, registry } = open();
  prove(registry, 'microsoft');
  for (let i = 0; i < 60; i += 1) {
    const item = mailFor(`acc_${i % 3}`, i % 2 === 0 ? 'even.example' : 'odd.example');
    item.hop = { destination: 'microsoft' };
    schedule.add(item);
  }
  const slot = schedule.open()!;
  let domain = 'even.example';
  const runs: string[] = [];
  for (let i = 0; i < 60; i += 1) {
    const [item] = schedule.next(slot, { mayStart: () => true, isFor: (asked) => asked === domain })!;
    item!.state = 'running';
    domain = item!.domain;
    runs.push(domain[0]!);
  }
  assert.ok(/^(e{1,11}|o{1,11})+$/.test(runs.join('')), runs.join(''));
  assert.ok(runs.join('').split(/(?<=e)(?=o)|(?<=o)(?=e)/).length <= 12, runs.join(''));
});

test('recipients in two domains of one destination are sent in separate transactions', () => {
  const { schedule, registry } = open();
  prove(registry, 'google');
  const [first, second] = [mailFor('acc_a', 'a.example'), mailFor('acc_a', 'b.example')];
  for (const item of [first, second]) {
    item.hop = { destination: 'google' };
    item.email = first.email;
    first.email.jobs.add(item);
    schedule.add(item);
  }
  const slot = schedule.open()!;
  assert.deepEqual(schedule.next(slot, ANY), [first]);
});
