/** `postrider account create | list | show | set`. */
import {
  type Account,
  type AccountChange,
  accountOperation,
  accountsOperation,
  createAccount,
  MAXIMUM_EMAIL_BYTES,
  STANDARD_EMAIL_BYTES,
  setAccountOperation,
} from '../accounts/accounts.ts';
import { CAP_NAMES, type Caps, capsOf, HIGHEST_CAP } from '../caps/caps.ts';
import { type Command, CommandError, choice, columns, optional, required, several, UsageError } from './command.ts';
import { withStore } from './store.ts';

const PLANS = ['free', 'paid', 'enterprise'] as const;
const STATUSES = ['active', 'suspended'] as const;
const MAX_NAME_LENGTH = 200;

function shown(account: Account): Record<string, unknown> {
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
  const caps = Object.entries(limits as Caps).map(([name, most]): [string, unknown] => [`limits.${name}`, most]);
  return columns([...Object.entries(rest), ...caps]);
}

function unknownAccount(id: string): CommandError {
  return new CommandError('NOT_FOUND', `there is no account ${id}; see postrider account list`);
}

const create: Command = {
  words: 'account create',
  usage: '--name N [--plan free|paid|enterprise]',
  summary: 'make an account with a live and a sandbox key (plan paid unless told)',
  options: { name: { type: 'string' }, plan: { type: 'string' } },
  positionals: [],
  run: async ({ config, clock, options }) => {
    const name = required(options, 'name').trim();
    const plan = choice(options, 'plan', PLANS) ?? 'paid';
    if (name === '' || name.length > MAX_NAME_LENGTH || /\p{Cc}/u.test(name)) {
      throw new UsageError(`--name must be 1 to ${MAX_NAME_LENGTH} characters without control characters`);
    }
    const made = await withStore({ config, clock }, (store) => createAccount(store, { name, plan }));
    const data = { accountId: made.account.id, apiKey: made.apiKey, sandboxApiKey: made.sandboxApiKey };
    return { data, text: `${columns(Object.entries(data))}\nThe keys are not shown again.` };
  },
};

const list: Command = {
  words: 'account list',
  usage: '',
  summary: 'all accounts, newest first',
  options: {},
  positionals: [],
  run: async ({ config, clock }) => {
    const accounts = await withStore({ config, clock }, (store) => store.database.execute(accountsOperation, null));
    const text = accounts.map((one) => `${one.id}  ${one.plan.padEnd(10)}  ${one.status.padEnd(9)}  ${one.name}`);
    return { data: { accounts: accounts.map(shown) }, text: text.join('\n') || 'no accounts' };
  },
};

const show: Command = {
  words: 'account show',
  usage: 'ID',
  summary: 'one account',
  options: {},
  positionals: ['ID'],
  run: async ({ config, clock, positionals: [id = ''] }) => {
    const account = await withStore({ config, clock }, (store) => store.database.execute(accountOperation, id));
    if (!account) throw unknownAccount(id);
    return { data: { ...shown(account), settings: account.settings }, text: asText(account) };
  },
};

const set: Command = {
  words: 'account set',
  usage: 'ID [--plan P] [--email-limit BYTES] [--status active|suspended] [--limit NAME=NUMBER …]',
  summary: 'change plan, approved email size, status or caps; felt by a running service within a second',
  options: {
    plan: { type: 'string' },
    'email-limit': { type: 'string' },
    status: { type: 'string' },
    limit: { type: 'string', multiple: true },
  },
  positionals: ['ID'],
  run: async ({ config, clock, options, positionals: [id = ''] }) => {
    const plan = choice(options, 'plan', PLANS) ?? null;
    const status = choice(options, 'status', STATUSES) ?? null;
    const limit = optional(options, 'email-limit');
    const approvedEmailBytes = limit === undefined ? null : Number(limit);
    const limits = capsAsked(several(options, 'limit'));
    if (plan === null && status === null && approvedEmailBytes === null && Object.keys(limits).length === 0) {
      throw new UsageError('give at least one of --plan, --email-limit, --status, --limit');
    }
    if (limit !== undefined && (!/^\d+$/.test(limit) || !isLimit(Number(limit)))) {
      throw new UsageError(
        `--email-limit must be a number of bytes from ${STANDARD_EMAIL_BYTES} to ${MAXIMUM_EMAIL_BYTES}`,
      );
    }
    const account = await withStore({ config, clock }, (store) =>
      store.database.execute(setAccountOperation, {
        ...{ id, plan, status, approvedEmailBytes, limits },
        nowMs: store.clock.now(),
      }),
    );
    if (!account) throw unknownAccount(id);
    return { data: shown(account), text: asText(account) };
  },
};

function isLimit(bytes: number): boolean {
  return bytes >= STANDARD_EMAIL_BYTES && bytes <= MAXIMUM_EMAIL_BYTES;
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

export const accountCommands: Command[] = [create, list, show, set];
