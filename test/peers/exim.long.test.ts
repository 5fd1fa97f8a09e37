/** Debian's Exim as the receiving server, with limits that operators set. Counted in its log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitUntil } from '../kit/wait-until.ts';
import { noExim, type PrivateExim, startExim } from './private-exim.ts';
import { countRows, fillWith, rigToPeer } from './rig-to-peer.ts';

const DOMAIN = 'exim.example';
const MAILS = 300;
const MINUTE = 60_000;
const skip = noExim();
const domains = { [DOMAIN]: ['127.0.0.1'] };

function assertAllOnce(exim: PrivateExim, mails: number): void {
  const taken = exim.taken();
  assert.equal(new Set(taken).size, mails);
  assert.equal(taken.length, mails, 'no duplicates');
}

test('limit of three connections per host: few are rejected, all mail arrives, no attempts counted', {
  skip,
  timeout: 180_000,
}, async (t) => {
  const exim = await startExim({ domain: DOMAIN, settings: ['smtp_accept_max_per_host = 3'] });
  const rig = await rigToPeer(t, { port: exim.port, domains });
  t.after(() => exim.stop());
  await fillWith(rig, MAILS, DOMAIN);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 120_000);
  const { total, refused } = exim.connections();
  t.diagnostic(`${total} connections, ${refused} refused`);
  assertAllOnce(exim, MAILS);
  assert.ok(refused >= 1, 'the limit was reached');
  assert.ok(refused <= 6, `${refused} connections were refused`);
  assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0, 'no rejection counted as an attempt');
  assert.equal(countRows(rig, "event WHERE type = 'DeliveryDelay'"), 0);
  assert.equal(countRows(rig, "attempt WHERE record LIKE '%TLSv1.3%'"), MAILS);
});

const refusals: [name: string, reply: string, closes: boolean][] = [
  ['451', '451 4.7.1 you are sending too much mail, rate limited', false],
  ['421', '421 4.7.0 too much mail, try again later', true],
];

for (const [name, reply, closes] of refusals) {
  test(`rate limit enforced with ${name}: one pause for all, one probe at its end, all mail arrives`, {
    skip,
    timeout: 180_000,
  }, async (t) => {
    const atMail = ['defer', 'ratelimit = 60 / 1m / leaky / per_mail', `message = ${reply}`];
    const exim = await startExim({ domain: DOMAIN, atMail, ownClock: true });
    const rig = await rigToPeer(t, { port: exim.port, domains });
    t.after(() => exim.stop());
    const refused = (): number => exim.said(/temporarily rejected MAIL/);
    const rounds: number[] = [];
    await fillWith(rig, 200, DOMAIN);
    for (;;) {
      const before = refused();
      await waitUntil(
        'a pause, or all to be delivered',
        () =>
          countRows(rig, 'work') === 0 ||
          (rig.delivery.state().pausedDestinations.length > 0 && countRows(rig, 'work WHERE leased = 1') === 0),
        60_000,
      );
      if (countRows(rig, 'work') === 0) break;
      rounds.push(refused() - before);
      assert.ok(rounds.length < 20, `still not delivered after ${rounds} rejections: ${exim.log().slice(-3000)}`);
      const pauseMs = rig.delivery.state().pausedDestinations[0]!.untilMs - rig.clock.now();
      exim.clock!.advance(pauseMs * 1.1 + MINUTE);
      rig.clock.advance(pauseMs * 1.1 + MINUTE);
    }
    t.diagnostic(`refused in each pause: ${rounds}`);
    assertAllOnce(exim, 200);
    assert.ok(rounds.length >= 2, 'the rate limit was reached more than once');
    for (const refusedOnce of rounds) assert.ok(refusedOnce <= 20, `${refusedOnce} rejections before the pause`);
    const charged = countRows(rig, 'attempt WHERE number > 1');
    const all = rounds.reduce((sum, one) => sum + one, 0);
    assert.ok(charged <= all, `${charged} attempts were counted for ${all} rejections`);
    assert.ok(closes ? exim.said(/closed .*|lost/) > 0 : true);
    assert.equal(countRows(rig, "message WHERE status = 'bounced'"), 0);
  });
}
