/**
 * One account at its limits, with 100 webhooks and 20 event streams, sends 50 messages a second, which needs 10,000 posts a second, more
 * than the machine can do. Another account's sends are timed from outside, in rounds with and without that load.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Api, apiClient } from '../kit/api.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { busyTenant } from './busy-tenant.ts';

const SENDS = 30;
const WEBHOOKS = 100;
const STREAMS = 20;
/**
 * How much longer sends may take under load, by medians; the goal is 2. On two cores: 1.2 and 1.3 times (2.7 to 3.8 ms), 1.9 with two other
 * busy programs; 10.8 times before webhooks yielded to mail (src/webhooks/pace.ts), and 13 to 19 with other load.
 */
const MOST = 4;

const median = (list: readonly number[]): number => [...list].sort((a, b) => a - b)[list.length >> 1]!;

async function sendMs(api: Api): Promise<number> {
  const mail = { from: 'shop@other.example', to: 'one@example.net', subject: 'Hello', text: 'Hello' };
  const start = performance.now();
  const answer = await api.post('/send', mail);
  const tookMs = performance.now() - start;
  assert.equal(answer.status, 202, answer.text);
  return tookMs;
}

async function medianSendMs(api: Api): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < SENDS; i += 1) took.push(await sendMs(api));
  return median(took);
}

/** Runs the trial and throws if the sends of the other account took too long. */
export async function tenantTrial(t: TestContext, { rounds }: { rounds: number }): Promise<void> {
  const sink = await smtpSink();
  const service = await startService({
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' },
  });
  const close = [() => service.close(), () => sink.close()];
  t.after(async () => {
    for (const one of close) await one();
  });
  await service.cli('domain', 'add', service.live.accountId, 'busy.example', '--verified');
  const other = await service.cli('account', 'create', '--name', 'Other');
  await service.cli('domain', 'add', other.accountId, 'other.example', '--verified');
  const api = apiClient(() => service.url, { accountId: other.accountId, apiKey: other.apiKey });
  const tenant = await busyTenant({
    url: service.url,
    credentials: service.live,
    from: 'shop@busy.example',
    everyMs: 20,
    webhooks: WEBHOOKS,
    streams: STREAMS,
  });
  close.unshift(
    async () => tenant.close(),
    async () => api.close(),
  );
  await medianSendMs(api);
  const alone: number[] = [];
  const beside: number[] = [];
  let arrived = { mails: 0, posts: 0, streamed: 0 };
  const ratioOf = (): number => median(beside) / median(alone);
  // Other test files run at the same time: they may spoil one of three rounds.
  for (let round = 0; round < rounds || (ratioOf() > MOST && round < rounds + 2); round += 1) {
    alone.push(await medianSendMs(api));
    await tenant.flow();
    beside.push(await medianSendMs(api));
    arrived = await tenant.rest();
  }
  const ratio = ratioOf();
  const shown = (list: number[]): string => list.map((ms) => ms.toFixed(1)).join(' ');
  const figures = `alone ${shown(alone)} ms, beside ${shown(beside)} ms, ${ratio.toFixed(1)} times`;
  t.diagnostic(`${figures}; ${JSON.stringify(arrived)}`);
  assert.ok(arrived.mails >= rounds * 10, `${arrived.mails} messages of the busy account`);
  assert.ok(ratio <= MOST, figures);
}
