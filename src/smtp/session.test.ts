/** Session behavior that a transcript cannot show: external changes during a session, back-pressure, and the end of a session. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { openSession, SENDER, type SmtpRig, smtpRig, submitMail } from '../../test/kit/smtp-rig.ts';
import { connectTalker, plainResponse } from '../../test/kit/smtp-talker.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { revokeCredentialOperation } from '../accounts/credential-store.ts';
import { setAccountOperation } from '../accounts/store.ts';
import { Unavailable } from '../base/failure.ts';
import type { Submit } from '../send/send.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

async function countBlobs(): Promise<number> {
  let count = 0;
  for await (const _ of rig.blobs.list()) count += 1;
  return count;
}

test('rejects a client that sends before the greeting, even from a known address', async () => {
  const first = await rig.listen();
  (await openSession(first.port, rig.credentials.live)).destroy();
  const { guard } = first;
  const waiting = await rig.listen({ guard, limits: { greetingMs: 20_000, knownGreetingMs: 20_000 } });
  const early = await connectTalker(waiting.port);
  assert.equal(await early.line(50).catch(() => 'nothing'), 'nothing', 'the server waits for early data first');
  early.send('EHLO client.example\r\n');
  assert.match(await early.reply(), /^554 5\.5\.0 /);
  await early.closed();
  // Shorter than the delay of an unknown client, which would exceed the reply timeout.
  const quick = await rig.listen({ guard, limits: { greetingMs: 300_000, knownGreetingMs: 100 } });
  const patient = await connectTalker(quick.port);
  assert.match(await patient.reply(), /^220 /);
  patient.destroy();
});

test('revocation, suspension, and a plan without SMTP apply to the next MAIL of an open session', async () => {
  // Repeats the command until the change takes effect.
  const { port } = await rig.listen({ limits: { maxFruitless: 1_000_000 } });
  const credential = await rig.credential('live');
  const talker = await openSession(port, credential);
  const mail = (): Promise<string> => talker.say(`MAIL FROM:<${SENDER}>`);
  const set = (change: { plan?: 'free' | 'paid'; status?: 'active' | 'suspended' }): Promise<unknown> =>
    rig.database.execute(setAccountOperation, {
      id: rig.account.id,
      plan: null,
      status: null,
      approvedEmailBytes: null,
      nowMs: Date.now(),
      ...change,
    });
  /** Checks that a change takes effect for a logged-in session when the cached account expires. */
  const refusedSoon = async (why: string): Promise<void> => {
    const since = runningMs();
    await waitUntil(why, async () => {
      const reply = await mail();
      if (reply.startsWith('250')) await talker.say('RSET');
      else assert.match(reply, /^535 5\.7\.8 authentication failed; check username and password$/);
      return reply.startsWith('535');
    });
    assert.ok(runningMs() - since < 2_000, `${why}: took effect after ${runningMs() - since} ms`);
    assert.match(await mail(), /^530 5\.7\.0 /);
  };
  const logInAgain = async (want: RegExp): Promise<void> => {
    await waitUntil('the login', async () => want.test(await talker.say(`AUTH PLAIN ${plainResponse(credential)}`)));
  };
  await set({ plan: 'free' });
  await refusedSoon('plan');
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse(credential)}`), /^535 5\.7\.8 /);
  await set({ plan: 'paid' });
  await logInAgain(/^235 /);
  await set({ status: 'suspended' });
  await refusedSoon('suspension');
  await set({ status: 'active' });
  await logInAgain(/^235 /);
  const revocation = { id: credential.id, accountId: rig.account.id, mode: null, nowMs: rig.clock.now() };
  assert.equal(await rig.database.execute(revokeCredentialOperation, revocation), 'revoked');
  await refusedSoon('revocation');
  talker.destroy();
});

test('back-pressure and storage failures are 451 4.3.2 at MAIL and the dot, without acceptance', async () => {
  let full: string | undefined;
  let fails = false;
  const submit: Submit = {
    ...rig.submit,
    submit: (one) => (fails ? Promise.reject(new Unavailable('commit failed')) : rig.submit.submit(one)),
  };
  const { port } = await rig.listen({ closedToMail: () => full, closedToContent: () => full, submit });
  const talker = await openSession(port, rig.credentials.live);
  const before = rig.accepted.length;
  full = 'disk is nearly full';
  assert.match(await talker.say(`MAIL FROM:<${SENDER}>`), /^451 4\.3\.2 /);
  full = undefined;
  fails = true;
  assert.match(await submitMail(talker), /^451 4\.3\.2 /);
  fails = false;
  talker.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await talker.reply();
  full = 'disk is nearly full';
  talker.send(`From: ${SENDER}\r\n\r\nx\r\n.\r\n`);
  assert.match(await talker.reply(), /^451 4\.3\.2 /);
  full = undefined;
  assert.equal(rig.accepted.length, before);
  assert.match(await submitMail(talker), /^250 2\.0\.0 /);
  talker.destroy();
});

test('each credential has its own rate limit', async () => {
  const keyIds: string[] = [];
  const { port } = await rig.listen({
    takeRate: (keyId) => {
      keyIds.push(keyId);
      return keyId !== rig.credentials.live.id || keyIds.length < 3;
    },
  });
  const [live, sandbox] = [
    await openSession(port, rig.credentials.live),
    await openSession(port, rig.credentials.sandbox),
  ];
  assert.match(await submitMail(live), /^250 /);
  assert.match(await submitMail(live), /^250 /);
  assert.match(await live.say(`MAIL FROM:<${SENDER}>`), /^451 4\.7\.0 /);
  assert.match(await submitMail(sandbox), /^250 /);
  live.destroy();
  sandbox.destroy();
});

test('stopping completes a message in progress, rejects others, and notifies every session', async () => {
  const { port, server } = await rig.listen();
  const idle = await openSession(port, rig.credentials.live);
  const between = await openSession(port, rig.credentials.live);
  await between.say(`MAIL FROM:<${SENDER}>`);
  await between.say('RCPT TO:<ann@example.com>');
  const busy = await openSession(port, rig.credentials.live);
  busy.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await busy.reply();
  const stopping = server.stop({ deadlineMs: 30_000 });
  assert.match(await idle.say('NOOP'), /^250 /);
  assert.match(await idle.say(`MAIL FROM:<${SENDER}>`), /^451 4\.3\.2 /);
  assert.match(await between.say('DATA'), /^451 4\.3\.2 /);
  const late = await connectTalker(port);
  assert.match(await late.reply(), /^421 4\.3\.2 /);
  await late.closed();
  const before = rig.accepted.length;
  busy.send(`From: ${SENDER}\r\n\r\nx\r\n`);
  busy.send('.\r\n');
  assert.match(await busy.reply(), /^250 2\.0\.0 /);
  for (const one of [busy, idle, between]) {
    assert.match((await one.line()) ?? '', /^421 4\.3\.2 /);
    await one.closed();
  }
  assert.equal(rig.accepted.length, before + 1);
  await stopping;
  await assert.rejects(connectTalker(port), /ECONNREFUSED/);
});

test('a drain keeps sessions open and notifies unfinished messages at the deadline', async () => {
  const { port, server } = await rig.listen();
  const idle = await openSession(port, rig.credentials.live);
  const busy = await openSession(port, rig.credentials.live);
  busy.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await busy.reply();
  const before = rig.accepted.length;
  await server.drain({ deadlineMs: 100 });
  assert.match(await busy.reply(), /^421 4\.3\.2 /);
  assert.match(
    await idle.say(`MAIL FROM:<${SENDER}>`),
    /^451 4\.3\.2 /,
    'the drain has ended, but the session has not',
  );
  busy.destroy();
  await server.stop({ deadlineMs: 500 });
  assert.match(await idle.reply(), /^421 4\.3\.2 /);
  assert.equal(rig.accepted.length, before);
});

test('stopping closes sessions that do not end within the grace period', async () => {
  const { port, server } = await rig.listen();
  const busy = await openSession(port, rig.credentials.live);
  busy.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await busy.reply();
  const since = runningMs();
  await server.stop({ deadlineMs: 100 });
  assert.ok(runningMs() - since < 1_000);
  await busy.closed();
});

test('a client that disconnects before its dot leaves nothing, and may disconnect after it', async () => {
  const { port, server } = await rig.listen();
  const [blobs, before] = [await countBlobs(), rig.accepted.length];
  for (const size of [100, 200_000]) {
    const talker = await openSession(port, rig.credentials.live);
    talker.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
    for (let i = 0; i < 3; i += 1) await talker.reply();
    talker.send(`From: ${SENDER}\r\n\r\n${`${'x'.repeat(98)}\r\n`.repeat(size / 100)}`);
    talker.send('.\r');
    talker.destroy();
  }
  await waitUntil('the sessions to end', () => server.count() === 0);
  assert.equal(rig.accepted.length, before);
  await waitUntil('their blobs to be removed', async () => (await countBlobs()) === blobs);
  const talker = await openSession(port, rig.credentials.live);
  talker.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
  for (let i = 0; i < 3; i += 1) await talker.reply();
  talker.send(`From: ${SENDER}\r\n\r\nwhole\r\n.\r\n`);
  talker.end();
  await waitUntil('the message', () => rig.accepted.length === before + 1);
  assert.match(await talker.reply(), /^250 /);
  await talker.closed();
});
