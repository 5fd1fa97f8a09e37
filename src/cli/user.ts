/** `postrider user create | reset-password`. */
import { createUser, resetPassword } from '../accounts/accounts.ts';
import { parseAddress } from '../mail/address.ts';
import { type Command, columns, type OptionValues, required, successOf, UsageError } from './command.ts';
import { withStore } from './store.ts';

function emailOf(options: OptionValues): string {
  const text = required(options, 'email');
  // The first run's operator has an address without a dot in its domain.
  if (text === 'operator@localhost') return text;
  const address = parseAddress(text);
  if (!address.ok || address.value.name !== '') {
    throw new UsageError(`--email ${address.ok ? 'must be a bare address' : address.reason}`);
  }
  return address.value.address;
}

const create: Command = {
  words: 'user create',
  usage: '--email E [--operator]',
  summary: 'make a user with a generated password',
  options: { email: { type: 'string' }, operator: { type: 'boolean' } },
  positionals: [],
  run: async ({ config, clock, options }) => {
    const wish = { email: emailOf(options), isOperator: options.operator === true };
    const made = successOf(await withStore({ config, clock }, (store) => createUser(store, wish)));
    const data = { ...made, operator: wish.isOperator };
    return { data, text: `${columns(Object.entries(data))}\nThe password is not shown again.` };
  },
};

const reset: Command = {
  words: 'user reset-password',
  usage: '--email E',
  summary: 'give a user a new generated password',
  options: { email: { type: 'string' } },
  positionals: [],
  run: async ({ config, clock, options }) => {
    const email = emailOf(options);
    const changed = await withStore({ config, clock }, (store) => resetPassword(store, email));
    const data = { ...successOf(changed, `there is no user ${email}`) };
    return { data, text: `${columns(Object.entries(data))}\nThe password is not shown again.` };
  },
};

export const userCommands: Command[] = [create, reset];
