/** The addresses of bounces and unsubscribe messages: their claims, signature, and expiry. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { newId } from '../base/ids.ts';
import { createTokenAddresses } from './token-address.ts';

const NOW = Date.UTC(2026, 10, 23, 11);
const DAY = 86_400_000;
const addresses = createTokenAddresses(Buffer.alloc(32, 7));

test('a token contains the copy and the day, in a portable local part', () => {
  for (let round = 0; round < 200; round += 1) {
    const messageId = newId('msg', NOW + round);
    const local = addresses.make('bounce', { messageId, isShared: round % 2 === 1 }, NOW);
    assert.match(local, /^b\+[a-z2-7]{45}$/);
    const claim = addresses.open(local, NOW);
    assert.deepEqual(claim, { use: 'bounce', messageId, isShared: round % 2 === 1, day: Math.floor(NOW / DAY) });
  }
  const extremes = ['msg_000000000000000000000', 'msg_zzzzzzzzzzzzzzzzzzzzz'];
  for (const messageId of extremes) {
    assert.equal(addresses.open(addresses.make('bounce', { messageId }, NOW), NOW)?.messageId, messageId);
  }
});

test('a token is accepted in upper case', () => {
  const messageId = newId('msg', NOW);
  const local = addresses.make('bounce', { messageId }, NOW);
  assert.equal(addresses.open(local.toUpperCase(), NOW)?.messageId, messageId);
});

test('a bounce address expires after 14 days, an unsubscribe address after 90', () => {
  const copy = { messageId: newId('msg', NOW) };
  for (const [use, days] of [
    ['bounce', 14],
    ['unsubscribe', 90],
  ] as const) {
    const local = addresses.make(use, copy, NOW);
    assert.equal(addresses.open(local, NOW + days * DAY)?.use, use);
    assert.equal(addresses.open(local, NOW + (days + 1) * DAY), undefined);
    assert.equal(addresses.open(local, NOW - DAY)?.use, use, 'the clock of another node is behind');
    assert.equal(addresses.open(local, NOW - 2 * DAY), undefined);
  }
});

test('a changed or extended token is rejected, and so is one for another use', () => {
  const local = addresses.make('bounce', { messageId: newId('msg', NOW) }, NOW);
  for (let at = 0; at < local.length; at += 1) {
    for (const other of 'aq2u') {
      const forged = local.slice(0, at) + other + local.slice(at + 1);
      if (forged !== local) assert.equal(addresses.open(forged, NOW), undefined, forged);
    }
  }
  for (const forged of [`${local}a`, local.slice(0, -1), `u+${local.slice(2)}`, local.slice(2), '', 'b+', 'abuse']) {
    assert.equal(addresses.open(forged, NOW), undefined, forged);
  }
  const others = createTokenAddresses(Buffer.alloc(32, 8));
  assert.equal(others.open(local, NOW), undefined, 'another secret key');
  assert.ok(addresses.open(local, NOW), 'control: accepted unchanged');
});
