/**
 * Compiles one MJML source in a thread of its own. A source that is nested too deeply corrupts the memory of the compiler (WebAssembly), so
 * no compiler is used after a failure. Html that is too long is not sent to the serving thread.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { Engine, type ToHtmlResult } from 'mrml';

const { source, maxLength } = workerData as { source: string; maxLength: number };
const result: ToHtmlResult = new Engine().toHtml(source);
const isTooLong = result.type === 'success' && result.content.length > maxLength;
parentPort!.postMessage(isTooLong ? 'too-long' : result);
