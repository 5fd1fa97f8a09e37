/** Decisions of sending protection in the audit log, as returned to the account and the operator: one row each, by the service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { inProcessApi } from '../../test/kit/in-process-api.ts';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import { addStepOperation } from '../statistics/roll-up-store.ts';
import { createUser } from '../users/users.ts';
import { startSendingProtection } from './protection.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

interface Row {
  time: string;
  accountId: string;
  mode: null;
  actor: unknown;
  address: null;
  action: string;
  resourceId: string;
  before: { protectionStatus: string; protection: { reason?: unknown } };
  after: { protectionStatus: string; protection: { reason?: { rate: string; answered: number } } };
}

for (const dialect of DIALECTS) {
  test(`${dialect}: a warning, a hold, and its release are audited for their account only`, async (t) => {
    const temp = await tempDatabase(dialect);
    t.after(temp.close);
    const clock = fakeClock();
    const env = temp.url === undefined ? {} : { POSTRIDER_DATABASE_URL: temp.url };
    const rig = await inProcessApi({ clock, env });
    t.after(rig.close);
    const { accountId, live } = rig;
    const { database } = rig.parts;
    const other = await createAccount(rig.parts, { name: 'Two', plan: 'paid' });
    const made = await createUser(rig.parts, { email: 'op@example.com', isOperator: true });
    assert.ok(made.ok);
    const operator = await rig.signedIn(made.value.email, made.value.password);
    const rounds = [1, 2].map(() =>
      startSendingProtection({ database, clock, log: silentLog, roundMs: 1e9, notify: async () => undefined }),
    );
    t.after(() => Promise.all(rounds.map((one) => one.stop())));
    const after = async (ms: number): Promise<string> => {
      clock.advance(ms);
      await Promise.all(rounds.map((one) => one.run()));
      return iso(clock.now());
    };
    const read = async (): Promise<{ own: Row[]; all: Row[] }> => {
      const own = (await live.get('/audit')).body as unknown as Row[];
      const all = (await operator.call('GET', `/operator/audit?resourceId=${accountId}`)).body as unknown as Row[];
      const guarded = ({ action }: Row): boolean => /^account\.(sending-protection|resume-sending)$/.test(action);
      return { own: own.filter(guarded).reverse(), all: all.filter(guarded).reverse() };
    };

    await after(0);
    assert.deepEqual(await read(), { own: [], all: [] }, 'control: rounds alone write nothing');
    const opened = { opened: 0, clicked: 0, unsubscribed: 0 };
    const counts = { accepted: 0, delayed: 0, suppressed: 0, bouncedSoft: 0, bouncedBlock: 0, ...opened };
    const start = Math.floor(clock.now() / HOUR) * HOUR;
    await database.execute(addStepOperation, {
      owner: { accountId, mode: 'live' },
      from: { position: 0, seq: 0 },
      to: { position: 0, seq: 1 },
      events: 1,
      lastAtMs: clock.now(),
      isLast: true,
      counted: [
        {
          dimension: 'none',
          period: 'hour',
          start,
          groupValue: '',
          ...counts,
          deliveryMs: new Map(),
          delivered: 880,
          bouncedHard: 120,
          complained: 0,
        },
      ],
    });
    const times = [await after(0)];
    await after(14 * MINUTE);
    times.push(await after(MINUTE));
    await after(MINUTE);
    assert.equal((await live.post('/account/resume-sending', { confirm: true })).status, 200);
    await after(MINUTE);

    const { own, all } = await read();
    assert.deepEqual(all, own, 'the operator reads the same rows');
    const byService = { kind: 'system', id: null, name: null };
    assert.deepEqual(
      own.map((row) => [row.action, row.resourceId, row.before.protectionStatus, row.after.protectionStatus]),
      [
        ['account.sending-protection', accountId, 'good', 'warned'],
        ['account.sending-protection', accountId, 'warned', 'held'],
        ['account.resume-sending', accountId, 'held', 'good'],
      ],
    );
    for (const [index, row] of own.slice(0, 2).entries()) {
      const { rate, answered } = row.after.protection.reason!;
      assert.deepEqual([row.time, row.accountId, row.mode], [times[index], accountId, null]);
      assert.deepEqual([row.actor, row.address, rate, answered], [byService, null, 'bounceRate', 1_000]);
    }
    assert.equal((own[2]!.actor as { kind: string }).kind, 'key', 'the person who released it is named');
    const strange = await operator.call(
      'GET',
      `/operator/audit?action=account.sending-protection&resourceId=${other.account.id}`,
    );
    assert.deepEqual(strange.body, []);
    const system = await operator.call('GET', '/operator/audit?action=account.sending-protection');
    assert.equal((system.body as unknown as Row[]).length, 2, 'each decision is one row, even with two nodes');
  });
}
