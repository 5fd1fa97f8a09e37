/** What happens once mail was accepted, over HTTP or SMTP: it is counted, and those who wait for it are woken. */
import type { Metrics } from '../base/metrics.ts';
import type { Accepted } from '../send/send.ts';

export interface Nudges {
  nudgeDelivery(): void;
  nudgeWebhooks(): void;
}

export function noteAccepted(metrics: Metrics, nudges: Nudges, accepted: Accepted): void {
  const { mode, source, recipients } = accepted;
  let suppressed = 0;
  let waiting = 0;
  for (const { status } of recipients) {
    if (status === 'suppressed') suppressed += 1;
    if (status === 'queued') waiting += 1;
  }
  metrics.accepted[mode].inc(recipients.length);
  metrics.acceptedBySource[source].inc(recipients.length);
  if (suppressed > 0) metrics.suppressed[mode].inc(suppressed);
  metrics.acceptSeconds.observe(accepted.tookMs / 1000);
  if (waiting > accepted.handedOver) nudges.nudgeDelivery();
  nudges.nudgeWebhooks();
}
