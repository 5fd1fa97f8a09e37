/**
 * Runs the webhook attempts that come due while the clock of an account's sandbox is moved: real requests, at times and with
 * a schedule by that clock, recorded as the worker does it. Requests of one call are under way together.
 */
import { webhookDelayMs } from '../base/backoff.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { HttpClient } from '../net/http-client.ts';
import type { SandboxRunner, TakenRow } from '../sandbox/sandbox.ts';
import type { Database } from '../storage/database.ts';
import { type Delivery, settledOf, untriedOf } from './delivery-record.ts';
import { postEvent } from './request.ts';
import type { EndpointTarget } from './store.ts';
import { createTargets } from './targets.ts';
import { type Settled, sandboxBatchOperation, settleOperation } from './work-store.ts';

const MOST = 50;

/** The schedule with its jitter at the least. */
function shortestWaitsMs(): number[] {
  const waits: number[] = [];
  for (let attempts = 1; ; attempts += 1) {
    const delayMs = webhookDelayMs(attempts);
    if (delayMs === undefined) return waits;
    waits.push(Math.floor(delayMs * 0.9));
  }
}

export interface SandboxWebhookDeps {
  database: Database;
  http: HttpClient;
  clock: Clock;
  log: Log;
  /** The service's key that seals secrets. */
  secretKey: Uint8Array;
  /** Uniform in [0, 1), for jitter. */
  random?: () => number;
}

export function createSandboxWebhooks(deps: SandboxWebhookDeps): SandboxRunner {
  const { database, http, clock } = deps;
  const targets = createTargets(deps.secretKey);
  const random = deps.random ?? Math.random;

  const attempt = async (job: Delivery, row: EndpointTarget, work: TakenRow): Promise<Settled> => {
    const realNowMs = clock.now();
    const nowMs = work.atMs;
    let target: ReturnType<typeof targets>;
    try {
      target = targets(row);
    } catch (error) {
      deps.log.error({ webhook: row.id, cause: (error as Error).message }, 'webhook secret does not open');
      return untriedOf(job, {
        nowMs,
        error: 'the secret of this endpoint cannot be read any more; rotate it and retry',
      });
    }
    const outcome = await postEvent({ http, target, event: job.event, nowMs: realNowMs });
    return settledOf(job, { outcome, url: target.url, random: random(), nowMs, clockOffsetMs: nowMs - realNowMs });
  };

  return {
    kind: 'webhook',
    shortestWaitsMs: shortestWaitsMs(),
    most: MOST,
    run: async (works) => {
      const batch = await database.execute(sandboxBatchOperation, { works, nowMs: clock.now() });
      const events = new Map(batch.events.map((event) => [event.seq, event]));
      const rows = new Map(batch.targets.map((row) => [row.id, row]));
      const taken = new Map(works.map((work) => [work.seq, work]));
      const settled = await Promise.all(
        batch.jobs.map((job) =>
          attempt({ ...job, event: events.get(job.eventSeq)! }, rows.get(job.webhookId)!, taken.get(job.seq)!),
        ),
      );
      if (settled.length === 0) return 0;
      await database.execute(settleOperation, { nowMs: clock.now(), settled });
      return settled.filter((one) => one.tried).length;
    },
  };
}
