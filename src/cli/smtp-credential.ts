/** `postrider smtp-credential create`. */
import { createSmtpCredential } from '../accounts/accounts.ts';
import { type Command, choice, columns, several, successOf } from './command.ts';
import { MODES } from './key.ts';
import { withStore } from './store.ts';

const create: Command = {
  words: 'smtp-credential create',
  usage: 'ACCOUNTID [--mode live|sandbox] [--allowed-sender X …]',
  summary: 'make an SMTP credential (live unless told)',
  options: { mode: { type: 'string' }, 'allowed-sender': { type: 'string', multiple: true } },
  positionals: ['ACCOUNTID'],
  run: async ({ config, clock, options, positionals: [accountId = ''] }) => {
    const mode = choice(options, 'mode', MODES) ?? 'live';
    const allowedSenders = several(options, 'allowed-sender');
    const made = await withStore({ config, clock }, (store) =>
      createSmtpCredential(store, { accountId, mode, allowedSenders }),
    );
    const { smtpCredentialId, username, password } = successOf(
      made,
      `there is no account ${accountId}; see postrider account list`,
    );
    const data = { smtpCredentialId, username, password };
    return { data, text: `${columns(Object.entries(data))}\nThe password is not shown again.` };
  },
};

export const smtpCredentialCommands: Command[] = [create];
