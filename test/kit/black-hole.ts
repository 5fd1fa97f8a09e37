/** An address that never answers: a listener that never accepts. Once its queue is full, the kernel ignores further SYNs. */
import net from 'node:net';
import { Worker } from 'node:worker_threads';
import { waitUntil } from './wait-until.ts';

const LISTENER = `const { workerData, parentPort } = require('node:worker_threads');
  require('node:net').createServer().listen({ ...workerData, backlog: 1 }, () => {
    parentPort.postMessage('listening');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 120000);
  });`;

/** False if this is possible here, otherwise the reason for `{ skip }`. */
export const noBlackHoles: string | false =
  process.platform !== 'linux' && 'other kernels answer a SYN for which they have no room';

/** Resolves when no connection gets through any more; `close()` frees the port. */
export async function blackHole(host: string, port: number): Promise<{ close(): Promise<void> }> {
  const listener = new Worker(LISTENER, { eval: true, workerData: { host, port } });
  await new Promise((resolve) => listener.once('message', resolve));
  const fillers = Array.from({ length: 4 }, () => net.connect(port, host).on('error', () => {}));
  await waitUntil('the accept queue to be full', () => fillers.filter((one) => !one.connecting).length >= 2);
  return {
    close: async () => {
      for (const filler of fillers) filler.destroy();
      await listener.terminate();
    },
  };
}
