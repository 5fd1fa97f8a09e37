/** `postrider user create | reset-password`. */
import { createUser, resetPassword } from '../accounts/accounts.ts';
import { parseAddress } from '../mail/address.ts';
import { type CommandCall, type CommandOutcome, columns, notFound, successOf, UsageError } from './command.ts';
import { withStore } from './store.ts';

function bareAddress(text: string): string {
  // The first run's operator has an address without a dot in its domain.
  if (text === 'operator@localhost') return text;
  const address = parseAddress(text);
  if (!address.ok || address.value.name !== '') {
    throw new UsageError(`--email ${address.ok ? 'must be a bare address' : address.reason}`);
  }
  return address.value.address;
}

export async function create(call: CommandCall<{ email: string; operator?: boolean }>): Promise<CommandOutcome> {
  const user = { email: bareAddress(call.options.email), isOperator: call.options.operator === true };
  const made = successOf(await withStore(call, (store) => createUser(store, user)));
  const data = { ...made, operator: user.isOperator };
  return { data, text: `${columns(data)}\nThe password is not shown again.` };
}

export async function reset(call: CommandCall<{ email: string }>): Promise<CommandOutcome> {
  const email = bareAddress(call.options.email);
  const changed = await withStore(call, (store) => resetPassword(store, email));
  const data = { ...successOf(changed, notFound(`there is no user ${email}`)) };
  return { data, text: `${columns(data)}\nThe password is not shown again.` };
}
