/**
 * What goes wrong below the level of a request: bytes that are not HTTP, headers too many or too large, a client too slow, forms of
 * request that a proxy and we could read differently (RFC 9112 §3.2, §6.1, §11). All of it is answered in the one shape of
 * refusals, once, and ends the connection.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { failure, invalid } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { rawRefusal } from './answer.ts';
import type { Exchange } from './exchange.ts';
import type { Refusal } from './route.ts';

export const MAX_HEADER_BYTES = 16 * 1024;
const MAX_HEADERS = 100;

function refuseWith(message: string, status?: number): Refusal {
  const refusal = { failure: invalid([], message) };
  return status === undefined ? refusal : { ...refusal, status };
}

export const tooSlow: Refusal = refuseWith('The request did not arrive in time; send it again without pauses.', 408);

/** Scheme, authority without credentials, and what a request in the usual form would name (RFC 9112 §3.2.2). */
const ABSOLUTE_FORM = /^https?:\/\/([A-Za-z0-9._~%!$&'()*+,;=:[\]-]+)((?:[/?][^#]*)?)$/i;

/**
 * Turns a target in absolute form, as clients of proxies send it, into the usual one: its authority takes the place of
 * the Host header's, and from here on the request is what it would have been without.
 */
function toOriginForm(request: IncomingMessage): void {
  const match = ABSOLUTE_FORM.exec(request.url ?? '');
  if (match === null) return;
  const [, authority = '', target = ''] = match;
  request.url = target.startsWith('/') ? target : `/${target}`;
  request.headers.host = authority;
}

/** A request that parses but is not one we take, or undefined. Any answer to it ends the connection. */
export function checkForm(request: IncomingMessage): Refusal | undefined {
  if (request.url?.charCodeAt(0) !== 0x2f) toOriginForm(request);
  const { rawHeaders, headers, url } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) return refuseWith(`The request has more than ${MAX_HEADERS} headers.`, 431);
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && request.httpVersion === '1.1'))
    return refuseWith('The request needs exactly one Host header.');
  if (url === undefined || url.charCodeAt(0) !== 0x2f)
    return refuseWith(
      'The request must name a path that starts with a slash, or an http or https URL without credentials.',
    );
  const transferEncoding = headers['transfer-encoding'];
  if (
    transferEncoding !== undefined &&
    (transferEncoding.toLowerCase() !== 'chunked' || headers['content-length'] !== undefined)
  ) {
    return refuseWith('The only Transfer-Encoding accepted is chunked, without a Content-Length.');
  }
  const expect = headers.expect;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return refuseWith('The only expectation that is met is 100-continue.', 417);
  }
  return undefined;
}

function refusalOf(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return refuseWith(`The headers have more than ${MAX_HEADER_BYTES} bytes in all.`, 431);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return { failure: failure('PAYLOAD_TOO_LARGE') };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return tooSlow;
    default:
      return refuseWith('The bytes received are not a valid HTTP/1.1 request.');
  }
}

function endWith(socket: Socket, refusal: Refusal): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(rawRefusal(refusal, newId('req')), () => socket.destroySoon());
}

/** Refuses a CONNECT, which Node hands over as a bare socket. */
export function refuseTunnel(socket: Socket): void {
  endWith(socket, { failure: failure('METHOD_NOT_ALLOWED', { allow: [] }) });
}

/**
 * Handles 'clientError'. `exchanges` are the ones of this socket that have no answer yet: one that is incomplete is the
 * broken one and is refused through it; others were whole, and the refusal of what follows waits for their answers.
 */
export function refuseBytes(error: NodeJS.ErrnoException, socket: Socket, exchanges: readonly Exchange[]): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal = refusalOf(error.code);
  const unfinished = exchanges.find((exchange) => !exchange.request.complete);
  if (unfinished !== undefined) {
    unfinished.mustClose = true;
    unfinished.broken = refusal;
    // Its handler sees a streamed body end with an error, and has the word.
    if (unfinished.isStreamed) unfinished.breakOff();
    else unfinished.failReading?.(refusal);
    return;
  }
  const last = exchanges.at(-1);
  if (last === undefined) endWith(socket, refusal);
  else last.response.once('close', () => endWith(socket, refusal));
}
