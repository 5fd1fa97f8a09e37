/** `postrider account create | list | show | set`. */
import {
  type Account,
  type AccountChange,
  type AccountStatus,
  accountOperation,
  accountsOperation,
  createAccount,
  MAXIMUM_EMAIL_BYTES,
  type Plan,
  STANDARD_EMAIL_BYTES,
  setAccountOperation,
} from '../accounts/accounts.ts';
import { CAP_NAMES, capsOf, HIGHEST_CAP } from '../caps/caps.ts';
import { type CommandCall, type CommandOutcome, columns, UsageError, unknownAccount } from './command.ts';
import { withStore } from './store.ts';

const MAX_NAME_LENGTH = 200;

function shown(account: Account) {
  return {
    accountId: account.id,
    name: account.name,
    plan: account.plan,
    status: account.status,
    approvedEmailBytes: account.approvedEmailBytes,
    limits: capsOf(account.limits),
    createdAt: new Date(account.createdAt).toISOString(),
  };
}

function asText(account: Account): string {
  const { limits, ...rest } = shown(account);
  const caps = Object.entries(limits).map(([name, most]) => [`limits.${name}`, most]);
  return columns({ ...rest, ...Object.fromEntries(caps) });
}

export async function create(call: CommandCall<{ name: string; plan: Plan }>): Promise<CommandOutcome> {
  const name = call.options.name.trim();
  if (name === '' || name.length > MAX_NAME_LENGTH || /\p{Cc}/u.test(name)) {
    throw new UsageError(`--name must be 1 to ${MAX_NAME_LENGTH} characters without control characters`);
  }
  const made = await withStore(call, (store) => createAccount(store, { name, plan: call.options.plan }));
  const data = { accountId: made.account.id, apiKey: made.apiKey, sandboxApiKey: made.sandboxApiKey };
  return { data, text: `${columns(data)}\nThe keys are not shown again.` };
}

export async function list(call: CommandCall): Promise<CommandOutcome> {
  const accounts = await withStore(call, (store) => store.database.execute(accountsOperation, null));
  const text = accounts.map((one) => `${one.id}  ${one.plan.padEnd(10)}  ${one.status.padEnd(9)}  ${one.name}`);
  return { data: { accounts: accounts.map(shown) }, text: text.join('\n') || 'no accounts' };
}

export async function show(call: CommandCall): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const account = await withStore(call, (store) => store.database.execute(accountOperation, id));
  if (!account) throw unknownAccount(id);
  return { data: { ...shown(account), settings: account.settings }, text: asText(account) };
}

interface SetOptions {
  plan?: Plan;
  status?: AccountStatus;
  emailLimit?: string;
  limit?: string[];
}

export async function set(call: CommandCall<SetOptions>): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const { plan = null, status = null, emailLimit, limit = [] } = call.options;
  if (plan === null && status === null && emailLimit === undefined && limit.length === 0) {
    throw new UsageError('give at least one of --plan, --email-limit, --status, --limit');
  }
  const change = { id, plan, status, approvedEmailBytes: emailBytes(emailLimit), limits: capsAsked(limit) };
  const account = await withStore(call, (store) =>
    store.database.execute(setAccountOperation, { ...change, nowMs: store.clock.now() }),
  );
  if (!account) throw unknownAccount(id);
  return { data: shown(account), text: asText(account) };
}

function emailBytes(text: string | undefined): number | null {
  if (text === undefined) return null;
  const bytes = Number(text);
  if (/^\d+$/.test(text) && bytes >= STANDARD_EMAIL_BYTES && bytes <= MAXIMUM_EMAIL_BYTES) return bytes;
  throw new UsageError(
    `--email-limit must be a number of bytes from ${STANDARD_EMAIL_BYTES} to ${MAXIMUM_EMAIL_BYTES}`,
  );
}

/** `webhooks=500`, `webhooks=standard`. */
function capsAsked(asked: string[]): NonNullable<AccountChange['limits']> {
  const limits: NonNullable<AccountChange['limits']> = {};
  for (const one of asked) {
    const [, name, value = ''] = /^(\w+)=(\d{1,7}|standard)$/.exec(one) ?? [];
    const cap = CAP_NAMES.find((known) => known === name);
    if (cap === undefined || Number(value) > HIGHEST_CAP) {
      throw new UsageError(
        `--limit must be NAME=NUMBER (at most ${HIGHEST_CAP}) or NAME=standard, with a name of ${CAP_NAMES.join(', ')}`,
      );
    }
    limits[cap] = value === 'standard' ? null : Number(value);
  }
  return limits;
}
