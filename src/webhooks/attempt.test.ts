/** What responses mean, when the next attempt is due, and which secrets are valid. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { retryAfterMs } from '../net/retry-after.ts';
import { classify } from './attempt.ts';
import { deliveryIdOf } from './endpoints.ts';
import { newSecret, secretKeyOf, signatureOf } from './sign.ts';

const nowMs = Date.UTC(2026, 10, 20, 9, 44);
const answered = (status: number, headers: Record<string, string> = {}) =>
  ({ ok: true, status, headers, bodyStart: '', latencyMs: 1 }) as const;

test('Retry-After is parsed as seconds or a date, up to a day', () => {
  assert.equal(retryAfterMs('120', nowMs), 120_000);
  assert.equal(retryAfterMs('Fri, 20 Nov 2026 10:44:00 GMT', nowMs), 3_600_000);
  assert.equal(retryAfterMs('Fri, 20 Nov 2020 10:44:00 GMT', nowMs), 0);
  assert.equal(retryAfterMs('999999999', nowMs), 86_400_000);
  for (const nothing of [undefined, '', 'soon', '-5']) assert.equal(retryAfterMs(nothing, nowMs), 0);
});

test('2xx is success, 410 disables the endpoint, and others are retried with 10% jitter', () => {
  const next = (status: number, attempts: number, random = 0.5) =>
    classify({ outcome: answered(status), attempts, nowMs, random });
  for (const status of [200, 201, 204, 299]) assert.equal(next(status, 1).kind, 'succeeded');
  assert.equal(next(410, 1).kind, 'gone');
  for (const status of [199, 301, 307, 400, 404, 429, 500, 599])
    assert.equal(next(status, 1).kind, 'retry', `${status}`);
  assert.equal(next(500, 2, 0).nextAttemptMs, nowMs + 270_000);
  assert.equal(next(500, 2, 0.999999).nextAttemptMs, nowMs + 330_000);
  assert.deepEqual(next(500, 10), { kind: 'failed', nextAttemptMs: null });
  const later = (seconds: string) =>
    classify({ outcome: answered(503, { 'retry-after': seconds }), attempts: 2, nowMs, random: 0.5 }).nextAttemptMs;
  assert.equal(later('1'), nowMs + 300_000);
  assert.equal(later('600'), nowMs + 600_000);
});

test('a secret is whsec_ and the canonical Base64 of 24 to 64 bytes', () => {
  assert.equal(secretKeyOf(newSecret())?.length, 32);
  const secret = (bytes: number): string => `whsec_${randomBytes(bytes).toString('base64')}`;
  for (const bytes of [24, 64]) assert.equal(secretKeyOf(secret(bytes))?.length, bytes);
  for (const bad of [
    secret(23),
    secret(65),
    secret(32).slice(6),
    `${secret(33)}\n`,
    'whsec_',
    `whsec_ ${secret(30).slice(6)}`,
  ]) {
    assert.equal(secretKeyOf(bad), undefined, bad);
  }
});

test('the signature matches the published example', () => {
  const key = secretKeyOf('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')!;
  const signed = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestampSeconds: 1614265330, body: '{"test": 2432232314}' };
  assert.equal(signatureOf(signed, [key]), 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

test('a delivery ID is derived from endpoint and event and sorts by event time', () => {
  const one = deliveryIdOf('whk_0123456789abcdefghijk', 'evt_0VbW8DsOaZFjhheopHd5H');
  assert.match(one, /^del_0VbW8DsO[0-9A-Za-z]{13}$/);
  assert.equal(one, deliveryIdOf('whk_0123456789abcdefghijk', 'evt_0VbW8DsOaZFjhheopHd5H'));
  assert.notEqual(one, deliveryIdOf('whk_0123456789abcdefghijl', 'evt_0VbW8DsOaZFjhheopHd5H'));
});
