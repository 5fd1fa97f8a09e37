/** `postrider key create | revoke` and `postrider smtp-credential create`. */
import { createKey, createSmtpCredential, revokeKeyOperation, type Scope } from '../accounts/accounts.ts';
import type { Mode } from '../base/mode.ts';
import { type CommandCall, type CommandOutcome, columns, notFound, successOf, unknownAccount } from './command.ts';
import { withStore } from './store.ts';

interface CredentialOptions {
  mode: Mode;
  allowedSender?: string[];
}

export async function makeKey(call: CommandCall<CredentialOptions & { scope: Scope }>): Promise<CommandOutcome> {
  const [accountId = ''] = call.args;
  const { mode, scope, allowedSender: allowedSenders = [] } = call.options;
  const made = await withStore(call, (store) =>
    createKey(store, { accountId, mode, scope, name: null, allowedSenders }),
  );
  const { keyId, apiKey } = successOf(made, unknownAccount(accountId));
  return { data: { keyId, apiKey }, text: `${columns({ keyId, apiKey })}\nThe key is not shown again.` };
}

export async function revokeKey(call: CommandCall): Promise<CommandOutcome> {
  const [id = ''] = call.args;
  const revoked = await withStore(call, (store) =>
    store.database.execute(revokeKeyOperation, { id, accountId: null, mode: null, nowMs: store.clock.now() }),
  );
  if (revoked !== 'revoked') throw notFound(`there is no key ${id} in force`);
  return { data: { keyId: id, status: 'revoked' }, text: `${id} is revoked` };
}

export async function makeSmtpCredential(call: CommandCall<CredentialOptions>): Promise<CommandOutcome> {
  const [accountId = ''] = call.args;
  const { mode, allowedSender: allowedSenders = [] } = call.options;
  const made = await withStore(call, (store) => createSmtpCredential(store, { accountId, mode, allowedSenders }));
  const { smtpCredentialId, username, password } = successOf(made, unknownAccount(accountId));
  const data = { smtpCredentialId, username, password };
  return { data, text: `${columns(data)}\nThe password is not shown again.` };
}
