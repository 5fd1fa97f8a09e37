/** Lets the mail of an account leave that the guard has stopped: asked for by an owner or an operator, once the cause is gone. */
import { resumeSendingOperation } from '../accounts/accounts.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { answeredOperation } from '../statistics/statistics.ts';
import type { Database } from '../storage/database.ts';
import { hourOf } from './rates.ts';

export interface Resuming {
  /** In the hands of who asks. */
  changes: Database;
  accountId: string;
  nowMs: number;
}

/** CONFLICT where no mail rests for the guard. The caller wakes the delivery. */
export async function resumeSending({ changes, accountId, nowMs }: Resuming): Promise<Result<{ message: string }>> {
  const hourMs = hourOf(nowMs);
  const [before] = await changes.execute(answeredOperation, { accountId, fromMs: [hourMs] });
  const countedFrom = { atMs: nowMs, hourMs, ...before! };
  if (!(await changes.execute(resumeSendingOperation, { id: accountId, countedFrom, nowMs }))) {
    return refuse(failure('CONFLICT', { message: 'The live mail of this account does not rest.' }));
  }
  return ok({ message: 'Live mail leaves again; bounces and complaints are counted from zero.' });
}
