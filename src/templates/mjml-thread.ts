/**
 * Compiles one MJML source in a thread of its own. A source that is nested too deeply corrupts the memory of the compiler (WebAssembly), so
 * no compiler is used after a failure.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { Engine } from 'mrml';

parentPort!.postMessage(new Engine().toHtml(workerData as string));
