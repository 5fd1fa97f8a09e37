/** What happens once mail was accepted, over HTTP or SMTP: it is counted and logged, and those who wait for it are woken. */
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Accepted } from '../send/send.ts';

export interface Nudges {
  nudgeDelivery(): void;
  nudgeWebhooks(): void;
}

export function noteAccepted(
  { metrics, log }: { metrics: Metrics; log: Log },
  nudges: Nudges,
  accepted: Accepted,
): void {
  const { accountId, mode, source, recipients, requestId } = accepted;
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
  const messageIds = recipients.map((recipient) => recipient.messageId);
  log.info({ requestId, accountId, mode, source, messageIds }, 'mail accepted');
  if (waiting > accepted.handedOver) nudges.nudgeDelivery();
  nudges.nudgeWebhooks();
}
