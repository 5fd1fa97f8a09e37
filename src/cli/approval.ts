/** `postrider approval list | approve | reject`: the operator decides on requests for a larger email size. */
import { type Approval, allApprovalsOperation, type Decided, decideApprovalOperation } from '../accounts/accounts.ts';
import { type CommandCall, CommandError, type CommandOutcome, notFound, UsageError } from './command.ts';
import { withStore } from './store.ts';

const LISTED_AT_MOST = 1_000;
const MAX_REASON_LENGTH = 2_000;

function shown(approval: Approval): Record<string, unknown> {
  return {
    approvalId: approval.id,
    accountId: approval.accountId,
    requestedEmailBytes: approval.requestedEmailBytes,
    reason: approval.reason,
    status: approval.status,
    ...(approval.decisionReason === null ? {} : { decisionReason: approval.decisionReason }),
    createdAt: new Date(approval.createdAt).toISOString(),
    ...(approval.decidedAt === null ? {} : { decidedAt: new Date(approval.decidedAt).toISOString() }),
  };
}

/** A request comes from outside: what of it could steer a terminal is shown as text. */
function line(approval: Approval): string {
  const { id, accountId, requestedEmailBytes, status } = approval;
  return `${id}  ${accountId}  ${String(requestedEmailBytes).padStart(10)}  ${status.padEnd(8)}  ${JSON.stringify(approval.reason)}`;
}

export async function list(call: CommandCall): Promise<CommandOutcome> {
  const approvals = await withStore(call, (store) => store.database.execute(allApprovalsOperation, LISTED_AT_MOST));
  return { data: { approvals: approvals.map(shown) }, text: approvals.map(line).join('\n') || 'no requests' };
}

async function decide(call: CommandCall, status: 'approved' | 'rejected', reason: string | null): Promise<Decided> {
  const [id = ''] = call.args;
  const decided = await withStore(call, (store) =>
    store.database.execute(decideApprovalOperation, { id, status, reason, nowMs: store.clock.now() }),
  );
  if (!decided) throw notFound(`there is no request ${id}; see postrider approval list`);
  if (!decided.decided) throw new CommandError('CONFLICT', `${id} is ${decided.approval.status} already`);
  return decided;
}

export async function approve(call: CommandCall): Promise<CommandOutcome> {
  const { approval, approvedEmailBytes } = await decide(call, 'approved', null);
  return {
    data: { ...shown(approval), approvedEmailBytes },
    text: `${approval.id} is approved: ${approval.accountId} may send up to ${approvedEmailBytes} bytes`,
  };
}

export async function reject(call: CommandCall<{ reason: string }>): Promise<CommandOutcome> {
  const reason = call.options.reason.trim();
  if (reason === '' || reason.length > MAX_REASON_LENGTH) {
    throw new UsageError(`--reason must be 1 to ${MAX_REASON_LENGTH} characters`);
  }
  const { approval, approvedEmailBytes } = await decide(call, 'rejected', reason);
  return { data: { ...shown(approval), approvedEmailBytes }, text: `${approval.id} is rejected` };
}
