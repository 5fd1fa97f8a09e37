/** Concurrent operations of several nodes on one PostgreSQL: nothing is done twice, lost, or skipped. */

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test, { after, before, type TestContext } from 'node:test';
import { patchSettingsOperation } from '../../src/accounts/store.ts';
import { silentLog } from '../../src/base/log.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { type Settlement, settleOperation } from '../../src/delivery/record/settle.ts';
import { trackOperation } from '../../src/engagement/engagement-store.ts';
import { appendEvents, type EventRow } from '../../src/events/events.ts';
import { readEventsOperation } from '../../src/events/read-store.ts';
import { cancelMessageOperation } from '../../src/messages/api-store.ts';
import type { DeliveryJob } from '../../src/messages/message.ts';
import { type Acceptance, type AcceptanceResult, acceptOperation } from '../../src/send/acceptance.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { alignEventOrderOperation } from '../../src/storage/meta-store.ts';
import { eachCall, type Transaction } from '../../src/storage/operation.ts';
import { openPostgresDatabase } from '../../src/storage/postgres/database.ts';
import { openPostgresHints } from '../../src/storage/postgres/hints.ts';
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import { loadSecretKey } from '../../src/storage/secret-key.ts';
import { firstRunOperation } from '../../src/users/store.ts';
import { acceptance, seedMail } from '../kit/seed-mail.ts';
import { type TempDatabase, tempDatabase } from '../kit/temp-database.ts';
import { waitUntil } from '../kit/wait-until.ts';

const MINUTE = 60_000;
let temp: TempDatabase;
let nodes: Database[] = [];

before(async () => {
  temp = await tempDatabase('postgres');
  const address = parsePostgresUrl(temp.url!);
  nodes = [temp.database];
  for (let i = 0; i < 2; i += 1) nodes.push(await openPostgresDatabase({ address, log: silentLog }));
});
after(async () => {
  for (const node of nodes.slice(1)) await node.close();
  await temp.close();
});
const fresh = (t: TestContext): void => t.after(() => temp.empty());
const write = <R>(run: (tx: Transaction) => Promise<R>) => ({
  name: 'test.once',
  mode: 'write' as const,
  run: eachCall(run),
});

const claim = async (node: Database, nowMs = Date.now(), limit = 10): Promise<DeliveryJob[]> =>
  (await node.execute(claimOperation, { nowMs, leaseMs: MINUTE, limit, quarantined: false })).jobs;

function delivered(job: DeliveryJob): Settlement {
  return {
    seq: job.seq,
    fence: job.fence,
    accountId: job.accountId,
    mode: job.mode,
    messageId: job.messageId,
    emailSeq: job.emailSeq,
    retain: job.retain,
    atMs: Date.now(),
    attempts: 1,
    attempt: null,
    to: 'delivered',
    nextAttemptAtMs: null,
    event: null,
    suppress: null,
    followedBy: null,
    sandboxOutcome: null,
  };
}

test('one node claims each message', async (t) => {
  fresh(t);
  await Promise.all(Array.from({ length: 300 }, (_, i) => seedMail(nodes[i % 3]!, { accountId: 'acc_1' })));
  const taken: string[] = [];
  const claimAll = async (node: Database): Promise<void> => {
    for (;;) {
      const jobs = await claim(node);
      if (jobs.length === 0) return;
      taken.push(...jobs.map((job) => job.messageId));
    }
  };
  await Promise.all([...nodes, ...nodes].map(claimAll));
  assert.equal(taken.length, 300);
  assert.equal(new Set(taken).size, 300);
});

test('nodes with clocks five minutes off steal no leases and find due messages', async (t) => {
  fresh(t);
  const now = Date.now();
  for (const skewMs of [-5 * MINUTE, 5 * MINUTE]) {
    const nodeNow = now + skewMs;
    const mail = { ...acceptance({ accountId: 'acc_1', nowMs: nodeNow }), leaseUntilMs: nodeNow + MINUTE };
    const accepted = await nodes[0]!.execute(acceptOperation, mail);
    assert.equal(accepted.leased.length, 1);
    for (const node of nodes) assert.deepEqual(await claim(node, now + 5 * MINUTE), [], 'leased at its acceptance');
  }
  await seedMail(nodes[0]!, { accountId: 'acc_1', nowMs: now });
  assert.equal((await claim(nodes[1]!, now - 5 * MINUTE)).length, 1, "due by the server's clock");
  assert.equal((await claim(nodes[2]!, now + 5 * MINUTE)).length, 0);
  assert.ok(Math.abs(nodes[1]!.clock!.now() - now) < 10_000);
});

test('of two copies settled at the same time, one deletes the content they share', async (t) => {
  fresh(t);
  for (let round = 0; round < 15; round += 1) {
    const recipients = ['a@x.example', 'b@x.example'];
    const email = { content: null, blobKey: `zz/${round}` };
    await seedMail(nodes[0]!, { accountId: 'acc_1', recipients, retain: 'none', email });
    const jobs = await claim(nodes[0]!);
    assert.equal(jobs.length, 2);
    const results = await Promise.all(jobs.map((job, i) => nodes[i]!.execute(settleOperation, [delivered(job)])));
    assert.deepEqual(
      results.flatMap((one) => one.blobKeys),
      [`zz/${round}`],
    );
  }
});

test('recording a deferral again after an unacknowledged commit counts one attempt and one event', async (t) => {
  fresh(t);
  const { recipients } = await seedMail(nodes[0]!, { accountId: 'acc_1' });
  const { messageId } = recipients[0]!;
  const [job] = await claim(nodes[0]!);
  const event = { id: 'evt_delay', type: 'DeliveryDelay', detail: {} } as const;
  const attempt = {
    time: new Date().toISOString(),
    durationMs: 1,
    host: null,
    address: null,
    tls: null,
    dialogue: [],
    reply: null,
    outcome: 'delayed' as const,
  };
  const delay: Settlement = {
    ...delivered(job!),
    attempt,
    to: 'delayed',
    nextAttemptAtMs: Date.now() + MINUTE,
    event,
  };
  assert.deepEqual((await nodes[0]!.execute(settleOperation, [delay])).lost, []);
  assert.deepEqual((await nodes[0]!.execute(settleOperation, [delay])).lost, [job!.seq]);
  const found = write(async (tx) => [
    ...(await tx.all('SELECT attempts FROM work')),
    ...(await tx.all("SELECT id FROM event WHERE message_id = ? AND type = 'DeliveryDelay'", messageId)),
  ]);
  assert.deepEqual(await nodes[1]!.execute(found, null), [{ attempts: 1 }, { id: 'evt_delay' }]);
});

test('a result under an old lease does not block a concurrent one under the new lease', async (t) => {
  fresh(t);
  await seedMail(nodes[0]!, { accountId: 'acc_1' });
  const [old] = await claim(nodes[0]!);
  await nodes[0]!.execute(
    write((tx) => Promise.resolve(tx.run('UPDATE work SET due = 0'))),
    null,
  );
  const [job] = await claim(nodes[1]!);
  assert.equal(job!.fence, old!.fence + 1);
  const results = await Promise.all([old!, job!].map((one) => nodes[0]!.execute(settleOperation, [delivered(one)])));
  assert.deepEqual(
    results.map((one) => one.lost),
    [[job!.seq], []],
  );
});

test('a message is canceled or claimed, never both', async (t) => {
  fresh(t);
  for (let round = 0; round < 20; round += 1) {
    const { recipients } = await seedMail(nodes[0]!, { accountId: 'acc_1' });
    const key = { accountId: 'acc_1', mode: 'live', messageId: recipients[0]!.messageId } as const;
    const [cancelled, jobs] = await Promise.all([
      nodes[1]!.execute(cancelMessageOperation, { ...key, eventId: `evt_${round}`, nowMs: Date.now() }),
      claim(nodes[2]!),
    ]);
    assert.equal(cancelled.changed, jobs.length === 0, `round ${round}`);
    for (const job of jobs) await nodes[0]!.execute(settleOperation, [delivered(job)]);
  }
});

test('an open reported to several nodes at the same time is one event', async (t) => {
  fresh(t);
  const { recipients } = await seedMail(nodes[0]!, { accountId: 'acc_1' });
  const { messageId } = recipients[0]!;
  const open = {
    accountId: 'acc_1',
    mode: 'live',
    messageId,
    kind: 'open',
    url: null,
    isBot: true,
    userAgent: 'x',
  } as const;
  const told = await Promise.all(
    [...nodes, ...nodes].map((node, i) =>
      node.execute(trackOperation, { ...open, eventId: `evt_${i}`, nowMs: Date.now() }),
    ),
  );
  assert.equal(told.filter(Boolean).length, 1);
});

test('an idempotency key used on all nodes at the same time is accepted once', async (t) => {
  fresh(t);
  for (let round = 0; round < 10; round += 1) {
    const idempotency = {
      endpoint: '/send',
      key: `k${round}`,
      bodyHash: Buffer.from('h'),
      status: 202,
      expiresAtMs: Date.now() + MINUTE,
    };
    const mail = (): Acceptance => ({ ...acceptance({ accountId: 'acc_1' }), idempotency });
    const results: AcceptanceResult[] = await Promise.all(
      [...nodes, ...nodes].map((node) => node.execute(acceptOperation, mail())),
    );
    assert.equal(results.filter((one) => one.stored).length, 1);
  }
});

test('one of several concurrent first runs succeeds, and concurrent settings patches are all kept', async (t) => {
  fresh(t);
  const settings = { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null } as const;
  const runs = await Promise.all(
    nodes.map((node, i) => {
      const id = `acc_${i}`;
      const account = {
        id,
        name: id,
        plan: 'paid',
        status: 'active',
        approvedEmailBytes: 1,
        limits: {},
        protectionStatus: 'good',
        twoFactorRequired: false,
        timeZone: 'UTC',
        settings,
        createdAt: 1,
      } as const;
      const credential = {
        id: `smtp_${i}`,
        accountId: id,
        mode: 'live',
        username: 'u',
        passwordHash: 'p',
        createdAt: 1,
      } as const;
      const user = {
        id: `usr_${i}`,
        email: 'op@example.com',
        emailVerified: 0,
        isOperator: 1,
        createdAt: 1,
      };
      const times = { createdAt: 1, expiresAt: 2 };
      const token = { tokenHash: randomBytes(32), userId: user.id, purpose: 'first-run', byMail: 0, ...times };
      return node.execute(firstRunOperation, {
        marker: 'first-run',
        account,
        keys: [],
        credentials: [credential],
        user,
        token,
      });
    }),
  );
  assert.equal(runs.filter(Boolean).length, 1);
  const id = `acc_${runs.indexOf(true)}`;
  const patch = { id, settings: {}, maximumVariables: 100, maximumVariableBytes: 10_000 };
  const names = Array.from({ length: 12 }, (_, i) => `v${i}`);
  await Promise.all(
    names.map((name, i) => nodes[i % 3]!.execute(patchSettingsOperation, { ...patch, variables: { [name]: 'x' } })),
  );
  const last = await nodes[0]!.execute(patchSettingsOperation, { ...patch, variables: {} });
  assert.deepEqual('account' in last && Object.keys(last.account.settings.variables).sort(), names.sort());
});

test('rejects a node with a different secret key with a one-line error', async (t) => {
  fresh(t);
  const directory = dataDirectory(temp.folder);
  const key = randomBytes(32);
  await loadSecretKey({ directory, database: nodes[0]!, configured: key });
  await loadSecretKey({ directory, database: nodes[1]!, configured: key });
  const refused = loadSecretKey({ directory, database: nodes[2]!, configured: randomBytes(32) });
  await assert.rejects(refused, (error: Error) => {
    assert.match(error.message, /^POSTRIDER_SECRET_KEY is not the secret key of this database/);
    return !error.message.includes('\n');
  });
});

async function follow(node: Database, after: EventRow | undefined): Promise<EventRow[]> {
  const place = after === undefined ? null : { position: after.position!, seq: after.seq };
  return node.execute(readEventsOperation, {
    accountId: 'acc_1',
    mode: 'live',
    order: 'asc',
    after: place,
    limit: 100,
    messageId: null,
    sinceMs: null,
    untilMs: null,
  });
}

test('event readers miss no event of a transaction that commits after later ones', async (t) => {
  fresh(t);
  const { recipients } = await seedMail(nodes[0]!, { accountId: 'acc_1' });
  const { messageId } = recipients[0]!;
  const [sent] = await waitUntil('the first event', async () => {
    const events = await follow(nodes[0]!, undefined);
    return events.length === 1 && events;
  });
  const event = { type: 'Open', accountId: 'acc_1', mode: 'live', messageId, at: Date.now(), detail: {} } as const;
  let written: () => void = () => undefined;
  let finish: () => void = () => undefined;
  const isWritten = new Promise<void>((resolve) => {
    written = resolve;
  });
  const mayFinish = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const slow = nodes[1]!.execute(
    write(async (tx) => {
      await appendEvents(tx, [{ ...event, id: 'evt_slow' }]);
      written();
      await mayFinish;
    }),
    null,
  );
  await isWritten;
  await nodes[2]!.execute(
    write((tx) => appendEvents(tx, [{ ...event, id: 'evt_quick' }])),
    null,
  );
  assert.deepEqual(await follow(nodes[0]!, sent), [], 'committed events wait for earlier uncommitted ones');
  const newest = await nodes[0]!.execute(readEventsOperation, {
    accountId: 'acc_1',
    mode: 'live',
    order: 'desc',
    after: null,
    limit: 1,
    messageId: null,
    sinceMs: null,
    untilMs: null,
  });
  assert.equal(newest[0]!.id, 'evt_quick', 'control: the event is committed');
  finish();
  await slow;
  const seen = await waitUntil('both events', async () => {
    const events = await follow(nodes[0]!, sent);
    return events.length === 2 && events;
  });
  assert.deepEqual(
    seen.map((one) => one.id),
    ['evt_slow', 'evt_quick'],
  );
});

test('after a restore into another cluster, the event log continues after its last event', async (t) => {
  fresh(t);
  await seedMail(nodes[0]!, { accountId: 'acc_1' });
  // As in a cluster whose transaction ids restart.
  await nodes[0]!.execute(
    write((tx) => Promise.resolve(tx.run('UPDATE event SET position = position + 1000000'))),
    null,
  );
  assert.equal(
    (await follow(nodes[0]!, undefined)).length,
    0,
    'control: nothing would be returned for a million transactions',
  );
  const aligned = await Promise.all(nodes.map((node) => node.execute(alignEventOrderOperation, null)));
  assert.equal(aligned.filter(Boolean).length, 1);
  const [old] = await waitUntil('the old event', async () => {
    const events = await follow(nodes[0]!, undefined);
    return events.length === 1 && events;
  });
  await seedMail(nodes[1]!, { accountId: 'acc_1' });
  await waitUntil('the new event after it', async () => (await follow(nodes[2]!, old)).length === 1);
});

test('a hint reaches every node except its sender', async (t) => {
  const address = parsePostgresUrl(temp.url!);
  const hints = [0, 1].map(() => openPostgresHints({ address, log: silentLog }));
  t.after(() => Promise.all(hints.map((one) => one.stop())));
  const heard = [0, 0];
  for (const [index, one] of hints.entries()) {
    one.listen('delivery', () => {
      heard[index]! += 1;
    });
  }
  // Every listener reads once when it starts to listen.
  await waitUntil('both to listen', () => heard.every((times) => times === 1));
  hints[0]!.notify('webhooks');
  hints[0]!.notify('delivery');
  hints[0]!.notify('delivery');
  await waitUntil('the hint', () => heard[1] === 2);
  assert.deepEqual(heard, [1, 2]);
});
