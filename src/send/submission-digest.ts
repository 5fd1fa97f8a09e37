/**
 * What an Idempotency-Key of submitted mail stands for. A client that repeats a submission often composes the mail anew: date,
 * Message-ID and the boundaries of its parts are other ones then. The digest leaves these out and compares all else: two mails with
 * one digest say the same. Streams, and holds at most the line that a chunk ends in.
 */
import { createHash } from 'node:crypto';

const VOLATILE = /^(?:date|message-id|received):/i;
const CRLF = Buffer.from('\r\n');
/** Of `boundary`, as mailers write it. */
const NEEDLES = ['oundary', 'OUNDARY'].map((text) => Buffer.from(text));
const DECLARED = /(boundary)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;]+)/gi;
/** More are no mail; further ones are compared like any line. */
const MOST_BOUNDARIES = 2_000;
const DASH = 45;

export interface SubmissionDigest {
  update(chunk: Buffer): void;
  /** Ends it; SHA-256. */
  digest(): Buffer;
}

export function createSubmissionDigest(): SubmissionDigest {
  const hash = createHash('sha256');
  const boundaries = new Set<string>();
  let held: Buffer = Buffer.alloc(0);
  let inHeader = true;
  let isVolatile = false;

  const judgeField = (line: string): void => {
    if (line === '\r\n') inHeader = false;
    // A folded line belongs to the field above it.
    if (!/^[ \t]/.test(line)) isVolatile = inHeader && VOLATILE.test(line);
  };

  /** Whether the line separates parts (RFC 2046 §5.1.1). */
  const isDelimiter = (line: string): boolean => {
    const text = line.trimEnd().slice(2);
    return boundaries.has(text) || (text.endsWith('--') && boundaries.has(text.slice(0, -2)));
  };

  /** The line without the boundaries that it declares. */
  const declare = (line: string): string =>
    line.replace(DECLARED, (_, name: string, value: string) => {
      const boundary = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
      if (boundaries.size < MOST_BOUNDARIES) boundaries.add(boundary);
      return name;
    });

  /** Hashes whole lines but what is left out. */
  const take = (lines: Buffer): void => {
    const declaredAt = NEEDLES.map((needle) => lines.indexOf(needle));
    let run = 0;
    for (let at = 0; at < lines.length; ) {
      const end = lines.indexOf(CRLF, at) + CRLF.length;
      if (inHeader) judgeField(lines.toString('latin1', at, end));
      let other: string | undefined;
      if (isVolatile) other = '';
      else if (lines[at] === DASH && lines[at + 1] === DASH) {
        if (isDelimiter(lines.toString('latin1', at, end))) other = '--\r\n';
      } else if (declaredAt.some((found) => found !== -1 && found < end)) {
        other = declare(lines.toString('latin1', at, end));
        for (const [index, needle] of NEEDLES.entries()) {
          const found = declaredAt[index]!;
          if (found !== -1 && found < end) declaredAt[index] = lines.indexOf(needle, end);
        }
      }
      if (other !== undefined) {
        hash.update(lines.subarray(run, at));
        hash.update(other, 'latin1');
        run = end;
      }
      at = end;
    }
    hash.update(lines.subarray(run));
  };

  return {
    update: (chunk) => {
      const all = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      const last = all.lastIndexOf(CRLF);
      if (last === -1) {
        held = all;
        return;
      }
      take(all.subarray(0, last + CRLF.length));
      held = Buffer.from(all.subarray(last + CRLF.length));
    },
    digest: () => {
      if (held.length > 0) hash.update(held);
      return hash.digest();
    },
  };
}
