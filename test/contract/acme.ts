/** ACME certificates: an order is claimed once, answers its challenge, is settled by its holder, and is renewed in time. */
import assert from 'node:assert/strict';
import {
  accountKeyOperation,
  certificatesOperation,
  challengeOperation,
  claimOrderOperation,
  issuedOperation,
  orderFailedOperation,
  publishChallengeOperation,
} from '../../src/acme/store.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;

export const certificates: Scenario = async (stage) => {
  const directory = 'https://ca.example/dir';
  const key = Uint8Array.of(0, 1, 255);
  assert.deepEqual([...(await stage.act(accountKeyOperation, { directory, keySealed: key }))], [...key]);
  const second = await stage.act(accountKeyOperation, { directory, keySealed: Uint8Array.of(2) });
  assert.deepEqual([...second], [...key], 'the first one is kept');

  const name = 'mail.example.com';
  const claim = { directory, name, delaysMs: [HOUR, 2 * HOUR], nowMs: stage.nowMs };
  assert.deepEqual(await stage.act(claimOrderOperation, claim), { fence: 1, failures: 1 });
  assert.equal(await stage.act(claimOrderOperation, claim), null, 'until its delay is over');
  // A server uses its own clock: only the length of the delay is equal.
  const [claimed] = await stage.database.execute(certificatesOperation, directory);
  assert.ok(Math.abs(claimed!.nextAt - Date.now() - HOUR) < 600_000);

  const held = { directory, name, fence: 1 };
  const challenge = { token: 'token', answer: 'token.thumbprint' };
  assert.equal(await stage.act(publishChallengeOperation, { ...held, ...challenge }), true);
  assert.equal(await stage.act(challengeOperation, 'token'), challenge.answer);
  assert.equal(await stage.act(challengeOperation, 'other'), null);
  assert.equal(await stage.act(orderFailedOperation, { ...held, error: 'größer', nextAt: 1 }), true);
  assert.equal(await stage.act(challengeOperation, 'token'), null, 'no longer');
  await stage.act(certificatesOperation, directory);

  assert.deepEqual(await stage.act(claimOrderOperation, claim), { fence: 2, failures: 2 });
  const next = { ...held, fence: 2 };
  const times = { expiresAt: stage.nowMs + 90 * HOUR, nextAt: stage.nowMs + 60 * HOUR };
  const issued = { certificate: 'PEM', keySealed: key, ...times };
  for (const fence of [1, 3]) assert.equal(await stage.act(issuedOperation, { ...next, ...issued, fence }), false);
  assert.equal(await stage.act(publishChallengeOperation, { ...held, ...challenge }), false, 'taken over');
  assert.equal(await stage.act(orderFailedOperation, { ...held, error: 'late', nextAt: 1 }), false);
  assert.equal(await stage.act(issuedOperation, { ...next, ...issued }), true);
  assert.equal(await stage.act(claimOrderOperation, claim), null);
  await stage.act(claimOrderOperation, { ...claim, name: 'api.example.com', delaysMs: [HOUR] });
  const fail = { directory, name: 'api.example.com', fence: 1, error: 'refused', nextAt: stage.nowMs };
  assert.equal(await stage.act(orderFailedOperation, fail), true);
  assert.deepEqual(
    (await stage.act(certificatesOperation, directory)).map((row) => [row.name, row.failures, row.expiresAt ?? null]),
    [
      ['api.example.com', 1, null],
      [name, 0, times.expiresAt],
    ],
  );
  assert.deepEqual(await stage.act(certificatesOperation, 'https://other.example/dir'), []);
};
