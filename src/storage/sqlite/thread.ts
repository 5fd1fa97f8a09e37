/**
 * The thread that owns one SQLite connection: the writer, or a reader. It takes batches of operations from the
 * serving thread and answers each batch once; what becomes of a batch stands in groups.ts.
 */
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../../base/collector.ts';
import type { OperationMode } from '../operation.ts';
import { openSqlite } from './connection.ts';
import { createGroupRunner, type OperationAnswer, type ThreadAnswer, type ThreadRequest } from './groups.ts';

export interface ThreadSetup {
  file: string;
  mode: OperationMode;
  /** URL of the module that imports every store, so that all operations are registered here too. */
  operationsModule: string;
}

/** What loading left in this thread, 4 MB each; the threads of a process not at the same moment. */
const COLLECT_AFTER_MS = { write: 500, read: 700, search: 900 };

type Message = ThreadRequest | 'close' | 'checkpoint';

const port = parentPort;
if (!port) throw new Error('sqlite/thread.ts runs as a worker thread only');
const setup = workerData as ThreadSetup;
await import(setup.operationsModule);
const connection = openSqlite(setup.file, { readOnly: setup.mode !== 'write' });
const groups = createGroupRunner({ connection, mode: setup.mode, file: setup.file });

// One group after the other, also should an operation wait for something: the next would begin within its transaction.
let last: Promise<void> = Promise.resolve();
port.on('message', (message: Message) => {
  last = last.then(() => handle(port, message));
});
port.postMessage('open');
setTimeout(collectGarbage, COLLECT_AFTER_MS[setup.mode]).unref();

async function handle(port: MessagePort, message: Message): Promise<void> {
  if (message === 'close') {
    connection.close();
    port.close();
    return;
  }
  if (message === 'checkpoint') {
    groups.moveLog();
    return;
  }
  const answer = await groups.answerTo(message);
  const busy = 'answers' in answer && answer.answers.find((one) => 'error' in one && one.kind === 'busy');
  // Taken before the answer is sent: what is sent after it did not wait for the lock.
  const late = busy ? waitingAt(port) : [];
  port.postMessage(answer);
  if (busy) await refuse(port, late, busy);
}

function waitingAt(port: MessagePort): Message[] {
  const waiting: Message[] = [];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    waiting.push(next.message as Message);
  }
  return waiting;
}

/** Who came while the lock was waited for has waited as long; another round would double it for them. */
async function refuse(port: MessagePort, late: readonly Message[], busy: OperationAnswer): Promise<void> {
  for (const message of late) {
    if (typeof message === 'string') await handle(port, message);
    else port.postMessage({ answers: message.calls.map(() => busy) } satisfies ThreadAnswer);
  }
}
