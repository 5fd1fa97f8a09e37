/** What happens once results are recorded, live or in the sandbox: they are counted, and each has one line in the log. */

import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Settlement } from './settle.ts';

export type ResultMetrics = Pick<
  Metrics,
  'delivered' | 'bounced' | 'delayed' | 'suppressed' | 'deliverySeconds' | 'attemptSeconds' | 'attemptsByReply'
>;

export function noteRecorded(
  { metrics, log }: { metrics?: ResultMetrics | undefined; log: Log },
  settlement: Settlement,
): void {
  const { accountId, mode, messageId, to, attempt, attempts, event } = settlement;
  if (metrics) {
    metrics[to][mode].inc();
    if (attempt) {
      metrics.attemptSeconds.observe(attempt.durationMs / 1000);
      metrics.attemptsByReply[classOf(attempt.reply)].inc();
    }
    const delivery = event?.detail.delivery as { latencyMs: number } | undefined;
    if (delivery) metrics.deliverySeconds.observe(delivery.latencyMs / 1000);
  }
  const tried =
    attempt === null
      ? {}
      : { attempts, host: attempt.host, address: attempt.address, tls: attempt.tls, reply: attempt.reply };
  const nextAttemptAtMs = settlement.nextAttemptAtMs ?? undefined;
  log.info({ accountId, mode, messageId, eventId: event?.id, ...tried, nextAttemptAtMs }, `mail ${to}`);
}

/** Of the reply that decided; sockets, resolvers and our own refusals give none. */
function classOf(reply: string | null): '2xx' | '4xx' | '5xx' | 'none' {
  const first = /^([245])\d\d /.exec(reply ?? '')?.[1];
  return first === undefined ? 'none' : (`${first}xx` as '2xx' | '4xx' | '5xx');
}
