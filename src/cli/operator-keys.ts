/** Implements `postrider operator-key`: keys of the operator API, which are displayed once, when they are created. */
import { OPERATOR_SCOPES, type OperatorScope } from '../http/operator-key.ts';
import { isIsoTime, isoTimeMs } from '../http/validate.ts';
import {
  createOperatorKey,
  type OperatorKey,
  operatorKeyBody,
  operatorKeysOperation,
  revokeOperatorKeyOperation,
} from '../operator/operator.ts';
import { type CommandCall, type CommandOutcome, columns, credentialOf, notFound, UsageError } from './command.ts';
import { readPages, withStore } from './store.ts';

const MAX_NAME_LENGTH = 200;
const DAY_MS = 86_400_000;

interface OperatorKeyOptions {
  name: string;
  scope: string[];
  expires?: string;
  network?: string[];
}

function scopesOf(texts: readonly string[]): OperatorScope[] {
  return texts.map((text) => {
    const scope = OPERATOR_SCOPES.find((known) => known === text);
    if (scope !== undefined) return scope;
    throw new UsageError(`--scope=${JSON.stringify(text)} is not valid: use ${OPERATOR_SCOPES.join(' or ')}`);
  });
}

/** Parses values such as `90d` and `2027-01-31T00:00:00Z` into Unix ms. */
function expiryOf(text: string | undefined, nowMs: number): number | null {
  if (text === undefined) return null;
  const days = /^([1-9]\d{0,4})d$/.exec(text)?.[1];
  const expiresAt = days === undefined ? isoTimeMs(text) : nowMs + Number(days) * DAY_MS;
  if (expiresAt > nowMs) return expiresAt;
  const problem = isIsoTime(text) ? 'is in the past' : 'is not valid';
  throw new UsageError(
    `--expires=${JSON.stringify(text)} ${problem}: use a future time such as 2027-01-31T00:00:00Z, or days such as 90d`,
  );
}

export async function makeOperatorKey(call: CommandCall<OperatorKeyOptions>): Promise<CommandOutcome> {
  const { expires, network: allowedNetworks } = call.options;
  const name = call.options.name.trim();
  if (name === '' || name.length > MAX_NAME_LENGTH || /\p{Cc}/u.test(name)) {
    throw new UsageError(`--name must have 1 to ${MAX_NAME_LENGTH} characters and no control characters`);
  }
  const scopes = scopesOf(call.options.scope);
  const created = await withStore(call, (store) =>
    createOperatorKey(store, { name, scopes, allowedNetworks, expiresAt: expiryOf(expires, store.clock.now()) }),
  );
  const { key, operatorKey } = credentialOf(created);
  const data = { operatorKeyId: key.id, operatorKey };
  return { data, text: `${columns(data)}\nStore the key now: it cannot be displayed again.` };
}

function keyLine(key: OperatorKey): string {
  const { operatorKeyId, scopes, allowedNetworks, expiresAt, name } = operatorKeyBody(key);
  const networks = allowedNetworks.length === 0 ? 'any address' : allowedNetworks.join(',');
  return `${operatorKeyId}  ${scopes.join(',').padEnd(10)}  ${(expiresAt ?? 'never expires').padEnd(24)}  ${networks}  ${name}`;
}

export async function listOperatorKeys(call: CommandCall): Promise<CommandOutcome> {
  const keys = await withStore(call, ({ database }) =>
    readPages((page) => database.execute(operatorKeysOperation, page)),
  );
  return {
    data: { operatorKeys: keys.map(operatorKeyBody) },
    text: keys.map(keyLine).join('\n') || 'no operator keys',
  };
}

export async function revokeOperatorKey(call: CommandCall): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const isRevoked = await withStore(call, (store) =>
    store.database.execute(revokeOperatorKeyOperation, { id, nowMs: store.clock.now() }),
  );
  if (!isRevoked) throw notFound(`there is no active operator key ${id}; see postrider operator-key list`);
  return { data: { operatorKeyId: id, status: 'revoked' }, text: `${id} is revoked` };
}
