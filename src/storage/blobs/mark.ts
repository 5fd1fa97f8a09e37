/**
 * Ties a database to its blob store: both hold the same random id, the database under `blob-store`, the store in a separate object that is
 * not a blob, is not listed, and is never swept. A node with another store would not find the others' content; a second database on the
 * same store would sweep blobs that it has no rows for.
 *
 *   neither known ──id drawn in the database──▶ written to the store ──▶ known to both
 *
 * The database decides the draw, so nodes that start together agree on one id, and a start after a crash continues with it.
 */
import { randomText } from '../../base/ids.ts';
import type { Database } from '../database.ts';
import { metaOnceOperation, metaOperation } from '../meta-store.ts';

/** Name of the object under the prefix, and of the file in the folder. */
export const MARK_NAME = 'postrider-store';
export const STORE_ID_KEY = 'blob-store';
/** Drawn, but possibly not yet in the store. */
export const DRAWN_ID_KEY = 'blob-store-drawn';
/** Keys that are not copied with the content of a database, for SQL. */
export const OWN_META = `('${STORE_ID_KEY}', '${DRAWN_ID_KEY}')`;

/** Access to the id in a store; both functions reject with Unavailable if the store does. */
export interface BlobMark {
  /** Returns undefined if there is none. */
  read(): Promise<string | undefined>;
  write(id: string): Promise<void>;
}

export type MarkMismatch = 'store has none' | 'store has another' | 'database has none';

/**
 * Compares the two ids, and creates one if neither side has it; returns why they do not belong together. Rejects with Unavailable if the
 * store fails, and with an ordinary error if the database fails.
 */
export async function matchMark(database: Database, mark: BlobMark): Promise<MarkMismatch | undefined> {
  const idUnder = (key: string) => database.execute(metaOperation, key).catch(notOfTheStore);
  const known = await idUnder(STORE_ID_KEY);
  const found = await mark.read();
  if (known !== null) {
    if (found === undefined) return 'store has none';
    return found === known ? undefined : 'store has another';
  }
  // Drawn by another node that is starting, or by a start that was interrupted.
  if (found !== undefined && found !== (await idUnder(DRAWN_ID_KEY))) return 'database has none';
  const once = (key: string, value: string) => database.execute(metaOnceOperation, { key, value }).catch(notOfTheStore);
  const id = await once(DRAWN_ID_KEY, randomText(26));
  if (found === undefined) await mark.write(id);
  // If two installations start on one store at the same time, the last write wins.
  const there = await mark.read();
  if (there !== undefined && there !== id) return 'store has another';
  await once(STORE_ID_KEY, id);
  return undefined;
}

function notOfTheStore(error: Error): never {
  throw new Error(error.message, { cause: error });
}
