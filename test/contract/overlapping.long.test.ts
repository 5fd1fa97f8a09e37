/**
 * Concurrent operations of two nodes on the same rows of a real PostgreSQL, for every point at which one can overtake the other. The
 * simulation draws such points at random (`--overlapping`); this test tries each of them.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createAccount, keysOperation, revokeKeyOperation } from '../../src/accounts/accounts.ts';
import { type CredentialUse, recordUsesOperation } from '../../src/accounts/use-store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { claimProbeOperation, writePausesOperation } from '../../src/delivery/destinations/pause-store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { type Settlement, settleOperation } from '../../src/delivery/record/settle.ts';
import { cancelMessageOperation } from '../../src/messages/api-store.ts';
import { type LateResult, settleLate } from '../../src/messages/late-store.ts';
import type { DeliveryJob } from '../../src/messages/message.ts';
import { beatOperation } from '../../src/nodes/nodes.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import type { Database } from '../../src/storage/database.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { suppress } from '../../src/suppressions/suppressions.ts';
import { extendOperation } from '../../src/work/store.ts';
import { type Call, callOf, execute, type Overlap, overlapEverywhere } from '../kit/overlapping-transactions.ts';
import { acceptance, seedMail } from '../kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../kit/temp-database.ts';

const MINUTE = 60_000;
const ACCOUNT = 'acc_1';
let temp: TempDatabase;
let nodes: [Database, Database, Database];

before(async () => {
  temp = await tempDatabase('postgres');
  const address = parsePostgresUrl(temp.url!);
  const open = (): Promise<Database> => openPostgresDatabase({ address, log: silentLog });
  nodes = [temp.database, await open(), await open()];
});
after(async () => {
  for (const node of nodes.slice(1)) await node.close();
  await temp.close();
});

let numbers = 0;
const newEventId = (): string => {
  numbers += 1;
  return `evt_${numbers}`;
};

const claiming = (): Call<{ jobs: DeliveryJob[] }> =>
  callOf(claimOperation, { nowMs: Date.now(), leaseMs: MINUTE, limit: 10, quarantined: false });
const extending = ({ seq, fence }: DeliveryJob): Call<number[]> =>
  callOf(extendOperation, { leases: [{ seq, fence }], nowMs: Date.now(), leaseMs: MINUTE });

const settling = (job: DeliveryJob, to: 'delivered' | 'delayed' = 'delivered'): Call<{ lost: number[] }> => {
  const { seq, fence, accountId, mode, messageId, emailSeq, retain } = job;
  const isEnd = to === 'delivered';
  const settlement: Settlement = {
    seq,
    fence,
    accountId,
    mode,
    messageId,
    emailSeq,
    retain,
    atMs: Date.now(),
    attempts: 1,
    attempt: null,
    to,
    nextAttemptAtMs: isEnd ? null : Date.now() + MINUTE,
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
    event: { id: newEventId(), type: isEnd ? 'Delivery' : 'DeliveryDelay', detail: {} },
  };
  return callOf(settleOperation, [settlement]);
};

const RECIPIENT = 'ada@example.com';
const reporting = (messageId: string, type: 'Bounce' | 'Complaint'): Call<string> => ({
  run: async (tx) => {
    const result: LateResult = {
      accountId: ACCOUNT,
      messageId,
      eventId: newEventId(),
      atMs: Date.now(),
      type,
      detail: {},
      suppress: { email: RECIPIENT, reason: type === 'Bounce' ? 'bounce' : 'complaint', untilMs: null },
    };
    return (await settleLate(tx, [result]))[0]!;
  },
});

const cancelling = (messageId: string): Call<{ changed: boolean }> =>
  callOf(cancelMessageOperation, {
    accountId: ACCOUNT,
    mode: 'live' as const,
    messageId,
    eventId: newEventId(),
    nowMs: Date.now(),
  });

const idempotency = (key: string) => ({
  endpoint: '/send',
  key,
  bodyHash: Buffer.from('h'),
  status: 202,
  expiresAtMs: Date.now() + MINUTE,
});
const accepting = (key?: string): Call<{ stored: boolean; recipients: { status: string; messageId: string }[] }> =>
  callOf(acceptOperation, {
    ...acceptance({ accountId: ACCOUNT, recipients: [RECIPIENT] }),
    ...(key !== undefined && { idempotency: idempotency(key) }),
  });

const suppressing = (): Call<unknown> => ({
  run: (tx) => {
    const suppression = { reason: 'bounce' as const, expiresAt: null, sourceMessageId: null, createdAt: Date.now() };
    return suppress(tx, [{ accountId: ACCOUNT, mode: 'live', email: RECIPIENT, ...suppression }]);
  },
});

const ask = <T>(sql: string): Promise<T[]> =>
  execute(nodes[2], { run: (tx) => Promise.resolve(tx.all<T>(sql)) as Promise<T[]> });
const change = (sql: string): Promise<number> =>
  execute(nodes[2], { run: (tx) => Promise.resolve(tx.run(sql)) as Promise<number> });

interface Mail {
  messageId: string;
}

async function queued(): Promise<Mail> {
  await temp.empty();
  const { recipients } = await seedMail(nodes[2], { accountId: ACCOUNT, recipients: [RECIPIENT] });
  return { messageId: recipients[0]!.messageId };
}

async function held(): Promise<Mail & { job: DeliveryJob }> {
  const mail = await queued();
  const { jobs } = await execute(nodes[2], claiming());
  return { ...mail, job: jobs[0]! };
}

/** Its holder has been silent since the lease ended. */
async function overdue(): Promise<Mail & { job: DeliveryJob }> {
  const mail = await held();
  await change('UPDATE work SET due = 0');
  return mail;
}

async function sent(): Promise<Mail> {
  const { job, messageId } = await held();
  await execute(nodes[2], settling(job));
  return { messageId };
}

/** The same row under its old lease and its new one. */
interface TakenOver {
  old: DeliveryJob;
  present: DeliveryJob;
}

interface Left {
  status: string;
  events: string[];
  /** Rows of work. */
  work: number;
}

async function left(): Promise<Left> {
  const [message] = await ask<{ status: string }>('SELECT status FROM message');
  const events = await ask<{ type: string }>('SELECT type FROM event ORDER BY seq');
  const [{ work }] = (await ask<{ work: number }>('SELECT count(*) AS work FROM work')) as [{ work: number }];
  return { status: message!.status, events: events.map(({ type }) => type).filter((type) => type !== 'Send'), work };
}

/** In both directions: each operation is the one that pauses. */
async function bothWays<F, A, B>(race: Omit<Overlap<F, A, B>, 'nodes'>): Promise<{ places: number; waits: number }> {
  const { prepare, first, second, check } = race;
  const one = await overlapEverywhere({ ...race, nodes });
  const other = await overlapEverywhere<F, B, A>({
    nodes,
    prepare,
    first: second,
    second: first,
    check: (answers) => check({ ...answers, first: answers.second, second: answers.first }),
  });
  assert.ok(one.places > 1 && other.places > 1, 'every pair runs at some position');
  return { places: one.places + other.places, waits: one.waits + other.waits };
}

describe('two nodes on the same rows', () => {
  /** An account with two keys. */
  const accountWithKeys = async (): Promise<{ accountId: string; keyIds: string[] }> => {
    await temp.empty();
    const context = { database: nodes[2], clock: systemClock };
    const { account } = await createAccount(context, { name: 'One', plan: 'paid' });
    const keys = await nodes[2].execute(keysOperation, { accountId: account.id, before: null, limit: 10 });
    return { accountId: account.id, keyIds: keys.map(({ id }) => id) };
  };
  const using = (...uses: CredentialUse[]): Call<void> => callOf(recordUsesOperation, uses);
  const use = (credentialId: string, usedAt: number): CredentialUse => ({
    credentialId,
    usedAt,
    address: `192.0.2.${usedAt}`,
  });
  const storedUses = () =>
    ask<{ id: string; address: string }>('SELECT credential_id AS id, address FROM credential_use ORDER BY id');

  test('a revoked key has no stored use, in either order of revocation and use', async () => {
    const { waits } = await bothWays({
      prepare: accountWithKeys,
      first: ({ keyIds }) => using(...keyIds.map((id) => use(id, 1))),
      second: ({ accountId, keyIds }) =>
        callOf(revokeKeyOperation, { id: keyIds[0]!, accountId, mode: null, nowMs: Date.now() }),
      check: async ({ fixture, second }) => {
        assert.equal(second, 'revoked');
        assert.deepEqual(await storedUses(), [{ id: fixture.keyIds[1], address: '192.0.2.1' }]);
      },
    });
    assert.ok(waits > 0);
  });

  test('when two nodes record uses of the same keys, the newest of each is stored', async () => {
    await bothWays({
      prepare: accountWithKeys,
      first: ({ keyIds: [one, other] }) => using(use(one!, 1), use(other!, 4)),
      second: ({ keyIds: [one, other] }) => using(use(other!, 3), use(one!, 2)),
      check: async ({ fixture: { keyIds } }) => {
        const expected = [
          { id: keyIds[0]!, address: '192.0.2.2' },
          { id: keyIds[1]!, address: '192.0.2.4' },
        ];
        assert.deepEqual(
          await storedUses(),
          expected.sort((a, b) => (a.id < b.id ? -1 : 1)),
        );
      },
    });
  });

  test('one node claims a message', async () => {
    await bothWays({
      prepare: queued,
      first: claiming,
      second: claiming,
      check: async ({ first, second }) => assert.equal(first.jobs.length + second.jobs.length, 1),
    });
  });

  test('either the result is recorded or the expired lease is taken over, never both', async () => {
    await bothWays({
      prepare: overdue,
      first: ({ job }) => settling(job),
      second: claiming,
      check: async ({ fixture, first, second }) => {
        assert.equal(first.lost.length, second.jobs.length);
        for (const job of second.jobs) {
          assert.equal(job.fence, fixture.job.fence + 1);
          assert.deepEqual((await execute(nodes[2], settling(job))).lost, []);
        }
        assert.deepEqual(await left(), { status: 'delivered', events: ['Delivery'], work: 0 });
      },
    });
  });

  test('either the lease is extended or the expired lease is taken over, never both', async () => {
    await bothWays({
      prepare: overdue,
      first: ({ job }) => extending(job),
      second: claiming,
      check: async ({ first, second }) => assert.equal(first.length, second.jobs.length),
    });
  });

  test('the result under the new lease wins over the one under the old lease', async () => {
    await bothWays({
      prepare: async (): Promise<TakenOver> => {
        const { job } = await overdue();
        const { jobs } = await execute(nodes[2], claiming());
        return { old: job, present: jobs[0]! };
      },
      first: ({ old }: TakenOver) => settling(old, 'delayed'),
      second: ({ present }: TakenOver) => settling(present),
      check: async ({ first, second }) => {
        assert.deepEqual([first.lost.length, second.lost.length], [1, 0]);
        assert.deepEqual(await left(), { status: 'delivered', events: ['Delivery'], work: 0 });
      },
    });
  });

  test('one of two sends with the same idempotency key is accepted', async () => {
    const { waits } = await bothWays({
      prepare: async () => {
        await temp.empty();
        return 'key';
      },
      first: accepting,
      second: accepting,
      check: async ({ first, second }) => {
        assert.equal([first, second].filter(({ stored }) => stored).length, 1);
        assert.equal((await ask('SELECT 1 AS one FROM message')).length, 1);
        assert.equal((await ask('SELECT 1 AS one FROM idempotency')).length, 1);
      },
    });
    assert.ok(waits > 0, 'the second transaction waits for the first');
  });

  test('a suppression added concurrently applies at acceptance or at delivery', async () => {
    await bothWays({
      prepare: () => temp.empty(),
      first: () => accepting(),
      second: suppressing,
      check: async ({ first }) => {
        const { jobs } = await execute(nodes[2], claiming());
        if (first.recipients[0]!.status === 'suppressed') assert.deepEqual(jobs, []);
        else assert.equal(jobs[0]!.suppressed, true);
      },
    });
  });

  test('a late bounce concurrent with its delivery record applies only after it', async () => {
    await bothWays({
      prepare: held,
      first: ({ job }) => settling(job),
      second: ({ messageId }) => reporting(messageId, 'Bounce'),
      check: async ({ first, second }) => {
        assert.deepEqual(first.lost, []);
        const isLate = second === 'recorded';
        assert.ok(isLate || second === 'unfit', second);
        const events = isLate ? ['Delivery', 'Bounce'] : ['Delivery'];
        assert.deepEqual(await left(), { status: isLate ? 'bounced' : 'delivered', events, work: 0 });
      },
    });
  });

  test('a late bounce that two nodes received is recorded once', async () => {
    await bothWays({
      prepare: sent,
      first: ({ messageId }) => reporting(messageId, 'Bounce'),
      second: ({ messageId }) => reporting(messageId, 'Bounce'),
      check: async ({ first, second }) => {
        assert.deepEqual([first, second].sort(), ['recorded', 'repeated']);
        assert.deepEqual(await left(), { status: 'bounced', events: ['Delivery', 'Bounce'], work: 0 });
        assert.equal((await ask('SELECT 1 AS one FROM suppression')).length, 1);
      },
    });
  });

  test('a late bounce concurrent with a complaint is recorded first or rejected as late', async () => {
    await bothWays({
      prepare: sent,
      first: ({ messageId }) => reporting(messageId, 'Bounce'),
      second: ({ messageId }) => reporting(messageId, 'Complaint'),
      check: async ({ first, second }) => {
        assert.equal(second, 'recorded');
        const { status, events } = await left();
        if (first === 'recorded') assert.deepEqual([status, events], ['bounced', ['Delivery', 'Bounce', 'Complaint']]);
        else assert.deepEqual([first, status, events], ['unfit', 'complained', ['Delivery', 'Complaint']]);
      },
    });
  });

  test('a message is canceled or claimed, never both', async () => {
    await bothWays({
      prepare: queued,
      first: ({ messageId }) => cancelling(messageId),
      second: claiming,
      check: async ({ first, second }) => {
        assert.equal(second.jobs.length, first.changed ? 0 : 1);
        const { status, work } = await left();
        assert.deepEqual([status, work], first.changed ? ['cancelled', 0] : ['queued', 1]);
      },
    });
  });

  test('a message that is being deferred is canceled or stays in the queue', async () => {
    await bothWays({
      prepare: held,
      first: ({ job }) => settling(job, 'delayed'),
      second: ({ messageId }) => cancelling(messageId),
      check: async ({ first, second }) => {
        assert.deepEqual(first.lost, []);
        const end = second.changed ? ['DeliveryDelay', 'Reject'] : ['DeliveryDelay'];
        const status = second.changed ? 'cancelled' : 'delayed';
        assert.deepEqual(await left(), { status, events: end, work: second.changed ? 0 : 1 });
      },
    });
  });

  test('two nodes that remove each other after a long silence do not deadlock', async () => {
    let runs = 0;
    const beating = (id: string): Call<unknown> => {
      const beat = { id, host: id, version: '1', roles: 'api', state: '{}', nowMs: Date.now(), silentMs: MINUTE };
      const call = callOf(beatOperation, beat);
      return {
        run: (tx) => {
          runs += 1;
          return call.run(tx);
        },
      };
    };
    await bothWays({
      prepare: async () => {
        await temp.empty();
        for (const id of ['one', 'another']) await execute(nodes[2], beating(id));
        const silence: Call<unknown> = { run: async (tx) => tx.run('UPDATE node SET seen_at = 0') };
        await execute(nodes[2], silence);
        runs = 0;
      },
      first: () => beating('one'),
      second: () => beating('another'),
      check: async () => assert.equal(runs, 2, 'none is rolled back because of a deadlock'),
    });
  });

  test('one node probes a destination whose pause has ended', async () => {
    const destination = 'mx.example';
    const nowMs = Date.now();
    const probing = (holder: string): Call<{ granted: boolean }> =>
      callOf(claimProbeOperation, { destination, holder, nowMs, untilMs: nowMs + MINUTE });
    await bothWays({
      prepare: async () => {
        await temp.empty();
        const pause = { destination, beganAt: nowMs - 2 * MINUTE, untilAt: nowMs - MINUTE, level: 0 };
        const began = [{ ...pause, blockedSince: null, host: destination, outcome: '{}' }];
        await execute(nodes[2], callOf(writePausesOperation, { began, ended: [], nowMs: nowMs - 2 * MINUTE }));
      },
      first: () => probing('one'),
      second: () => probing('another'),
      check: async ({ first, second }) => {
        assert.equal([first, second].filter(({ granted }) => granted).length, 1);
      },
    });
  });
});
