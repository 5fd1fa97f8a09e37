/**
 * The bytes of DATA (RFC 5321 §4.1.1.4, §4.5.2): finds the end of the mail and takes the stuffing dots away, in whatever pieces the
 * bytes arrive. The one and only end is CRLF.CRLF, where the CRLF that ended the DATA command counts as the first: a dot behind
 * a bare CR, a bare LF or a NUL is content, which the reader of the content refuses. Nothing is copied.
 */

const CR = 13;
const LF = 10;
const DOT = 46;
const LINE_DOT = Buffer.from('\r\n.');
const CR_BYTES = Buffer.from('\r');

/** What was seen of CRLF.CRLF. The CR behind the dot is held back, since it is content only if no LF follows. */
type Seen = 'nothing' | 'CR' | 'CRLF' | 'CRLF.' | 'CRLF.CR';

export interface DotReader {
  /**
   * Takes bytes from `from` on and gives the content in them to the sink. Answers the position behind the final
   * CRLF.CRLF, or -1 while it has not come; after it, no more may be pushed.
   */
  push(chunk: Buffer, from: number): number;
}

export function createDotReader(sink: (content: Buffer) => void): DotReader {
  let seen: Seen = 'CRLF';

  const give = (chunk: Buffer, from: number, to: number): void => {
    if (to > from) sink(from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to));
  };

  /** What the end of a chunk without another CRLF. leaves to be remembered. */
  const rest = (chunk: Buffer, from: number): Seen => {
    const last = chunk.length - 1;
    if (chunk[last] === CR) return 'CR';
    return chunk[last] === LF && last > from && chunk[last - 1] === CR ? 'CRLF' : 'nothing';
  };

  return {
    push: (chunk, from) => {
      let at = from;
      let start = from;
      while (at < chunk.length) {
        const byte = chunk[at]!;
        switch (seen) {
          case 'nothing': {
            const found = chunk.indexOf(LINE_DOT, at);
            if (found === -1) {
              seen = rest(chunk, at);
              give(chunk, start, chunk.length);
              return -1;
            }
            at = found + 2;
            seen = 'CRLF';
            break;
          }
          case 'CR':
            // Looked at again as ordinary content: it may begin a CRLF itself.
            if (byte === LF) at += 1;
            seen = byte === LF ? 'CRLF' : 'nothing';
            break;
          case 'CRLF':
            if (byte === DOT) {
              give(chunk, start, at);
              at += 1;
              start = at;
              seen = 'CRLF.';
            } else seen = 'nothing';
            break;
          case 'CRLF.':
            if (byte === CR) {
              at += 1;
              start = at;
              seen = 'CRLF.CR';
            } else seen = 'nothing';
            break;
          case 'CRLF.CR':
            if (byte === LF) {
              seen = 'CRLF';
              return at + 1;
            }
            sink(CR_BYTES);
            seen = 'CR';
            break;
        }
      }
      give(chunk, start, chunk.length);
      return -1;
    },
  };
}
