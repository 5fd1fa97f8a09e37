/**
 * Dot-stuffing of RFC 5321 §4.5.2 over content that comes in any number of chunks. Content without a line that starts
 * with a dot passes through uncopied. A dot behind a bare CR or bare LF is refused instead of stuffed: receivers
 * disagree whether that is a line start, and the disagreement is what SMTP smuggling is made of.
 */

const CR = 13;
const LF = 10;
const DOT = 46;
const LF_DOT = Buffer.from('\n.');
const CR_DOT = Buffer.from('\r.');
const DOT_BYTES = Buffer.from('.');

export interface DotStuffer {
  /** The chunk ready for the wire, or undefined when it holds a dot after a bare CR or LF. */
  push(chunk: Buffer): Buffer[] | undefined;
  /** Whole lines were written beside the stuffer, none of which starts with a dot. */
  pass(): void;
  /** What ends the content: the final dot's line, with a line end before it where the content lacks one. */
  end(): string;
}

export function dotStuffer(): DotStuffer {
  // The two bytes before the chunk; content starts as if after a line end.
  let last = LF;
  let beforeLast = CR;

  return {
    push: (chunk) => {
      if (chunk.length === 0) return [];
      const first = chunk[0];
      if (first === DOT && (last === CR || (last === LF && beforeLast !== CR))) return undefined;
      if (chunk.indexOf(CR_DOT) !== -1) return undefined;
      const pieces: Buffer[] = [];
      if (first === DOT && last === LF) pieces.push(DOT_BYTES);
      let from = 0;
      for (let at = chunk.indexOf(LF_DOT); at !== -1; at = chunk.indexOf(LF_DOT, at + 1)) {
        if ((at === 0 ? last : chunk[at - 1]) !== CR) return undefined;
        pieces.push(chunk.subarray(from, at + 1), DOT_BYTES);
        from = at + 1;
      }
      pieces.push(from === 0 ? chunk : chunk.subarray(from));
      beforeLast = chunk.length > 1 ? chunk[chunk.length - 2]! : last;
      last = chunk[chunk.length - 1]!;
      return pieces;
    },
    pass: () => {
      beforeLast = CR;
      last = LF;
    },
    end: () => (last === LF && beforeLast === CR ? '.\r\n' : '\r\n.\r\n'),
  };
}
