/**
 * `postrider login`: keeps address, account and key of an API for the commands that call it, after the API has taken them. The
 * file is in $XDG_CONFIG_HOME/postrider (~/.config unless set), readable for its owner alone; removing it is the way out.
 */
import { apiClient } from './api-client.ts';
import { keepPlace, placeToKeep } from './api-place.ts';
import { type Command, CommandError } from './command.ts';

export const loginCommand: Command = {
  words: 'login',
  usage: '--id ID --key KEY [--url URL] [--profile N]',
  summary: 'keep address, account and key of an API for send and listen (or from POSTRIDER_URL, _ID, _KEY)',
  options: {
    url: { type: 'string' },
    id: { type: 'string' },
    key: { type: 'string' },
    profile: { type: 'string' },
  },
  positionals: [],
  run: async (call) => {
    const place = placeToKeep(call);
    // A key that may only send is refused here with 403, and is a good key all the same.
    const answer = await apiClient(place).call({ method: 'GET', path: '/account' });
    const { error } = answer.body as { error?: { code?: string; message?: string } };
    if (answer.status !== 200 && error?.code !== 'FORBIDDEN') {
      throw new CommandError(error?.code ?? 'REFUSED', `${place.base} refuses: ${error?.message ?? answer.status}`);
    }
    const file = keepPlace(call, place);
    const data = { url: place.base, accountId: place.accountId, file };
    return { data, text: `Kept in ${file}. send and listen use it from now on.` };
  },
};
