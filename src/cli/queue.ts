/** Implements `postrider queue status | retry | cancel`. */
import { messageHolderOperation } from '../accounts/accounts.ts';
import { newId } from '../base/ids.ts';
import {
  cancelMessageOperation,
  findQueuedOperation,
  queueStatusOperation,
  retryOperation,
} from '../messages/messages.ts';
import { type NodeState, nodesOperation } from '../nodes/nodes.ts';
import { type DestinationView, destinationBody, lastRepliesOf, readDestinations } from '../operator/operator.ts';
import { removeBlobs } from '../storage/blobs/remove.ts';
import type { Database } from '../storage/database.ts';
import { type CommandCall, CommandError, type CommandOutcome, columns, notFound } from './command.ts';
import { withStore } from './store.ts';

const DESTINATIONS_SHOWN = 10;

export async function status(call: CommandCall): Promise<CommandOutcome> {
  const [requested] = call.args;
  const isRelayed = call.config.route.kind !== 'mx';
  const { oldestDueMs, shown, replies, ...counts } = await withStore(call, async ({ database, clock }) => {
    const all = await destinationsIn(database, { isRelayed });
    const shown =
      requested === undefined ? all.slice(0, DESTINATIONS_SHOWN) : all.filter((one) => isRequested(one, requested));
    const replies = await lastRepliesOf(database, shown);
    return { ...(await database.execute(queueStatusOperation, clock.now())), shown, replies };
  });
  if (requested !== undefined && shown.length === 0) {
    throw notFound(`${requested} has no queued mail and is not paused; see postrider queue status`);
  }
  const bodies = shown.map((one) => destinationBody(one, replies));
  const destinations = bodies.map(({ destinationId, depth, pausedUntil, explanation }) => ({
    destinationId,
    waiting: depth,
    pausedUntil,
    explanation,
  }));
  const oldestDueAt = oldestDueMs === null ? null : new Date(oldestDueMs).toISOString();
  const figures = { ...counts, oldestDueAt };
  const explained = destinations.map(({ destinationId, explanation }) => `\n\n${destinationId}\n  ${explanation}`);
  return { data: { ...figures, destinations }, text: `${columns(figures)}${explained.join('')}` };
}

/** Returns the destinations in the order of the API: paused ones first, then by queued messages. */
async function destinationsIn(database: Database, options: { isRelayed: boolean }): Promise<DestinationView[]> {
  const nodes = await database.execute(nodesOperation, null);
  const published = nodes.map((node) => ({
    ...node,
    roles: node.roles.split(','),
    state: JSON.parse(node.state) as NodeState,
  }));
  return readDestinations(database, published, options);
}

/** Matches a destination by its name, or by a domain that belongs to it. */
function isRequested({ key, domains }: DestinationView, requested: string): boolean {
  return key === requested.toLowerCase() || domains.includes(requested.toLowerCase());
}

const sending = (id: string): CommandError =>
  new CommandError('CONFLICT', `${id} is being sent right now; try again in a moment`);

export async function retry(call: CommandCall): Promise<CommandOutcome> {
  const [messageId = ''] = call.args;
  const notQueued = notFound(`there is no message ${messageId} in the queue`);
  const { outcome, clientAddress } = await withStore(call, async ({ database, clock }) => {
    const message = await database.execute(findQueuedOperation, messageId);
    if (!message) throw notQueued;
    const outcome = await database.execute(retryOperation, { ...message, nowMs: clock.now() });
    return { outcome, clientAddress: message.clientAddress };
  });
  if (outcome.retried) {
    const from = clientAddress === null ? '' : `; it was submitted from ${clientAddress}`;
    return { data: { messageId, status: outcome.status }, text: `${messageId} is due now${from}` };
  }
  throw outcome.reason === 'sending' ? sending(messageId) : notQueued;
}

export async function cancel(call: CommandCall): Promise<CommandOutcome> {
  const [messageId = ''] = call.args;
  const unknown = notFound(`there is no message ${messageId}`);
  await withStore(call, async ({ database, blobs, clock }) => {
    // A finished message is in no queue, so its status is reported instead.
    const holder = await database.execute(messageHolderOperation, messageId);
    if (!holder) throw unknown;
    const nowMs = clock.now();
    const outcome = await database.execute(cancelMessageOperation, {
      ...holder,
      messageId,
      nowMs,
      eventId: newId('evt', nowMs),
    });
    if (outcome.changed) {
      await removeBlobs({ blobs }, outcome.blobKeys);
      return;
    }
    if (outcome.reason === 'not-found') throw unknown;
    if (outcome.status === 'sending') throw sending(messageId);
    if (outcome.status === 'cancelled') throw new CommandError('CONFLICT', `${messageId} is already cancelled`);
    throw new CommandError('CONFLICT', `${messageId} is ${outcome.status} and can no longer be cancelled`);
  });
  return { data: { messageId, status: 'cancelled' }, text: `${messageId} is cancelled` };
}
