/**
 * Digest of a submitted mail for its Idempotency-Key. A client that repeats a submission often composes the mail again, with another date,
 * Message-ID, and part boundaries. The digest leaves these out, boundaries only where Content-Type fields declare them, and covers
 * everything else. It streams, and holds at most the header or the line at the end of a chunk.
 */
import { createHash } from 'node:crypto';
import { endOfHeader, headerFields } from '../mail/mime/header-fields.ts';

const VOLATILE = new Set(['date', 'message-id', 'received']);
const CRLF = Buffer.from('\r\n');
const CONTENT_TYPE = /^content-type[ \t]*:/i;
/** A boundary parameter, or the quoted value of another one, which is skipped. */
const DECLARED = /\b(boundary)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s;]+)|"(?:[^"\\]|\\.)*"/gi;
/** More boundaries are not realistic; their lines are compared like any other. */
const MOST_BOUNDARIES = 2_000;
const [DASH, SPACE, TAB] = [45, 32, 9];

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

  /** Whether the next line belongs to the header of the mail or of a part, and whether to its Content-Type field. */
  let isInFields = true;
  let isInContentType = false;

  /** Returns whether the line starts or ends a part (RFC 2046 §5.1.1); undefined if it does neither. */
  const delimiterOf = (line: string): 'start' | 'end' | undefined => {
    const text = line.trimEnd().slice(2);
    if (boundaries.has(text)) return 'start';
    return text.endsWith('--') && boundaries.has(text.slice(0, -2)) ? 'end' : undefined;
  };

  /** Returns the line without the boundaries that it declares. */
  const declare = (line: string): string =>
    line.replace(DECLARED, (parameter: string, name: string | undefined, value: string) => {
      if (name === undefined) return parameter;
      const boundary = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
      if (boundaries.size < MOST_BOUNDARIES) boundaries.add(boundary);
      return name;
    });

  /** Returns the bytes that are hashed for a line of a header, if they differ from the line. */
  const fieldLine = (lines: Buffer, at: number, end: number): string | undefined => {
    if (end - at === CRLF.length) {
      isInFields = false;
      return undefined;
    }
    const line = lines.toString('latin1', at, end);
    const isContinued = lines[at] === SPACE || lines[at] === TAB;
    if (!isContinued) isInContentType = CONTENT_TYPE.test(line);
    return isInContentType ? declare(line) : undefined;
  };

  /** Hashes whole lines except what is left out. */
  const take = (lines: Buffer): void => {
    let run = 0;
    for (let at = 0; at < lines.length; ) {
      const end = lines.indexOf(CRLF, at) + CRLF.length;
      let other: string | undefined;
      const isDashed = lines[at] === DASH && lines[at + 1] === DASH;
      const delimiter = isDashed ? delimiterOf(lines.toString('latin1', at, end)) : undefined;
      if (delimiter !== undefined) {
        other = '--\r\n';
        isInFields = delimiter === 'start';
        isInContentType = false;
      } else if (isInFields) other = fieldLine(lines, at, end);
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
