/** An account with raised limits, for tests of many endpoints or templates. */
import { newAccount } from '../../src/accounts/create.ts';
import { createAccountOperation, setAccountOperation } from '../../src/accounts/store.ts';
import { HIGHEST_LIMIT, type Limits } from '../../src/limits/limits.ts';
import type { Database } from '../../src/storage/database.ts';

/** Creates the account with the given id. */
export async function highLimitAccount(
  { execute }: Pick<Database, 'execute'>,
  id: string,
  limits: Partial<Limits> = { webhooks: HIGHEST_LIMIT },
): Promise<void> {
  await execute(createAccountOperation, { account: { ...newAccount('Roomy', 'paid', Date.now()), id }, keys: [] });
  await execute(setAccountOperation, {
    id,
    plan: null,
    status: null,
    approvedEmailBytes: null,
    nowMs: Date.now(),
    limits,
  });
}
