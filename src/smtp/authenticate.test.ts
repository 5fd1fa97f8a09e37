/** Failed logins: the same reply for all of them, delays for clients that guess, and what is logged. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { openSession, type SmtpRig, smtpRig } from '../../test/kit/smtp-rig.ts';
import { connectTalker, plainResponse, type Talker } from '../../test/kit/smtp-talker.ts';
import { createLoginGuard } from './login-guard.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

/** A session inside TLS without a login. */
async function secured(port: number, options: { localAddress?: string } = {}): Promise<Talker> {
  const talker = await connectTalker(port, options);
  await talker.reply();
  await talker.secure();
  return talker;
}

test('every failed login gets the same reply in the same time', async () => {
  const { port } = await rig.listen({ limits: { maxClientErrors: 100 } });
  const bound = await rig.credential('live', rig.account.id, ['127.0.0.2']);
  (await openSession(port, bound, { localAddress: '127.0.0.2' })).destroy();
  const talker = await secured(port);
  // Another address, whose logins are counted separately.
  const elsewhere = await secured(port, { localAddress: '127.0.0.3' });
  const { username } = rig.credentials.live;
  const kinds: Record<string, [Talker, string, string]> = {
    'wrong password': [talker, username, 'wrong'],
    'unknown name': [talker, 'smtp_nobody', 'wrong'],
    'correct password from another network': [elsewhere, bound.username, bound.password],
  };
  const tookMs: Record<string, number[]> = {};
  const words = new Set<string>();
  // Two attempts each: the sixth attempt would include the guard's delays.
  for (let round = 0; round < 2; round += 1) {
    for (const [kind, [by, user, pass]] of Object.entries(kinds)) {
      const since = runningMs();
      words.add(await by.say(`AUTH PLAIN ${plainResponse({ username: user, password: pass })}`));
      tookMs[kind] = [...(tookMs[kind] ?? []), runningMs() - since];
    }
  }
  assert.deepEqual([...words], ['535 5.7.8 authentication failed; check username and password']);
  // An argon2 hash takes about 30 ms. A rejection without it would be ten times faster.
  const fastest = Object.values(tookMs).map((all) => Math.min(...all));
  assert.ok(Math.max(...fastest) < 4 * Math.min(...fastest), JSON.stringify(tookMs));
  assert.ok(Math.min(...fastest) > 5, JSON.stringify(tookMs));
  for (const one of [talker, elsewhere]) one.destroy();
});

test('only clients that guess are slowed down and disconnected', async () => {
  const guard = createLoginGuard();
  const { port } = await rig.listen({ guard });
  (await openSession(port, rig.credentials.live)).destroy();
  const guesser = await connectTalker(port, { localAddress: '127.0.0.7' });
  await guesser.reply();
  await guesser.secure();
  const wrong = `AUTH PLAIN ${plainResponse({ username: rig.credentials.live.username, password: 'wrong' })}`;
  const tookMs: number[] = [];
  for (let i = 0; i < 7; i += 1) {
    const since = performance.now();
    assert.match(await guesser.say(wrong), /^535 5\.7\.8 /);
    tookMs.push(performance.now() - since);
  }
  assert.ok(tookMs[5]! > 240 && tookMs[6]! > 490, JSON.stringify(tookMs));
  // Skips the remaining delays up to 421.
  for (let i = 0; i < 3; i += 1) void guard.enter('127.0.0.7', 'smtp_x');
  for (let i = 0; i < 3; i += 1) void guard.enter('127.0.0.7', 'smtp_x');
  assert.match(await guesser.say(wrong), /^421 4\.7\.0 /);
  await guesser.closed();
  for (const localAddress of ['127.0.0.7', '127.0.0.8']) {
    const since = runningMs();
    const honest = await connectTalker(port, { localAddress });
    await honest.reply();
    await honest.logIn(rig.credentials.live);
    assert.ok(runningMs() - since < 2_000, `${localAddress} waited`);
    honest.destroy();
  }
});

test('successful logins in between do not permit guesses at another name', async () => {
  const guard = createLoginGuard();
  const { port } = await rig.listen({ guard, limits: { maxClientErrors: 100 } });
  const own = rig.credentials.sandbox;
  const guessed = rig.credentials.live.username;
  for (let i = 0; i < 5; i += 1) {
    const talker = await secured(port);
    assert.match(await talker.say(`AUTH PLAIN ${plainResponse({ username: guessed, password: `x${i}` })}`), /^535 /);
    assert.match(await talker.say(`AUTH PLAIN ${plainResponse(own)}`), /^235 /);
    talker.destroy();
  }
  const talker = await secured(port);
  const since = performance.now();
  assert.match(await talker.say(`AUTH PLAIN ${plainResponse({ username: guessed, password: 'x' })}`), /^535 /);
  assert.ok(performance.now() - since > 240, 'the sixth guess waits');
  talker.destroy();
});

test('a malformed AUTH exchange is logged in one line, without what was sent', async () => {
  const { port } = await rig.listen({ limits: { maxClientErrors: 100 } });
  const talker = await secured(port);
  const base64 = (text: string): string => Buffer.from(text, 'latin1').toString('base64');
  const exchanges: [what: string, lines: string[], expected: RegExp][] = [
    ['a NUL in the name', [`AUTH PLAIN ${base64('\0S3c\0ret\0x')}`], /^501 5\.5\.2 /],
    ['CRLF in the name', [`AUTH PLAIN ${base64('\0S3cret\r\nforged\0x')}`], /^501 5\.5\.2 /],
    ['CRLF in the name of LOGIN', ['AUTH LOGIN', base64('S3cret\r\nforged')], /^501 5\.5\.2 /],
    ['no NUL', [`AUTH PLAIN ${base64('S3cret')}`], /^501 5\.5\.2 /],
    ['no Base64', ['AUTH PLAIN S3cret!'], /^501 5\.5\.2 /],
    ['no Base64 in the password', ['AUTH LOGIN', base64('smtp_a'), 'S3cret!'], /^501 5\.5\.2 /],
    ['no text', ['AUTH PLAIN', 'S3cret\x01'], /^501 5\.5\.2 /],
    ['cancelled', ['AUTH PLAIN', '*'], /^501 5\.0\.0 /],
    ['cancelled later', ['AUTH LOGIN', base64('smtp_a'), '*'], /^501 5\.0\.0 /],
    ['64 KB as a response', ['AUTH PLAIN', 'S3cret'.repeat(11_000)], /^501 5\.5\.6 /],
    ['64 KB at once', [`AUTH PLAIN ${'S3cret'.repeat(11_000)}`], /^501 5\.5\.6 /],
    ['a bare line feed', ['AUTH PLAIN', 'S3cret\nNOOP'], /^500 5\.5\.2 /],
  ];
  for (const [what, lines, expected] of exchanges) {
    const from = rig.log.length;
    let last = '';
    for (const line of lines) last = await talker.say(line);
    assert.match(last, expected, what);
    if (what === 'a bare line feed') assert.match(await talker.reply(), /^250 /);
    const logged = rig.log.slice(from).filter((line) => line.includes('SMTP login '));
    assert.equal(logged.length, 1, what);
    assert.equal(JSON.parse(logged[0]!).address, '127.0.0.1', what);
    assert.ok(!/S3c|forged/.test(rig.log.slice(from).join('')), what);
  }
  talker.destroy();
});

test('failed logins are logged in one line each, without secrets', async () => {
  const { port } = await rig.listen({ limits: { maxClientErrors: 100 } });
  const talker = await connectTalker(port);
  await talker.reply();
  await talker.secure();
  const from = rig.log.length;
  const attempts: [user: string, pass: string][] = [
    [rig.credentials.live.username, 'S3cret-wrong'],
    ['S3cret in the name field', 'x'],
    ['S3cret\u2028forged', 'x'],
  ];
  for (const [username, password] of attempts) {
    assert.match(await talker.say(`AUTH PLAIN ${plainResponse({ username, password })}`), /^535 /);
  }
  const lines = rig.log.slice(from).filter((line) => line.includes('SMTP login'));
  assert.equal(lines.length, 3);
  for (const line of rig.log) {
    assert.equal(line.trim().split('\n').length, 1);
    JSON.parse(line);
    assert.ok(!/S3cret/.test(line) && !line.includes(rig.credentials.live.password), line);
  }
  assert.ok(lines[0]!.includes(rig.credentials.live.username) && lines[0]!.includes('127.0.0.1'));
  talker.destroy();
});

test('guesses from many addresses are slowed down, even for unknown users, but not known addresses', async () => {
  const waits: number[] = [];
  const guard = createLoginGuard({ pause: async (ms) => void waits.push(ms) });
  const { port } = await rig.listen({ guard });
  const own = rig.credentials.live;
  (await openSession(port, own)).destroy();
  const guess = async (username: string, localAddress: string): Promise<string> => {
    const talker = await connectTalker(port, { localAddress });
    await talker.reply();
    await talker.secure();
    const reply = await talker.say(`AUTH PLAIN ${plainResponse({ username, password: 'wrong' })}`);
    talker.destroy();
    return reply;
  };
  for (const [network, username] of [
    [1, own.username],
    [2, 'smtp_nobody'],
  ] as const) {
    waits.length = 0;
    const replies: string[] = [];
    for (let i = 1; i <= 20; i += 1) replies.push(await guess(username, `127.0.${network}.${i}`));
    assert.ok(waits.length >= 5 && waits.every((ms, i) => ms > (waits[i - 1] ?? 249)), `${username}: ${waits}`);
    assert.deepEqual(new Set(replies.map((reply) => reply.slice(0, 9))), new Set(['535 5.7.8', '421 4.7.0']));
    // The pauses of this test take no time, so the queue only grows.
    assert.match(replies.at(-1)!, /^421 4\.7\.0 /, username);
  }
  waits.length = 0;
  assert.match(await guess(own.username, '127.0.0.1'), /^535 /, 'a typo from a known address');
  (await openSession(port, own)).destroy();
  assert.deepEqual(waits, []);
});
