/**
 * `postrider login`: keeps address, account and key of an API for the commands that call it, after the API has taken them. The
 * file is in $XDG_CONFIG_HOME/postrider (~/.config unless set), readable for its owner alone; removing it is the way out.
 */
import { apiClient } from './api-client.ts';
import { type ApiOptions, keepTarget, targetToKeep } from './api-target.ts';
import { type CommandCall, CommandError, type CommandOutcome } from './command.ts';

export async function login(call: CommandCall<ApiOptions>): Promise<CommandOutcome> {
  const target = targetToKeep(call);
  // A key that may only send is refused here with 403, and is a good key all the same.
  const answer = await apiClient(target).call({ method: 'GET', path: '/account' });
  const { error } = answer.body as { error?: { code?: string; message?: string } };
  if (answer.status !== 200 && error?.code !== 'FORBIDDEN') {
    throw new CommandError(error?.code ?? 'REFUSED', `${target.base} refuses: ${error?.message ?? answer.status}`);
  }
  const file = keepTarget(call, target);
  const data = { url: target.base, accountId: target.accountId, file };
  return { data, text: `Kept in ${file}. send and listen use it from now on.` };
}
