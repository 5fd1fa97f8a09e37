import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';

let rig: Rig;
before(async () => {
  // A relay without a listener: a sandbox message that used it would be delayed.
  rig = await deliveryRig({ relayPort: 1 });
});
after(() => rig.close());

const play = async (to: string, sandboxOutcome?: string): Promise<string> => {
  const options = sandboxOutcome === undefined ? {} : { sandboxOutcome };
  const [id] = await rig.send({ mode: 'sandbox', to: [to], options });
  return id!;
};
const types = (id: string): string[] => rig.events(id).map((event) => event.type);
const item = (id: string): unknown =>
  rig.rows<{ outcome: string | null }>('SELECT outcome FROM sandbox_item WHERE message_id = ?', id)[0]?.outcome;
const reaches = (id: string, status: string): Promise<unknown> =>
  waitUntil(`${id} to be ${status}`, () => rig.status(id) === status);

test('any other recipient is delivered', async () => {
  const id = await play('someone@example.com');
  await reaches(id, 'delivered');
  assert.deepEqual(types(id), ['Send', 'Delivery']);
  assert.equal(item(id), 'Delivered');
  assert.equal(rig.attempts(id).length, 1);
});

test('bounced+tag bounces and does not suppress the address', async () => {
  const id = await play('bounced+tag@example.com');
  await reaches(id, 'bounced');
  assert.deepEqual(types(id), ['Send', 'Bounce']);
  assert.equal(rig.events(id)[1]!.detail.bounce!.suppressed, false);
  assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  assert.equal(item(id), 'Bounced');
});

test('complained is delivered, then complains', async () => {
  const id = await play('Complained@example.com');
  await reaches(id, 'complained');
  assert.deepEqual(types(id), ['Send', 'Delivery', 'Complaint']);
  assert.equal(item(id), 'Complained');
});

test('delayed is delayed and then delivered at the next attempt', async () => {
  const id = await play('delayed@example.com');
  await reaches(id, 'delayed');
  assert.equal(item(id), 'Delayed');
  rig.clock.advance(60_000);
  await reaches(id, 'delivered');
  assert.deepEqual(types(id), ['Send', 'DeliveryDelay', 'Delivery']);
});

test('X-Sandbox-Outcome overrides the recipient, with a keyword or a reply', async () => {
  const word = await play('someone@example.com', 'bounced');
  await reaches(word, 'bounced');
  const delivered = await play('bounced@example.com', 'delivered');
  await reaches(delivered, 'delivered');
  const full = await play('someone@example.com', '452 4.2.2 mailbox full');
  await reaches(full, 'delayed');
  const { deliveryDelay } = rig.events(full)[1]!.detail;
  assert.deepEqual(
    [deliveryDelay!.category, deliveryDelay!.smtpCode, deliveryDelay!.enhancedCode, deliveryDelay!.reply],
    ['mailbox-full', 452, '4.2.2', '452 4.2.2 mailbox full'],
  );
  const gone = await play('someone@example.com', '550 5.1.1 no such user');
  await reaches(gone, 'bounced');
  assert.deepEqual(rig.rows('SELECT * FROM suppression'), []);
  const overridden = await play('bounced@example.com', '250 2.0.0 fine');
  await reaches(overridden, 'delivered');
});

test('a message that is deferred indefinitely expires', async () => {
  const [id] = await rig.send({
    mode: 'sandbox',
    to: ['someone@example.com'],
    lifetimeMs: 90_000,
    options: { sandboxOutcome: '451 4.3.0 later' },
  });
  await reaches(id!, 'delayed');
  rig.clock.advance(60_000);
  await waitUntil('the second attempt', () => rig.attempts(id!).length === 2);
  rig.clock.advance(60_000);
  await reaches(id!, 'bounced');
  assert.equal(rig.events(id!).at(-1)!.detail.bounce!.category, 'expired');
  assert.deepEqual(types(id!), ['Send', 'DeliveryDelay', 'Bounce']);
});
