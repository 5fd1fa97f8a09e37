/**
 * Handles errors below the level of a request: bytes that are not HTTP, too many or too large headers, slow clients, and forms of requests
 * that a proxy and Postrider could interpret differently (RFC 9112 §3.2, §6.1, §11). Each gets one error response in the usual shape, and
 * the connection closes.
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

export const tooSlow: Refusal = refuseWith('The request did not arrive in time. Send it again without pauses.', 408);

/** Matches scheme, authority without credentials, and the origin-form target (RFC 9112 §3.2.2). */
const ABSOLUTE_FORM = /^https?:\/\/([A-Za-z0-9._~%!$&'()*+,;=:[\]-]+)((?:[/?][^#]*)?)$/i;

/** Converts a target in absolute form, which clients of proxies send, into origin form. Its authority replaces the Host header. */
function toOriginForm(request: IncomingMessage): void {
  const match = ABSOLUTE_FORM.exec(request.url ?? '');
  if (match === null) return;
  const [, authority = '', target = ''] = match;
  request.url = target.startsWith('/') ? target : `/${target}`;
  request.headers.host = authority;
}

/** Returns a refusal for a request that parses but is not acceptable, or undefined. The connection closes after the response. */
export function checkRequestHead(request: IncomingMessage): Refusal | undefined {
  if (request.url?.charCodeAt(0) !== 0x2f) toOriginForm(request);
  const { rawHeaders, headers, url } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) return refuseWith(`The request has more than ${MAX_HEADERS} headers.`, 431);
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts > 1 || (hosts === 0 && request.httpVersion === '1.1'))
    return refuseWith('The request must have exactly one Host header.');
  if (url === undefined || url.charCodeAt(0) !== 0x2f)
    return refuseWith(
      'The request must name a path that starts with a slash, or an http or https URL without credentials.',
    );
  const transferEncoding = headers['transfer-encoding'];
  if (
    transferEncoding !== undefined &&
    (transferEncoding.toLowerCase() !== 'chunked' || headers['content-length'] !== undefined)
  ) {
    return refuseWith('The only supported Transfer-Encoding is chunked, without Content-Length.');
  }
  const expect = headers.expect;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return refuseWith('The only supported value of Expect is 100-continue.', 417);
  }
  return undefined;
}

function refusalOf(code: string | undefined): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return refuseWith(`The headers have more than ${MAX_HEADER_BYTES} bytes in total.`, 431);
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

/** Refuses CONNECT, for which Node provides only a socket. */
export function refuseTunnel(socket: Socket): void {
  endWith(socket, { failure: failure('METHOD_NOT_ALLOWED', { allow: [] }) });
}

/**
 * Handles 'clientError'. `exchanges` are the exchanges on this socket without a response. If the request of one of them is incomplete, it
 * is the invalid request, and its exchange sends the refusal. If all are complete, the refusal of the bytes after them is sent after their
 * responses.
 */
export function refuseInvalidHttp(error: NodeJS.ErrnoException, socket: Socket, exchanges: readonly Exchange[]): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const refusal = refusalOf(error.code);
  const unfinished = exchanges.find((exchange) => !exchange.request.complete);
  if (unfinished !== undefined) {
    unfinished.mustClose = true;
    unfinished.broken = refusal;
    // The handler sees the streamed body end with an error, and sends the response.
    if (unfinished.isStreamed) unfinished.breakOff();
    else unfinished.failReading?.(refusal);
    return;
  }
  const last = exchanges.at(-1);
  if (last === undefined) endWith(socket, refusal);
  else last.response.once('close', () => endWith(socket, refusal));
}
