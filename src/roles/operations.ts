/**
 * Imports every store, so that all operations are registered in the serving thread and in the storage threads. Stores import no packages,
 * since each thread would pay for them.
 */
import '../work/store.ts';
import '../delivery/queue/claim.ts';
import '../delivery/destinations/pause-store.ts';
import '../delivery/destinations/relay-limit-store.ts';
import '../delivery/destinations/warm-up-store.ts';
import '../delivery/record/settle.ts';
import '../inbound/store.ts';
import '../inbound/operator-mail-store.ts';
import '../inbound/report-store.ts';
import '../delivery/sandbox/reset-store.ts';
import '../delivery/sandbox/store.ts';
import '../messages/retention-store.ts';
import '../messages/late-store.ts';
import '../messages/partition-store.ts';
import '../storage/meta-store.ts';
import '../storage/server-health.ts';

import '../limits/quota-store.ts';
import '../audit/store.ts';
import '../accounts/store.ts';
import '../accounts/credential-store.ts';
import '../accounts/use-store.ts';
import '../accounts/protection-store.ts';
import '../accounts/agent-request-store.ts';
import '../users/store.ts';
import '../users/member-store.ts';
import '../users/session-store.ts';
import '../users/factor-store.ts';
import '../users/saved-filter-store.ts';
import '../users/two-factor-store.ts';
import '../webhooks/store.ts';
import '../webhooks/claim.ts';
import '../webhooks/settle.ts';
import '../webhooks/log-store.ts';
import '../webhooks/replay-store.ts';
import '../webhooks/notice-store.ts';
import '../inbound-routes/store.ts';
import '../inbound-routes/check-store.ts';
import '../inbound-routes/message-store.ts';
import '../domains/check-store.ts';
import '../domains/store.ts';
import '../idempotency/idempotency.ts';
import '../send/acceptance.ts';
import '../send/large-store.ts';
import '../send/delivery-report-store.ts';
import '../engagement/engagement-store.ts';
import '../templates/store.ts';
import '../attachments/store.ts';
import '../attachments/register-store.ts';

import '../suppressions/store.ts';
import '../erasure/store.ts';
import '../erasure/find-store.ts';
import '../erasure/remove-store.ts';
import '../messages/api-store.ts';
import '../messages/email-store.ts';
import '../messages/share-store.ts';
import '../events/read-store.ts';
import '../events/place-store.ts';

import '../messages/control-store.ts';
import '../sandbox/store.ts';
import '../sandbox/clock-store.ts';
import '../nodes/nodes.ts';
import '../operator/store.ts';
import '../operator/key-store.ts';
import '../request-log/store.ts';
import '../incidents/store.ts';
import '../statistics/roll-up-store.ts';
import '../statistics/read-store.ts';
import '../tls-policy/mta-sts-store.ts';
import '../tls-reports/store.ts';
import '../acme/store.ts';
