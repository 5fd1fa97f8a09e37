/** `postrider key create | revoke`. */
import { createKey, revokeKeyOperation } from '../accounts/accounts.ts';
import { type Command, CommandError, choice, columns, several, successOf } from './command.ts';
import { withStore } from './store.ts';

export const MODES = ['live', 'sandbox'] as const;
const SCOPES = ['send', 'full'] as const;

const create: Command = {
  words: 'key create',
  usage: 'ACCOUNTID [--mode live|sandbox] [--scope send|full] [--allowed-sender X …]',
  summary: 'make an API key (live and of full scope unless told)',
  options: {
    mode: { type: 'string' },
    scope: { type: 'string' },
    'allowed-sender': { type: 'string', multiple: true },
  },
  positionals: ['ACCOUNTID'],
  run: async ({ config, clock, options, positionals: [accountId = ''] }) => {
    const mode = choice(options, 'mode', MODES) ?? 'live';
    const scope = choice(options, 'scope', SCOPES) ?? 'full';
    const made = await withStore({ config, clock }, (store) =>
      createKey(store, { accountId, mode, scope, name: null, allowedSenders: several(options, 'allowed-sender') }),
    );
    const { keyId, apiKey } = successOf(made, `there is no account ${accountId}; see postrider account list`);
    return {
      data: { keyId, apiKey },
      text: `${columns([
        ['keyId', keyId],
        ['apiKey', apiKey],
      ])}\nThe key is not shown again.`,
    };
  },
};

const revoke: Command = {
  words: 'key revoke',
  usage: 'KEYID',
  summary: 'revoke an API key; refused by a running service within a second',
  options: {},
  positionals: ['KEYID'],
  run: async ({ config, clock, positionals: [id = ''] }) => {
    const revoked = await withStore({ config, clock }, (store) =>
      store.database.execute(revokeKeyOperation, { id, accountId: null, mode: null, nowMs: store.clock.now() }),
    );
    if (revoked !== 'revoked') throw new CommandError('NOT_FOUND', `there is no key ${id} in force`);
    return { data: { keyId: id, status: 'revoked' }, text: `${id} is revoked` };
  },
};

export const keyCommands: Command[] = [create, revoke];
