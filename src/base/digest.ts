/** SHA-256 of large content, and of JSON values. */
import { createHash, hash } from 'node:crypto';
import { setImmediate as nextRound } from 'node:timers/promises';

const SLICE_BYTES = 512_000;

/**
 * Returns the SHA-256, computed in slices, so that 40 MB do not block the event loop (a slice takes about a third of a millisecond). The
 * content must not change in the meantime.
 */
export async function sha256(content: Uint8Array): Promise<Buffer> {
  const hash = createHash('sha256');
  for (let from = 0; from < content.length; from += SLICE_BYTES) {
    if (from > 0) await nextRound();
    hash.update(content.subarray(from, from + SLICE_BYTES));
  }
  return hash.digest();
}

/** Longer forms are hashed piece by piece. */
const PIECE_LENGTH = 64 * 1024;

/**
 * Returns the SHA-256 of a JSON value, independent of its spelling: white space, order of members, escapes, and the form of numbers do not
 * matter (1, 1.0, and 1e0 are equal; an integer beyond 2^53 is compared by its digits). Every string and container is preceded by its
 * length, so different values cannot have the same form. The value must come from `JSON.parse` with well-formed strings.
 */
export function jsonDigest(value: unknown): Uint8Array {
  let pieces: ReturnType<typeof createHash> | undefined;
  let form = '';
  const add = (text: string): void => {
    form += text;
    if (form.length <= PIECE_LENGTH) return;
    pieces ??= createHash('sha256');
    pieces.update(form, 'utf8');
    form = '';
  };
  const write = (one: unknown): void => {
    if (typeof one === 'string') add(`s${one.length}:${one}`);
    else if (typeof one !== 'object' || one === null) add(`${one};`);
    else if (Array.isArray(one)) {
      add(`a${one.length}:`);
      for (const element of one) write(element);
    } else {
      const names = Object.keys(one).sort();
      add(`o${names.length}:`);
      for (const name of names) {
        add(`${name.length}:${name}`);
        write((one as Record<string, unknown>)[name]);
      }
    }
  };
  write(value);
  return pieces === undefined ? hash('sha256', form, 'buffer') : pieces.update(form, 'utf8').digest();
}
