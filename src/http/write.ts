/**
 * Writes an answer to its socket. When it comes before the request's body is complete, a little more of the body is read and
 * thrown away for a moment, because closing a socket with unread bytes resets it, and the client would lose the answer.
 * Always true: so much of a refused body is read and no more, however long and however fast it comes.
 */
import { pipeline } from 'node:stream/promises';
import type { HttpAnswer } from './answer.ts';
import { headerList } from './answer.ts';
import type { Exchange } from './exchange.ts';

/** How long a client may go on sending a body that nobody wants. */
const LINGER_MS = 1_000;
/** How much of it is read in that time; then its socket is left unread, so that the client is held up. */
const DISCARD_BYTES = 1_000_000;

function hasBody(exchange: Exchange): boolean {
  const { headers } = exchange;
  return (headers['content-length'] ?? '0') !== '0' || headers['transfer-encoding'] !== undefined;
}

function discardBody(exchange: Exchange): void {
  const { request } = exchange;
  // A handler that gave up on a streamed body may have left its listener, which would keep the rest from flowing.
  request.removeAllListeners('readable');
  let leftBytes = DISCARD_BYTES;
  request.on('data', (chunk: Buffer) => {
    leftBytes -= chunk.length;
    if (leftBytes <= 0) request.pause();
  });
  request.resume();
}

/** Lets the parser deliver what has already arrived; true when the request is complete then. */
async function completed(exchange: Exchange): Promise<boolean> {
  const { request } = exchange;
  if (request.complete) return true;
  // A body of the usual size is in the same packet as its headers; one turn is enough to see its end.
  discardBody(exchange);
  await new Promise((resolve) => setImmediate(resolve));
  return request.complete && !request.isPaused();
}

function lingered(exchange: Exchange): Promise<void> {
  const { request } = exchange;
  if (exchange.broken !== undefined || exchange.waitsForContinue) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, LINGER_MS);
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    request.once('end', done);
    request.once('close', done);
  });
}

async function writeStream(exchange: Exchange, answer: HttpAnswer, list: string[]): Promise<void> {
  const { response } = exchange;
  const source = answer.content as Exclude<HttpAnswer['content'], string | Buffer>;
  response.writeHead(answer.status, list);
  if (exchange.request.method === 'HEAD') {
    source.destroy();
    response.end();
    return;
  }
  response.flushHeaders();
  try {
    await pipeline(source, response);
  } catch (error) {
    // Too late for another status: a broken stream must look broken, so the connection ends without the last chunk.
    if (!response.destroyed) exchange.log.error({ err: error }, 'an answer broke off');
    response.destroy();
  }
}

/** Resolves when nothing remains to be done for this exchange but what Node does with its bytes. */
export async function writeAnswer(exchange: Exchange, answer: HttpAnswer, draining: boolean): Promise<void> {
  const { request, response } = exchange;
  const { content } = answer;
  const early = !request.complete && hasBody(exchange) && !(await completed(exchange));
  if (response.destroyed || request.socket.destroyed) {
    if (typeof content === 'object' && 'destroy' in content) content.destroy();
    return;
  }
  const list = headerList(answer, exchange.requestId);
  if (exchange.extraHeaders !== undefined) {
    for (const [name, value] of Object.entries(exchange.extraHeaders)) list.push(name, value);
  }
  if (early || draining || exchange.mustClose) list.push('Connection', 'close');
  if (typeof content !== 'string' && !Buffer.isBuffer(content)) return writeStream(exchange, answer, list);
  const sizeBytes = typeof content === 'string' ? Buffer.byteLength(content) : content.length;
  if (answer.status !== 304) list.push('Content-Length', String(sizeBytes));
  response.writeHead(answer.status, list);
  if (!early) {
    // As many bytes as characters means ASCII, which needs no encoder on its way out.
    response.end(content, sizeBytes === content.length ? 'latin1' : 'utf8');
    return;
  }
  response.write(content);
  await lingered(exchange);
  response.end();
}
