/**
 * Imports every store, so that all operations are registered wherever this module is loaded: in the serving thread and
 * in the storage threads alike. Stores reach no package, since each thread would pay for it.
 */
import '../work/store.ts';
import '../delivery/claim.ts';
import '../delivery/settle.ts';
import '../delivery/clock-store.ts';
import '../delivery/sandbox-store.ts';
import '../messages/retention-store.ts';
import '../messages/partition-store.ts';
import '../storage/postgres/event-order-store.ts';
import '../storage/meta-store.ts';
import '../accounts/store.ts';
import '../accounts/key-store.ts';
import '../accounts/approval-store.ts';
import '../accounts/credential-store.ts';
import '../webhooks/store.ts';
import '../webhooks/work-store.ts';
import '../webhooks/log-store.ts';
import '../webhooks/replay-store.ts';
import '../webhooks/clock-store.ts';
import '../webhooks/notice-store.ts';
import '../domains/store.ts';
import '../idempotency/store.ts';
import '../send/acceptance.ts';
import '../send/resend-store.ts';
import '../send/large-store.ts';
import '../engagement/engagement-store.ts';
import '../templates/store.ts';
import '../attachments/store.ts';
import '../attachments/register-store.ts';
import '../attachments/retention-store.ts';
import '../suppressions/store.ts';
import '../messages/api-store.ts';
import '../events/read-store.ts';
import '../events/segment-store.ts';
import '../events/latest-store.ts';
import '../messages/control-store.ts';
import '../sandbox/store.ts';
import '../sandbox/clock-store.ts';
import '../nodes/store.ts';
