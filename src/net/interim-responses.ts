/**
 * Removes interim responses (1xx) from what undici reads. Some servers send `100 Continue` to every POST, or `103 Early Hints`; a
 * client has to accept any number of them before the final response, also unasked (RFC 9110 §15.2). undici ends the connection at a
 * 100, so the request would count as failed and be sent again although the server has accepted it. 101 stays: it is no interim
 * response to a request that asks for no upgrade.
 *
 * undici writes the head of a request as a string and its body as bytes, and sends no request before the response to the last one has
 * ended. From each such head on, the heads of responses are read here up to the final one; everything after it passes unchanged.
 */
import type { Duplex } from 'node:stream';

/** Of heads that are held back until they are complete; undici refuses longer ones. */
const MOST_HEAD_BYTES = 64 * 1024;
const INTERIM = /^HTTP\/1\.\d 1(?!01)\d\d[ \r\n]/;
const INTERIM_START = 'HTTP/1.1 1';
const HEAD_END = /\r?\n\r?\n/;

/** Whether it may yet become one: only that is held back. */
const startsAsInterim = (text: string): boolean =>
  INTERIM_START.startsWith(
    text.slice(0, INTERIM_START.length).replace(/^(HTTP\/1\.)\d/, (_, start: string) => `${start}1`),
  );

/** The same connection, without interim responses to be read from it. */
export function withoutInterimResponses<S extends Duplex>(socket: S): S {
  const [read, write] = [socket.read.bind(socket), socket.write.bind(socket)];
  /** What has come of a head that is not complete; undefined after the final one. */
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
        // The connection ended within a head; what has come of it shows what was wrong.
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
