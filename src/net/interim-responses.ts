/**
 * Removes interim responses (1xx) from what undici reads. Some servers send `100 Continue` to every POST, or `103 Early Hints`; a client
 * must accept any number of them before the final response, even unrequested (RFC 9110 §15.2). undici closes the connection at a 100, so
 * the request would count as failed and be repeated although the server accepted it. 101 is kept: without a requested upgrade it is not an
 * interim response.
 *
 * undici writes the head of a request as a string and its body as bytes, and sends no request before the previous response has ended. From
 * each such head on, the response heads are read here up to the final one; everything after that passes unchanged.
 */
import type { Duplex } from 'node:stream';

/** Maximum size of a head that is held back until it is complete; undici refuses longer ones. */
const MOST_HEAD_BYTES = 64 * 1024;
const INTERIM = /^HTTP\/1\.\d 1(?!01)\d\d[ \r\n]/;
const INTERIM_START = 'HTTP/1.1 1';
const HEAD_END = /\r?\n\r?\n/;

/** Returns whether the text may still become an interim response: only then is it held back. */
const startsAsInterim = (text: string): boolean =>
  INTERIM_START.startsWith(
    text.slice(0, INTERIM_START.length).replace(/^(HTTP\/1\.)\d/, (_, start: string) => `${start}1`),
  );

/** Returns the same connection, without interim responses. */
export function withoutInterimResponses<S extends Duplex>(socket: S): S {
  const [read, write] = [socket.read.bind(socket), socket.write.bind(socket)];
  /** The incomplete head received so far; undefined after the final one. */
  let head: Buffer | undefined;

  const filtered = (chunk: Buffer): Buffer | undefined => {
    if (head === undefined) return chunk;
    let rest = Buffer.concat([head, chunk]);
    for (;;) {
      const text = rest.toString('latin1', 0, MOST_HEAD_BYTES);
      const mayBe = startsAsInterim(text);
      const end = mayBe ? HEAD_END.exec(text) : null;
      if (mayBe && !end && rest.length < MOST_HEAD_BYTES) {
        head = rest;
        return undefined;
      }
      if (!end || !INTERIM.test(text)) {
        head = undefined;
        return rest;
      }
      rest = rest.subarray(end.index + end[0].length);
    }
  };

  socket.read = (size?: number) => {
    for (;;) {
      const chunk = read(size) as Buffer | null;
      if (chunk !== null) {
        const passed = filtered(chunk);
        if (passed !== undefined) return passed;
      } else if (socket.readableEnded && head !== undefined && head.length > 0) {
        // The connection ended within a head; passing it on shows what was wrong.
        const rest = head;
        head = undefined;
        return rest;
      } else return null;
    }
  };
  socket.write = ((chunk: unknown, ...rest: never[]) => {
    if (typeof chunk === 'string') head = Buffer.alloc(0);
    return write(chunk, ...rest);
  }) as S['write'];
  return socket;
}
