/**
 * SIGTERM under load, with one delivery that hangs: the service exits 0 within 30 s, with no loss, no duplicates, and a response for every
 * accepted request.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { runningMs } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { allMessages, copiesByKey, openLedger, startLoad } from './ledger.ts';

/** Runs the trial and throws at the first broken promise. */
export async function stopTrial(t: TestContext, { stops }: { stops: number }): Promise<void> {
  let stalled = 0;
  const sink = await smtpSink({
    script: {
      rcpt: ({ line }) => {
        if (!line.includes('stalled@')) return undefined;
        stalled += 1;
        return { silent: true };
      },
    },
  });
  t.after(() => sink.close());
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(() => service.close());
  const ledger = openLedger();
  t.after(() => ledger.close());
  await service.cli('domain', 'add', service.live.accountId, 'load.example', '--verified');
  const from = 'load@load.example';
  const mail = { from, to: 'stalled@load.example', subject: 'Stalled', text: 'x' };
  assert.equal((await service.api.post('/send', mail)).status, 202);
  await waitUntil('the stalled delivery', () => stalled > 0);

  const load = startLoad({ api: service.api, ledger, from, workers: 4, prefix: 't' });
  for (let stop = 0; stop < stops; stop += 1) {
    const target = ledger.acknowledged.size + 40;
    await waitUntil(`${target} acknowledgements`, () => ledger.acknowledged.size >= target, 60_000);
    const startedAt = runningMs();
    const exit = await service.kill('SIGTERM');
    assert.deepEqual(exit, { code: 0, signal: null }, service.log.slice(-2000));
    assert.ok(runningMs() - startedAt < 30_000, 'exited within 30 s');
    await service.restart();
  }
  await load.finish();
  const keys = [...ledger.acknowledged.keys()];
  await waitUntil(
    'all messages to arrive',
    () => {
      const there = copiesByKey(sink.messages);
      return keys.every((key) => there.has(key));
    },
    60_000,
  );
  const copies = copiesByKey(sink.messages);
  assert.deepEqual(
    keys.filter((key) => copies.get(key)?.length !== 1),
    [],
    'twice',
  );
  assert.deepEqual(
    [...copies.keys()].filter((key) => !ledger.attempted.has(key)),
    [],
    'phantoms',
  );
  const stored = await allMessages(service.api);
  assert.equal(stored.length, keys.length + 1, 'one message per key, and the stalled one');
  const answered = [...ledger.acknowledged.values()].filter((one) => one.replayed && one.unanswered > 0);
  assert.deepEqual(answered, [], 'accepted, but cut off before the response');
  assert.deepEqual(ledger.strange, []);
}
