/** `postrider queue status | retry | cancel`. */
import { messageHolderOperation } from '../accounts/accounts.ts';
import { newId } from '../base/ids.ts';
import {
  cancelMessageOperation,
  findQueuedOperation,
  type QueuedMessage,
  queueStatusOperation,
  retryOperation,
} from '../messages/messages.ts';
import { type Command, type CommandCall, CommandError, columns } from './command.ts';
import { type CommandStore, withStore } from './store.ts';

const status: Command = {
  words: 'queue status',
  usage: '',
  summary: 'how many messages wait, and since when',
  options: {},
  positionals: [],
  run: async ({ config, clock }) => {
    const { oldestDueMs, ...counts } = await withStore({ config, clock }, (store) =>
      store.database.execute(queueStatusOperation, store.clock.now()),
    );
    const oldestDueAt = oldestDueMs === null ? null : new Date(oldestDueMs).toISOString();
    const data = { ...counts, oldestDueAt };
    return { data, text: columns(Object.entries(data)) };
  },
};

function withQueued<T>(
  { config, clock, positionals: [id = ''] }: CommandCall,
  use: (store: CommandStore, message: QueuedMessage) => Promise<T>,
): Promise<T> {
  return withStore({ config, clock }, async (store) => {
    const message = await store.database.execute(findQueuedOperation, id);
    if (!message) throw new CommandError('NOT_FOUND', `there is no message ${id} in the queue`);
    return use(store, message);
  });
}

const sending = (id: string): CommandError =>
  new CommandError('CONFLICT', `${id} is being sent at this moment; try again when that is over`);

const retry: Command = {
  words: 'queue retry',
  usage: 'MESSAGEID',
  summary: 'try a waiting message now',
  options: {},
  positionals: ['MESSAGEID'],
  run: async (call) => {
    const messageId = call.positionals[0] ?? '';
    const outcome = await withQueued(call, (store, message) =>
      store.database.execute(retryOperation, { ...message, nowMs: store.clock.now() }),
    );
    if (!outcome.retried && outcome.reason === 'sending') throw sending(messageId);
    if (!outcome.retried) throw new CommandError('NOT_FOUND', `there is no message ${messageId} in the queue`);
    return { data: { messageId, status: outcome.status }, text: `${messageId} is due now` };
  },
};

const cancel: Command = {
  words: 'queue cancel',
  usage: 'MESSAGEID',
  summary: 'take back a message that has not left',
  options: {},
  positionals: ['MESSAGEID'],
  run: async (call) => {
    const messageId = call.positionals[0] ?? '';
    await withStore({ config: call.config, clock: call.clock }, async (store) => {
      // A message that has left is in no queue any more, and its state is the reason that the operator wants to hear.
      const holder = await store.database.execute(messageHolderOperation, messageId);
      if (!holder) throw new CommandError('NOT_FOUND', `there is no message ${messageId}`);
      const nowMs = store.clock.now();
      const args = { ...holder, messageId, nowMs, eventId: newId('evt', nowMs) };
      const outcome = await store.database.execute(cancelMessageOperation, args);
      if (outcome.changed) {
        for (const key of outcome.blobKeys) await store.blobs.remove(key);
      } else if (outcome.reason === 'not-found') {
        throw new CommandError('NOT_FOUND', `there is no message ${messageId}`);
      } else if (outcome.status === 'sending') throw sending(messageId);
      else throw new CommandError('CONFLICT', `${messageId} is ${outcome.status} and can no longer be cancelled`);
    });
    return { data: { messageId, status: 'cancelled' }, text: `${messageId} is cancelled` };
  },
};

export const queueCommands: Command[] = [status, retry, cancel];
