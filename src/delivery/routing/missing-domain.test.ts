/** A domain that disappears from the DNS: bounces immediately, or is retried if it accepted mail recently. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fakeClock } from '../../../test/kit/fake-clock.ts';
import { type MxRig, mxRig } from '../../../test/kit/mx-rig.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { openMissingDomains } from './missing-domain.ts';

let world: MxRig;
const asked: string[] = [];

before(async () => {
  const acceptedMailRecently = async (accountId: string, domain: string): Promise<boolean> => {
    asked.push(`${accountId} ${domain}`);
    if (domain.startsWith('unreadable')) throw new Error('the database is away');
    return accountId === 'acc_known' && !domain.startsWith('stranger');
  };
  world = await mxRig({ main: {} }, { deps: { acceptedMailRecently } });
});

after(() => world.close());

function become(id: string, status: string): Promise<unknown> {
  return waitUntil(`${id} to be ${status}`, () => world.rig.status(id) === status);
}

async function attempt(id: string, { afterMs, number }: { afterMs: number; number: number }): Promise<void> {
  world.rig.clock.advance(afterMs);
  await waitUntil(`attempt ${number}`, () => world.rig.attempts(id).length === number);
}

test('a domain that recently accepted mail defers two attempts, and the third bounces', async () => {
  const [id] = (await world.rig.send({ accountId: 'acc_known', to: ['ann@gone.example'] })) as [string];
  await become(id, 'delayed');
  const { deliveryDelay } = world.rig.events(id)[1]!.detail;
  assert.deepEqual([deliveryDelay!.category, deliveryDelay!.suppressed], ['domain-not-found', false]);
  assert.match(
    String(deliveryDelay!.reply),
    /gone\.example does not exist, although it accepted mail in the last 30 days/,
  );
  await attempt(id, { afterMs: 61_000, number: 2 });
  assert.equal(world.rig.status(id), 'delayed');
  await attempt(id, { afterMs: 301_000, number: 3 });
  await become(id, 'bounced');
  const [next] = (await world.rig.send({ accountId: 'acc_known', to: ['bob@gone.example'] })) as [string];
  await become(next, 'bounced');
});

test('a domain that returned gets five minutes again the next time', async () => {
  const clock = fakeClock();
  const acceptedMailRecently = (): Promise<boolean> => Promise.resolve(true);
  const missing = openMissingDomains({ now: () => clock.now(), acceptedMailRecently, log: silentLog });
  const local = { code: 550, enhanced: '5.1.2', text: 'the domain a.example does not exist' };
  const isGivenUp = async (): Promise<boolean> => {
    const mail = { accountId: 'acc_known', recipient: 'ann@A.example' };
    return (await missing.evidenceFor({ stage: 'dns', relay: false, local }, mail)).local !== undefined;
  };
  assert.equal(await isGivenUp(), false);
  clock.advance(299_999);
  assert.equal(await isGivenUp(), false);
  clock.advance(1);
  assert.equal(await isGivenUp(), true);
  missing.exists('bob@a.example');
  assert.equal(await isGivenUp(), false);
  clock.advance(300_000);
  assert.equal(await isGivenUp(), true);
});

test('a domain that accepted no mail of the account bounces immediately', async () => {
  const ids = await Promise.all([
    world.rig.send({ accountId: 'acc_other', to: ['ann@other.example'] }),
    world.rig.send({ accountId: 'acc_known', to: ['ann@stranger.example'] }),
  ]);
  for (const id of ids.flat()) await become(id, 'bounced');
  assert.ok(asked.includes('acc_other other.example') && asked.includes('acc_known stranger.example'));
});

test('the message is retried if recent deliveries cannot be read', async () => {
  const [id] = (await world.rig.send({ accountId: 'acc_known', to: ['ann@unreadable.example'] })) as [string];
  await become(id, 'delayed');
});

test('simultaneous messages of two accounts are judged by their own deliveries', async () => {
  const lots = Array.from({ length: 10 }, (_, index) => index);
  const ids = await Promise.all(
    lots.map((index) =>
      world.rig.send({ accountId: index % 2 ? 'acc_known' : 'acc_other', to: [`u${index}@both.example`] }),
    ),
  );
  for (const [index, [id]] of ids.entries()) {
    await waitUntil(`an outcome of ${id}`, () => ['delayed', 'bounced'].includes(world.rig.status(id!)));
    if (index % 2) assert.equal(world.rig.status(id!), 'delayed', `${index}`);
  }
});
