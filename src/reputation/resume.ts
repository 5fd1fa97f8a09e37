/** Releases held mail of an account: called by an owner or an operator once the cause is fixed. */
import { resumeSendingOperation } from '../accounts/accounts.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { answeredOperation } from '../statistics/statistics.ts';
import type { Database } from '../storage/database.ts';
import { hourOf } from './rates.ts';

export interface Resuming {
  /** Records the caller in the audit log. */
  changes: Database;
  accountId: string;
  nowMs: number;
}

/** Fails with CONFLICT if no mail is held. The caller wakes delivery. */
export async function resumeSending({ changes, accountId, nowMs }: Resuming): Promise<Result<{ message: string }>> {
  const hourMs = hourOf(nowMs);
  const [before] = await changes.execute(answeredOperation, { accountId, fromMs: [hourMs] });
  const countedFrom = { atMs: nowMs, hourMs, ...before! };
  if (!(await changes.execute(resumeSendingOperation, { id: accountId, countedFrom, nowMs }))) {
    return refuse(failure('CONFLICT', { message: 'No mail of this account is held, so there is nothing to release.' }));
  }
  return ok({ message: 'Held mail is being sent. Bounces and complaints are counted from zero.' });
}
