/** Debian's Postfix as the receiving server, with anvil limiting the connections of a client. Counted in its log. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { missing } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';
import { countRows, fillWith, rigToPeer } from './rig-to-peer.ts';

const DOMAIN = 'postfix.example';
const MAILS = 300;
const MINUTE = 60_000;
/** The period of Postfix's rate limit, by its own clock. */
const WHILE_MS = 4_000;
const skip = missing('postfix', 'openssl') || (process.getuid?.() === 0 ? false : 'a private Postfix needs root');

function postfixWith(settings: Record<string, string>): Promise<PrivatePostfix> {
  const users = Array.from({ length: MAILS }, (_, user) => String(user));
  // By default, clients of its own networks are not limited.
  return startPostfix({
    domain: DOMAIN,
    users,
    settings: { smtpd_client_event_limit_exceptions: '', ...settings },
  });
}

async function rigTo(t: TestContext, postfix: PrivatePostfix) {
  const rig = await rigToPeer(t, { port: postfix.port, domains: { [DOMAIN]: ['127.0.0.1'] } });
  t.after(() => postfix.stop());
  return rig;
}

const said = (postfix: PrivatePostfix, pattern: RegExp): number =>
  postfix
    .log()
    .split('\n')
    .filter((line) => pattern.test(line)).length;

async function assertAllOnce(postfix: PrivatePostfix): Promise<void> {
  await waitUntil('all messages to be in mailboxes', () => said(postfix, /status=sent/) >= MAILS, 120_000);
  for (let user = 0; user < MAILS; user += 1) {
    assert.equal(postfix.mailbox(String(user)).length, 1, `messages to ${user}`);
  }
}

test('limit of three connections: few are rejected, all mail arrives once, no attempts counted', {
  skip,
  timeout: 300_000,
}, async (t) => {
  const postfix = await postfixWith({ smtpd_client_connection_count_limit: '3' });
  const rig = await rigTo(t, postfix);
  await fillWith(rig, MAILS, DOMAIN);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 120_000);
  const refused = said(postfix, /Connection concurrency limit exceeded/);
  t.diagnostic(`${said(postfix, / connect from /)} connections, ${refused} refused`);
  assert.ok(refused >= 1, 'the limit was reached');
  assert.ok(refused <= 6, `${refused} connections were refused`);
  assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0, 'no rejection counted as an attempt');
  assert.equal(countRows(rig, "event WHERE type = 'DeliveryDelay'"), 0);
  await assertAllOnce(postfix);
});

test('limit of two connections in four seconds: few are rejected, all mail arrives once', {
  skip,
  timeout: 300_000,
}, async (t) => {
  const settings = { smtpd_client_connection_rate_limit: '2', anvil_rate_time_unit: `${WHILE_MS / 1000}s` };
  const postfix = await postfixWith(settings);
  const rig = await rigTo(t, postfix);
  const refused = (): number => said(postfix, /Connection rate limit exceeded/);
  const inEach: number[] = [];
  await fillWith(rig, MAILS, DOMAIN);
  for (;;) {
    const before = refused();
    const isPaused = (): boolean =>
      rig.delivery.state().pausedDestinations.length > 0 && countRows(rig, 'work WHERE leased = 1') === 0;
    await waitUntil('a pause, or all to be delivered', () => countRows(rig, 'work') === 0 || isPaused(), 60_000);
    inEach.push(refused() - before);
    if (countRows(rig, 'work') === 0) break;
    assert.ok(inEach.length < 20, `still not delivered: ${postfix.log().slice(-3000)}`);
    const pausedAtMs = Date.now();
    await waitUntil('Postfix to count from the start', () => Date.now() > pausedAtMs + WHILE_MS);
    const pauseMs = rig.delivery.state().pausedDestinations[0]!.untilMs - rig.clock.now();
    rig.clock.advance(pauseMs + MINUTE);
  }
  t.diagnostic(`refused in each: ${inEach}`);
  assert.ok(
    inEach.some((one) => one >= 1),
    'the rate limit was reached',
  );
  for (const one of inEach) assert.ok(one <= 6, `${one} connections were rejected before the pause`);
  const charged = countRows(rig, 'attempt WHERE number > 1');
  assert.ok(charged < inEach.length, `${charged} attempts were counted in ${inEach.length - 1} pauses`);
  await assertAllOnce(postfix);
});
