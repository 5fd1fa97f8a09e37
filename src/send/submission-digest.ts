/**
 * Digest of a submitted mail for its Idempotency-Key. A client that repeats a submission often composes the mail again, with another date,
 * Message-ID, and part boundaries. The digest leaves these out and covers everything else: two messages with the same digest have the same
 * content. It streams, and holds at most the header or the line at the end of a chunk.
 */
import { createHash } from 'node:crypto';
import { endOfHeader, headerFields } from '../mail/mime/header-fields.ts';

const VOLATILE = new Set(['date', 'message-id', 'received']);
const CRLF = Buffer.from('\r\n');
/** The word `boundary`, as mailers write it. */
const NEEDLES = ['oundary', 'OUNDARY'].map((text) => Buffer.from(text));
const DECLARED = /(boundary)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;]+)/gi;
/** More boundaries are not realistic; their lines are compared like any other. */
const MOST_BOUNDARIES = 2_000;
const DASH = 45;

interface SubmissionDigest {
  update(chunk: Buffer): void;
  /** Finishes and returns the SHA-256. */
  digest(): Buffer;
}

export function createSubmissionDigest(): SubmissionDigest {
  const hash = createHash('sha256');
  const boundaries = new Set<string>();
  let held: Buffer = Buffer.alloc(0);
  let inHeader = true;

  /** Returns whether the line separates parts (RFC 2046 §5.1.1). */
  const isDelimiter = (line: string): boolean => {
    const text = line.trimEnd().slice(2);
    return boundaries.has(text) || (text.endsWith('--') && boundaries.has(text.slice(0, -2)));
  };

  /** Returns the line without the boundaries that it declares. */
  const declare = (line: string): string =>
    line.replace(DECLARED, (_, name: string, value: string) => {
      const boundary = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
      if (boundaries.size < MOST_BOUNDARIES) boundaries.add(boundary);
      return name;
    });

  /** Hashes whole lines except what is left out. */
  const take = (lines: Buffer): void => {
    const declaredAt = NEEDLES.map((needle) => lines.indexOf(needle));
    let run = 0;
    for (let at = 0; at < lines.length; ) {
      const end = lines.indexOf(CRLF, at) + CRLF.length;
      let other: string | undefined;
      if (lines[at] === DASH && lines[at + 1] === DASH) {
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

  const takeHeader = (header: Buffer): void => {
    for (const field of headerFields(header.toString('latin1'))) {
      if (!VOLATILE.has(field.name)) take(header.subarray(field.start, field.end));
    }
  };

  return {
    update: (chunk) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
      if (inHeader) {
        const { headerEnd, bodyStart } = endOfHeader(held);
        // The empty line has not been seen yet.
        if (headerEnd === bodyStart) return;
        takeHeader(held.subarray(0, headerEnd));
        held = held.subarray(headerEnd);
        inHeader = false;
      }
      const end = held.lastIndexOf(CRLF) + CRLF.length;
      if (end < CRLF.length) return;
      take(held.subarray(0, end));
      held = Buffer.from(held.subarray(end));
    },
    digest: () => {
      if (held.length > 0) hash.update(held);
      return hash.digest();
    },
  };
}
