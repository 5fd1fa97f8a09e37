/** Scenarios of statistics: a log is counted in steps, read before, between and after them, and removed; sums by mailbox provider. */
import assert from 'node:assert/strict';
import { createAccountOperation } from '../../src/accounts/store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { GROUPINGS, type GroupBy } from '../../src/statistics/counts.ts';
import { acceptedMailOperation, readStatisticsOperation } from '../../src/statistics/read-store.ts';
import {
  addStepOperation,
  countStepOperation,
  GROUPS_KEPT,
  removeStatisticsOperation,
  staleStatisticsOperation,
} from '../../src/statistics/roll-up-store.ts';
import { newAccount } from './accounts.ts';
import { acceptance, claimRequest, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export const statistics: Scenario = async (stage) => {
  const account = newAccount(stage);
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const owner = { accountId, mode: 'live' } as const;
  const [fromMs, untilMs] = [Math.floor(stage.nowMs / DAY) * DAY - DAY, stage.nowMs + DAY];
  const read = async (groups: number): Promise<void> => {
    for (const period of ['hour', 'day'] as const)
      for (const groupBy of GROUPINGS)
        await stage.act(readStatisticsOperation, { ...owner, groupBy, period, fromMs, untilMs, groups });
  };
  const tagsOf = (index: number): string[] => [`tag_${index}`, ...(index % 2 ? ['odd'] : [])];
  // More tags in one hour than are kept by name.
  for (let index = 0; index < 130; index += 1) {
    await stage.database.execute(
      acceptOperation,
      acceptance(stage, {
        accountId,
        to: [`a@${index % 7}.example`],
        // Each with its own time: claims do not define an order of equal ones.
        change: { nowMs: stage.nowMs + index - (index % 20 === 0 ? DAY : 0) },
        email: { tags: JSON.stringify(tagsOf(index)), templateId: index % 3 ? 'tpl_a' : null },
      }),
    );
  }
  const { jobs } = await stage.database.execute(claimOperation, claimRequest(stage));
  const detail = { delivery: { latencyMs: 412 } };
  await stage.database.execute(
    settleOperation,
    jobs
      .sort((a, b) => (a.messageId < b.messageId ? -1 : 1))
      .map((job) => settlement(stage, job, { event: { id: stage.id('evt'), type: 'Delivery', detail } })),
  );
  await stage.act(staleStatisticsOperation, { after: '', accounts: 10 });
  await read(3);
  for (const limit of [100, 100, 100]) {
    const step = await stage.act(countStepOperation, { owner, limit });
    if (step === null) break;
    assert.equal(await stage.act(addStepOperation, step), true);
    assert.equal(await stage.act(addStepOperation, step), false, 'once');
    await read(3);
  }
  await read(500);
  const lately = { accountId, fromMs, untilMs: stage.nowMs };
  assert.equal(await stage.act(acceptedMailOperation, { ...lately, domain: '3.example' }), true);
  assert.equal(await stage.act(acceptedMailOperation, { ...lately, domain: '9.example' }), false);
  assert.equal(
    await stage.act(acceptedMailOperation, { ...lately, domain: '3.example', accountId: 'acc_other' }),
    false,
  );
  const before = { fromMs: fromMs - 3 * DAY, untilMs: stage.nowMs - 2 * DAY };
  assert.equal(await stage.act(acceptedMailOperation, { ...lately, ...before, domain: '3.example' }), false);
  await stage.act(staleStatisticsOperation, { after: accountId, accounts: 10 });
  await stage.act(staleStatisticsOperation, { after: '', accounts: 1 });
  assert.ok((await stage.act(removeStatisticsOperation, { beforeMs: stage.nowMs - HOUR, limit: 3 })) > 0);
  await stage.act(removeStatisticsOperation, { beforeMs: untilMs, limit: 1_000 });
  await read(3);
};

/** Domains of mailbox providers that appear after more other domains than one hour or day keeps by name. */
const LATE_DOMAINS = ['gmail.com', 'gmx.de', 'web.de', 'GoogleMail.com', 'gmail.com', 'yahoo.co.jp'];
const OTHER_DOMAINS = 310;

export const mailboxProviders: Scenario = async (stage) => {
  const account = newAccount(stage);
  const accountId = account.id;
  await stage.act(createAccountOperation, { account, keys: [] });
  const owner = { accountId, mode: 'live' } as const;
  const fromMs = Math.floor(stage.nowMs / DAY) * DAY;
  const startMs = Math.floor(stage.nowMs / HOUR) * HOUR;
  const others = Array.from({ length: OTHER_DOMAINS }, (_, index) => `other-${index}.example`);
  for (const [index, domain] of [...others, ...LATE_DOMAINS].entries()) {
    const change = { nowMs: startMs + index };
    await stage.database.execute(acceptOperation, acceptance(stage, { accountId, to: [`a@${domain}`], change }));
  }
  const sumsOf = async (groupBy: GroupBy, groups: number): Promise<[string | null, number][]> => {
    for (const period of ['hour', 'day'] as const) {
      const query = { ...owner, groupBy, period, fromMs, untilMs: fromMs + DAY, groups };
      const buckets = await stage.act(readStatisticsOperation, query);
      const sums = buckets!.map(({ group, accepted }): [string | null, number] => [group, accepted]);
      if (period === 'day') return sums;
    }
    return [];
  };
  const assertSums = async (): Promise<void> =>
    assert.deepEqual(await sumsOf('mailboxProvider', 1), [
      ['google', 3],
      ['gmx', 2],
      [null, OTHER_DOMAINS + 1],
    ]);
  await assertSums();
  // The domains of the providers are in the last of these steps, and also in the events that a call counts itself before.
  for (const limit of [200, OTHER_DOMAINS - 200, 2, 100]) {
    const step = await stage.act(countStepOperation, { owner, limit });
    assert.equal(await stage.act(addStepOperation, step!), true);
    await assertSums();
  }
  assert.equal(await stage.act(countStepOperation, { owner, limit: 1 }), null);
  const stored = new Map(await sumsOf('recipientDomain', 1_000));
  assert.deepEqual(
    ['gmail.com', 'googlemail.com', 'gmx.de', 'web.de', 'yahoo.co.jp'].map((domain) => stored.get(domain)),
    [2, 1, 1, 1, undefined],
  );
  assert.equal(stored.get(null), OTHER_DOMAINS + 1 - GROUPS_KEPT.day);
};
