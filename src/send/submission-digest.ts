/**
 * What an Idempotency-Key of submitted mail stands for. A client that repeats a submission often composes the mail anew: date,
 * Message-ID and the boundaries of its parts are other ones then. The digest leaves those lines out and compares all others:
 * two mails with one digest say the same. Streams, and holds at most the line that a chunk ends in.
 */
import { createHash } from 'node:crypto';

const VOLATILE = /^(?:date|message-id|received):/i;
const CRLF = Buffer.from('\r\n');
const DECLARED = Buffer.from('boundary=');
const DASH = 45;

export interface SubmissionDigest {
  update(chunk: Buffer): void;
  /** Ends it; SHA-256. */
  digest(): Buffer;
}

export function createSubmissionDigest(): SubmissionDigest {
  const hash = createHash('sha256');
  let held: Buffer = Buffer.alloc(0);
  let inHeader = true;
  let isVolatile = false;

  const judgeField = (line: string): void => {
    if (line === '\r\n') inHeader = false;
    // A folded line belongs to the field above it.
    if (!/^[ \t]/.test(line)) isVolatile = inHeader && VOLATILE.test(line);
  };

  /** Hashes whole lines but those that are left out. */
  const take = (lines: Buffer): void => {
    let run = 0;
    let declared = lines.indexOf(DECLARED);
    for (let at = 0; at < lines.length; ) {
      const end = lines.indexOf(CRLF, at) + CRLF.length;
      if (declared !== -1 && declared < at) declared = lines.indexOf(DECLARED, at);
      if (inHeader) judgeField(lines.toString('latin1', at, end));
      // A delimiter of parts (RFC 2046 §5.1.1), or the line that declares it.
      const isBoundary =
        (lines[at] === DASH && lines[at + 1] === DASH) || (declared !== -1 && declared >= at && declared < end);
      if (isVolatile || isBoundary) {
        hash.update(lines.subarray(run, at));
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
