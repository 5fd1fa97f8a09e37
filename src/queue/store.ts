/** The operation of the queue as a whole: what the only serving process of a store does at its start. */
import { operation } from '../storage/operation.ts';
import { recover } from './queue.ts';

/** Takes over the leases of a process that ended without giving them back; answers how many rows. */
export const recoverOperation = operation('queue.recover', 'write', (tx, nowMs: number) => recover(tx, nowMs));
