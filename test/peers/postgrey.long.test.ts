/**
 * Debian's Postfix with postgrey, which defers unknown senders for five minutes by its own clock: our messages arrive on the retry
 * schedule, each once, and greylisting of one recipient does not delay others.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PeerProcess, peerFolder, startPeer } from './peer-process.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';
import { countRows, rigToPeer } from './rig-to-peer.ts';
import { type SetClock, setClock } from './set-clock.ts';

const DOMAIN = 'mailboxes.example';
const USERS = Array.from({ length: 20 }, (_, user) => `user${user}`);
const MINUTE = 60_000;
const skip =
  missing('postfix', 'postgrey', 'faketime', 'openssl') ||
  (process.getuid?.() === 0 ? false : 'a private Postfix needs root');
let postgrey: PeerProcess;
let postfix: PrivatePostfix;
let clock: SetClock;

before(async () => {
  if (skip) return;
  const folder = peerFolder('postgrey');
  const id = (flag: string): number => Number(execFileSync('id', [flag, 'postgrey'], { encoding: 'utf8' }));
  execFileSync('chown', ['postgrey', folder]);
  clock = setClock(folder);
  const port = await freePort();
  const command = [
    'postgrey',
    `--inet=127.0.0.1:${port}`,
    `--dbdir=${folder}`,
    '--delay=300',
    '--auto-whitelist-clients=0',
  ] as const;
  postgrey = await startPeer([...command, `--pidfile=${folder}/pid`], {
    folder,
    port,
    env: clock.env,
    user: { uid: id('-u'), gid: id('-g') },
  });
  postfix = await startPostfix({
    domain: DOMAIN,
    users: USERS,
    settings: {
      smtpd_recipient_restrictions: `reject_unlisted_recipient, check_policy_service { inet:127.0.0.1:${port}, default_action=DEFER_IF_PERMIT }`,
      smtpd_error_sleep_time: '0',
    },
  });
});

after(async () => {
  postfix?.stop();
  await postgrey?.stop();
});

test('a greylisted message arrives once, at the third attempt', {
  skip,
  timeout: 120_000,
}, async (t) => {
  const rig = await rigToPeer(t, { port: postfix.port, domains: { [DOMAIN]: ['127.0.0.1'] } });
  const ids = (await Promise.all(USERS.map((user) => rig.send({ to: [`${user}@${DOMAIN}`] })))).flat();
  const attemptsMade = (): number[] => ids.map((id) => rig.attempts(id).length);
  const advance = (ms: number): void => {
    clock.advance(ms);
    rig.clock.advance(ms);
  };
  const arrived = (): number => USERS.filter((user) => postfix.mailbox(user).length === 1).length;
  const made = (attempts: number) =>
    waitUntil(`attempt ${attempts} of all`, () => attemptsMade().every((one) => one === attempts)).catch(
      (error: Error) => {
        throw new Error(
          `${error.message}: ${attemptsMade()}\n${postfix.log().slice(-3000)}\n${postgrey.output().slice(-2000)}`,
        );
      },
    );
  await made(1);
  for (const id of ids) {
    const { type, detail } = rig.events(id).at(-1)!;
    assert.equal(type, 'DeliveryDelay');
    assert.equal(detail.deliveryDelay!.category, 'greylisted', String(detail.deliveryDelay!.reply));
  }
  assert.deepEqual(rig.delivery.state().pausedDestinations, [], 'it applies to single recipients');
  advance(MINUTE * 1.1);
  await made(2);
  assert.equal(arrived(), 0, 'its five minutes have not passed');
  advance(5 * MINUTE * 1.1);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0);
  await waitUntil('all messages to be in mailboxes', () => arrived() === USERS.length);
  assert.deepEqual(
    attemptsMade(),
    USERS.map(() => 3),
  );
  assert.equal(countRows(rig, "event WHERE type = 'Delivery'"), USERS.length);
});

test('with two recipients, the known one gets the message immediately', { skip, timeout: 120_000 }, async (t) => {
  const rig = await rigToPeer(t, { port: postfix.port, domains: { [DOMAIN]: ['127.0.0.1'] } });
  const [known, unknown] = USERS as [string, string];
  const before = postfix.mailbox(known).length;
  const [first] = await rig.send({ to: [`${known}@${DOMAIN}`], from: 'other@shop.example' });
  await waitUntil('the first to be deferred', () => rig.status(first!) === 'delayed');
  clock.advance(10 * MINUTE);
  const [one, two] = (await rig.send({
    to: [`${known}@${DOMAIN}`, `${unknown}@${DOMAIN}`],
    from: 'other@shop.example',
  })) as [string, string];
  await waitUntil('the known recipient to be delivered', () => rig.status(one) === 'delivered');
  await waitUntil('the unknown recipient to be deferred', () => rig.status(two) === 'delayed');
  await waitUntil('it to be in the mailbox', () => postfix.mailbox(known).length === before + 1);
});
