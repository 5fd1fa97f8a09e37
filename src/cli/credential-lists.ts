/** Implements `postrider key list` and `postrider smtp-credential list`: the active keys and credentials of an account, newest first. */
import { accountOperation, credentialsOperation, keyPrefix, keysOperation } from '../accounts/accounts.ts';
import { iso, isoOrNull } from '../base/clock.ts';
import { type CommandCall, type CommandOutcome, unknownAccount } from './command.ts';
import { type CommandStore, type Page, readPages, withStore } from './store.ts';

interface Listed {
  id: string;
  createdAt: number;
  expiresAt: number | null;
  lastUsedAt: number | null;
  lastUsedAddress: string | null;
}

/** Reads all keys or credentials of the account in the arguments; throws if it does not exist. */
async function readAll<T extends Listed>(
  call: CommandCall,
  read: (store: CommandStore, page: Page & { accountId: string }) => Promise<T[]>,
): Promise<T[]> {
  const [accountId = ''] = call.args;
  return withStore(call, async (store) => {
    if (!(await store.database.execute(accountOperation, accountId))) throw unknownAccount(accountId);
    return readPages((page) => read(store, { ...page, accountId }));
  });
}

function timesOf({ expiresAt, createdAt, lastUsedAt, lastUsedAddress }: Listed) {
  return {
    expiresAt: isoOrNull(expiresAt),
    createdAt: iso(createdAt),
    lastUsedAt: isoOrNull(lastUsedAt),
    lastUsedAddress,
  };
}

function usedText({ lastUsedAt, lastUsedAddress }: Listed): string {
  return lastUsedAt === null ? 'never used' : `last used ${iso(lastUsedAt)} from ${lastUsedAddress}`;
}

export async function listKeys(call: CommandCall): Promise<CommandOutcome> {
  const keys = await readAll(call, (store, page) => store.database.execute(keysOperation, page));
  const views = keys.map((key) => ({
    keyId: key.id,
    prefix: key.accessKeyId ?? keyPrefix(key.mode, key.id),
    ...(key.accessKeyId !== null && { kind: 'sigv4', accessKeyId: key.accessKeyId }),
    mode: key.mode,
    scope: key.scope,
    name: key.name,
    allowedSenders: key.allowedSenders,
    allowedNetworks: key.allowedNetworks,
    ...timesOf(key),
  }));
  const lines = keys.map((key) => {
    const name = key.name === null ? '' : `  ${JSON.stringify(key.name)}`;
    return `${key.id}  ${key.mode.padEnd(7)}  ${key.scope}  ${usedText(key)}${name}`;
  });
  return { data: { keys: views }, text: lines.join('\n') || 'no keys' };
}

export async function listSmtpCredentials(call: CommandCall): Promise<CommandOutcome> {
  const credentials = await readAll(call, (store, page) => store.database.execute(credentialsOperation, page));
  const views = credentials.map((one) => ({
    smtpCredentialId: one.id,
    username: one.username,
    mode: one.mode,
    allowedSenders: one.allowedSenders,
    allowedNetworks: one.allowedNetworks,
    deliveryReports: one.deliveryReports,
    ...timesOf(one),
  }));
  const lines = credentials.map((one) => `${one.id}  ${one.mode.padEnd(7)}  ${usedText(one)}`);
  return { data: { smtpCredentials: views }, text: lines.join('\n') || 'no SMTP credentials' };
}
