/** The thread of checkpoint.ts: it responds to each message with one pass over the write-ahead log. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Failed } from './checkpoint.ts';
import { openSqlite } from './connection.ts';
import { describeStorageError, isStorageError } from './errors.ts';

const { file } = workerData as { file: string };
const connection = openSqlite(file, { readOnly: false });
parentPort!.on('message', () => {
  try {
    connection.raw.exec('PRAGMA wal_checkpoint(PASSIVE)');
    parentPort!.postMessage(true);
  } catch (error) {
    const failed: Failed = { error: describeStorageError(error, file), isBroken: isStorageError(error) };
    parentPort!.postMessage(failed);
  }
});
