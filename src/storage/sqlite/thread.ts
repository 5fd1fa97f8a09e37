/**
 * The thread that owns one SQLite connection: the writer or a reader. It receives batches of operations from the serving thread and returns
 * each batch once; groups.ts runs them.
 */
import { flushCompileCache } from 'node:module';
import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../../base/collector.ts';
import type { OperationMode } from '../operation.ts';
import { openSqlite } from './connection.ts';
import { createGroupRunner, type OperationAnswer, type ThreadAnswer, type ThreadRequest } from './groups.ts';

export interface ThreadSetup {
  file: string;
  mode: OperationMode;
  /** URL of the module that imports every store, so that all operations are registered in this thread. */
  operationsModule: string;
}

/** When to collect the garbage of loading, 4 MB per thread (see roles/serve.ts). The threads of a process do so at different times. */
const COLLECT_AFTER_MS = { write: 10_500, read: 11_000, search: 11_500 };
/** When to write the compiled code: a thread whose process is killed would leave none. */
const FLUSH_AFTER_MS = 500;

type Message = ThreadRequest | 'close' | 'checkpoint';

const port = parentPort;
if (!port) throw new Error('sqlite/thread.ts runs as a worker thread only');
const setup = workerData as ThreadSetup;
await import(setup.operationsModule);
const connection = openSqlite(setup.file, { readOnly: setup.mode !== 'write' });
const groups = createGroupRunner({ connection, mode: setup.mode, file: setup.file });

// One group after the other, even if an operation awaits something: the next would start within its transaction.
let last: Promise<void> = Promise.resolve();
port.on('message', (message: Message) => {
  last = last.then(() => handle(port, message));
});
port.postMessage('open');
setTimeout(flushCompileCache, FLUSH_AFTER_MS).unref();
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
  // Read before the response is sent: later messages did not wait for the lock.
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

/** Operations that came during the wait for the lock have waited as long, so they are refused too. */
async function refuse(port: MessagePort, late: readonly Message[], busy: OperationAnswer): Promise<void> {
  for (const message of late) {
    if (typeof message === 'string') await handle(port, message);
    else port.postMessage({ answers: message.calls.map(() => busy) } satisfies ThreadAnswer);
  }
}
