/**
 * Database and blob store belong together: a random id stands in both, in the database under `blob-store`, in the store in an
 * object of its own beside the blobs, which is no blob, is not listed and never swept. A node with another store would not
 * find the content of the others; a second database at one store would sweep what it has no row for.
 *
 *   neither known ──id drawn in the database──▶ written to the store ──▶ known to both
 *
 * The draw is settled by the database, so that nodes that start together end with one id, and a crash halfway is gone on from.
 */
import { randomText } from '../../base/ids.ts';
import type { Database } from '../database.ts';
import { metaOnceOperation, metaOperation } from '../meta-store.ts';

/** Name of the object under the prefix, and of the file in the folder. */
export const MARK_NAME = 'postrider-store';
export const STORE_ID_KEY = 'blob-store';
/** Drawn, and perhaps not yet in the store. */
export const DRAWN_ID_KEY = 'blob-store-drawn';
/** What stays with a database when its content goes to another one, for SQL. */
export const OWN_META = `('${STORE_ID_KEY}', '${DRAWN_ID_KEY}')`;

/** Where a store keeps the id; both reject with Unavailable as the store does. */
export interface BlobMark {
  /** Undefined when there is none. */
  read(): Promise<string | undefined>;
  write(id: string): Promise<void>;
}

export type MarkMismatch = 'store has none' | 'store has another' | 'database has none';

/**
 * Matches the two, and makes the id where neither has one; answers why they do not belong together. Rejects with Unavailable
 * when the store does not answer, and with an ordinary error when the database does not.
 */
export async function matchMark(database: Database, mark: BlobMark): Promise<MarkMismatch | undefined> {
  const idUnder = (key: string) => database.execute(metaOperation, key).catch(notOfTheStore);
  const known = await idUnder(STORE_ID_KEY);
  const found = await mark.read();
  if (known !== null) {
    if (found === undefined) return 'store has none';
    return found === known ? undefined : 'store has another';
  }
  // The draw of another node that starts, or of a start that did not come to its end.
  if (found !== undefined && found !== (await idUnder(DRAWN_ID_KEY))) return 'database has none';
  const once = (key: string, value: string) => database.execute(metaOnceOperation, { key, value }).catch(notOfTheStore);
  const id = await once(DRAWN_ID_KEY, randomText(26));
  if (found === undefined) await mark.write(id);
  // Two installations that begin at one store at once: the one that wrote last has it.
  const there = await mark.read();
  if (there !== undefined && there !== id) return 'store has another';
  await once(STORE_ID_KEY, id);
  return undefined;
}

function notOfTheStore(error: Error): never {
  throw new Error(error.message, { cause: error });
}
