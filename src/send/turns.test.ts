/** Sends that take long to render yield to others and have a time limit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataOf, GOOD, sendRig } from '../../test/kit/send-rig.ts';
import { ok } from '../base/failure.ts';
import { silentLog } from '../base/log.ts';
import { threadTimeMs } from '../templates/templates.ts';
import { sendBatch } from './batch.ts';

/** Uses this much CPU time, however busy the machine is. */
function hold(ms: number): void {
  const until = threadTimeMs() + ms;
  while (threadTimeMs() < until);
}

/** A rig whose renderings take this long. */
function slowRig(renderMs: number) {
  return sendRig({
    render: ({ subject = '', text = '' }) => {
      hold(renderMs);
      return ok({ subject, text, missing: [] });
    },
  });
}

/** Counts how often other work had the event loop during this call. */
async function turnsOfOthers(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

test('rendering a batch yields to others, with or without a key, and keeps the order', async () => {
  const rig = await slowRig(10);
  try {
    const messages = Array.from({ length: 30 }, (_, i) => ({ ...GOOD, to: `p${i}@example.com` }));
    for (const idempotency of [undefined, { key: 'k', json: ok({ messages }), bytes: () => Buffer.from('x') }]) {
      const turns = await turnsOfOthers(async () => {
        const answer = await sendBatch(rig.sender, rig.dependencies, {
          caller: { account: rig.account, mode: 'live', allowedSenders: [] },
          origin: {},
          parse: () => ok({ messages }),
          log: silentLog,
          ...(idempotency && { idempotency }),
        });
        assert.ok(answer.ok);
        const { results } = JSON.parse(answer.value.json) as {
          results: { data: { recipients: { email: string }[] } }[];
        };
        assert.deepEqual(
          results.map((one) => one.data.recipients[0]!.email),
          messages.map((one) => one.to),
        );
      });
      assert.ok(turns >= 10, `others ran ${turns} times in 300 ms`);
    }
  } finally {
    await rig.close();
  }
});

test('a rejected request is not rendered and does not delay others', async () => {
  let rendered = 0;
  const rig = await sendRig({
    render: () => {
      rendered += 1;
      return ok({ missing: [] });
    },
  });
  try {
    // Parsing each takes a while; the tag at the end is the issue.
    const html = '<b>{{ a }}</b>'.repeat(3_000);
    const messages = Array.from({ length: 60 }, (_, i) => ({ ...GOOD, to: 'nobody', html: `${i}${html}{% if %}` }));
    const turns = await turnsOfOthers(async () => {
      const caller = { account: rig.account, mode: 'live' as const, allowedSenders: [] };
      const request = { caller, origin: {}, log: silentLog };
      const answer = await sendBatch(rig.sender, rig.dependencies, { ...request, parse: () => ok({ messages }) });
      assert.ok(answer.ok);
      const { results } = JSON.parse(answer.value.json) as { results: { error: { details: { field: string }[] } }[] };
      for (const { error } of results)
        assert.deepEqual(
          error.details.map((one) => one.field),
          ['to', 'html'],
        );
    });
    assert.equal(rendered, 0);
    assert.ok(turns >= 3, `others ran ${turns} times`);
  } finally {
    await rig.close();
  }
});

const MANY = { ...GOOD, to: Array.from({ length: 50 }, (_, i) => `p${i}@example.com`), listUnsubscribe: true };

test('rendering the copies of one email yields to others', async () => {
  const rig = await slowRig(10);
  try {
    const turns = await turnsOfOthers(async () => {
      const result = await rig.send({ ...MANY, text: '{{ a }}' });
      assert.ok(result.ok, JSON.stringify(result));
    });
    assert.ok(turns >= 20, `others ran ${turns} times in 500 ms`);
  } finally {
    await rig.close();
  }
});

test('the copies of one email share a rendering time limit', async () => {
  const rig = await slowRig(150);
  try {
    const own = '{{ a }}{{ unsubscribe_email_html }}';
    const result = await rig.send({ ...MANY, text: own });
    assert.ok(!result.ok);
    assert.equal(result.failure.code, 'TEMPLATE_INVALID');
    assert.match(result.failure.message, /for each of 50 recipients takes longer than 2000 ms/);
    assert.equal(rig.offered.length, 0);
    // Copies that differ only in their headers are rendered once.
    dataOf(await rig.send({ ...MANY, text: '{{ a }}' }));
    assert.equal(rig.offered.length, 50);
  } finally {
    await rig.close();
  }
});
