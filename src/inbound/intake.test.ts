/** Small reports: recorded in groups during DATA without a row, or stored as work items if that fails. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutcomeUnknown, Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Found, InboundLease, InboundMail, Use } from './inbound-mail.ts';
import { createIntake } from './intake.ts';
import type { NewInbound } from './store.ts';

const RETURN_PATH: Use = { kind: 'return-path', copy: { messageId: 'msg_1', isShared: false, day: 1 } };

function mailOf(change: Partial<NewInbound> = {}): NewInbound {
  const content = Buffer.from('mail');
  return {
    id: newId('inb'),
    receivedAtMs: 1,
    envelopeFrom: '',
    recipient: 'b+x@bounces.example',
    use: RETURN_PATH,
    client: { address: '192.0.2.1', helo: 'mx.example', tls: null },
    sizeBytes: content.length,
    content,
    blobKey: null,
    nowMs: 1,
    ...change,
  };
}

function rig({ read = async () => undefined, record = async () => undefined }: RigOptions = {}) {
  const stored: string[][] = [];
  const recorded: string[][] = [];
  let nudges = 0;
  const intake = createIntake({
    reports: {
      read,
      record: async (found: readonly Found<unknown, InboundLease | null>[]) => {
        await record();
        assert.ok(found.every(({ lease }) => lease === null));
        recorded.push(found.map(({ mail }) => mail.id));
        return { lost: [], blobKeys: [] };
      },
    },
    store: async (mails) => void stored.push(mails.map(({ id }) => id)),
    onRecorded: () => {
      nudges += 1;
    },
  });
  return { intake, stored, recorded, nudges: () => nudges };
}
interface RigOptions {
  read?(mail: InboundMail): Promise<unknown>;
  record?(): Promise<void>;
}

test('reports that arrive together are recorded together within a short delay', async () => {
  const contents: string[] = [];
  const r = rig({ read: async (mail) => contents.push((await mail.content()).toString()) });
  const take = async (count: number): Promise<number> => {
    const began = performance.now();
    await Promise.all(Array.from({ length: count }, () => r.intake.take([mailOf()])));
    return performance.now() - began;
  };
  const waitsMs = [await take(6), await take(1)];
  assert.ok(
    waitsMs.every((ms) => ms > 50),
    `${waitsMs} ms: reports that follow others wait for each other`,
  );
  await take(20);
  assert.deepEqual(
    r.recorded.map((group) => group.length),
    [1, 5, 1, 1, 8, 8, 3],
    'a single report, or a full group, does not wait',
  );
  assert.deepEqual([r.stored, r.nudges(), new Set(contents)], [[], 7, new Set(['mail'])]);
});

test('consecutive reports are recorded without delay', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const r = rig();
  for (let i = 0; i < 10; i += 1) await r.intake.take([mailOf()]);
  assert.equal(r.recorded.length, 10);
});

test('all messages except small reports for one return path are stored with their work item', async () => {
  const r = rig();
  const others = [
    [mailOf({ use: { kind: 'abuse' } })],
    [mailOf({ use: { ...RETURN_PATH, kind: 'unsubscribe' } })],
    [mailOf({ use: { kind: 'route', accountId: 'acc_1', mode: 'live', routeId: 'inr_1' } })],
    [mailOf({ content: null, blobKey: 'zz/1' })],
    [mailOf(), mailOf()],
  ];
  for (const mails of others) await r.intake.take(mails);
  assert.deepEqual([r.stored.length, r.recorded], [others.length, []]);
});

test('an unreadable report is stored, and the others of its group are recorded', async () => {
  const early = mailOf();
  const broken = mailOf();
  const errors = new Map<string, Error>([
    [early.id, new Unavailable('its message is being sent')],
    [broken.id, new TypeError('a bug')],
  ]);
  const r = rig({
    read: async ({ id }) => {
      const error = errors.get(id);
      if (error) throw error;
    },
  });
  const fine = mailOf();
  await Promise.all([early, fine, broken].map((mail) => r.intake.take([mail])));
  assert.deepEqual([r.stored.flat().sort(), r.recorded], [[early.id, broken.id].sort(), [[fine.id]]]);
});

test('reports that cannot be recorded are stored, even if the commit outcome is unknown', async () => {
  const errors = [new Unavailable('full'), new OutcomeUnknown('lost', 'OVERLOADED'), new TypeError('a bug')];
  for (const error of errors) {
    const r = rig({ record: () => Promise.reject(error) });
    await Promise.all([r.intake.take([mailOf()]), r.intake.take([mailOf()])]);
    assert.deepEqual([r.stored.length, r.nudges()], [2, 0], error.message);
  }
});

test('reports above the concurrency limit are stored, so a flood waits in its own lane', async () => {
  const held = Promise.withResolvers<void>();
  const r = rig({ read: () => held.promise });
  const pending = Array.from({ length: 100 }, () => r.intake.take([mailOf()]));
  await Promise.all(pending.slice(64));
  assert.equal(r.stored.length, 36);
  held.resolve();
  await Promise.all(pending);
  assert.equal(r.recorded.flat().length, 64);
});
