/** Turns and shares: what one account may hold of the slots, and what a lane keeps of what has gone through it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MX_CONNECTIONS, openSchedule, type Slot } from './schedule.ts';
import type { Held } from './window.ts';

const SLOTS = 50;
const open = () => openSchedule({ connectionsFor: () => MX_CONNECTIONS, slots: SLOTS });

function mailFor(account: string, domain: string): Held {
  const email = { jobs: new Set<Held>() };
  const held = { job: { lane: `${account}/${domain}` }, destination: domain, state: 'waiting', suspect: false, email };
  email.jobs.add(held as unknown as Held);
  return held as unknown as Held;
}

function allOf(schedule: ReturnType<typeof open>): Slot[] {
  const slots: Slot[] = [];
  for (let slot = schedule.open(); slot; slot = schedule.open()) slots.push(slot);
  return slots;
}

test('an account with a hundred domains leaves slots to the others, and several such accounts do', () => {
  const schedule = open();
  const list = (account: string) => {
    for (let i = 0; i < 100; i += 1) schedule.add(mailFor(account, `dead${i}.${account}.example`));
  };
  list('acc_a');
  const first = allOf(schedule);
  assert.equal(first.length, SLOTS * 0.8);
  assert.ok(schedule.isCrowded(first[0]!), 'its other domains take turns with those that have a slot');
  list('acc_b');
  const second = allOf(schedule);
  assert.ok(second.length > 0 && second.every(({ owner }) => owner === 'acc_b'));
  schedule.add(mailFor('acc_c', 'good.example'));
  const slot = schedule.open();
  assert.equal(slot?.destination.key, 'good.example');
  assert.ok(!schedule.isCrowded(slot!), 'whose account has its share');
  for (const one of [...first, ...second]) schedule.close(one);
  assert.ok(
    allOf(schedule).some(({ owner }) => owner === 'acc_b'),
    'what is free again is shared anew',
  );
});

test('mail for the domain of an account without a share is not held up by it', () => {
  const schedule = open();
  for (let i = 0; i < 100; i += 1) schedule.add(mailFor('acc_a', `d${i}.example`));
  allOf(schedule);
  schedule.add(mailFor('acc_b', 'd99.example'));
  assert.equal(schedule.open()?.destination.key, 'd99.example');
});

test('one destination has as many slots as its limit, and accounts take turns at it', () => {
  const schedule = open();
  for (const account of ['acc_a', 'acc_a', 'acc_a', 'acc_b']) {
    for (let i = 0; i < 5; i += 1) schedule.add(mailFor(account, 'big.example'));
  }
  const slots = allOf(schedule);
  assert.equal(slots.length, MX_CONNECTIONS.initial);
  const turns = [1, 2, 3, 4].map(() => {
    const [held] = schedule.next(slots[0]!.destination, () => true)!;
    held!.state = 'trying';
    return held!.job.lane.slice(0, 5);
  });
  assert.deepEqual(turns, ['acc_a', 'acc_b', 'acc_a', 'acc_b']);
});

test('a lane refers to nothing that has gone through it', () => {
  const schedule = open();
  for (let i = 0; i < 100; i += 1) schedule.add(mailFor('acc_a', 'x.example'));
  const { destination } = schedule.open()!;
  for (let i = 0; i < 60; i += 1) schedule.next(destination, () => true)![0]!.state = 'settling';
  schedule.next(destination, () => true);
  const [lane] = destination.ring;
  assert.equal(lane!.queue.filter((held) => held !== undefined).length, 40);
});
