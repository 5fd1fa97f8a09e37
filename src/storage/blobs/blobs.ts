/**
 * The interface of blob storage: content too large for a database row, and uploaded files. A blob is written under a random key and is on
 * stable storage before put() or putStream() resolves; a reader gets everything that one write wrote, or an error, never a part. The row
 * that names it is committed afterwards; a blob that no row names is an orphan and is swept later.
 *
 * A key created while the content is written ends with its SHA-256, which get() and read() verify, so content that was changed or replaced
 * is never mistaken for the accepted content. A key created beforehand (newKey) has no digest; the row that names such a blob stores it.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { sha256 } from '../../base/digest.ts';
import { Unavailable } from '../../base/failure.ts';
import { randomText } from '../../base/ids.ts';
import type { BlobMark } from './mark.ts';

export interface Blobs {
  /** Stores the bytes under a new key. Rejects with Unavailable if storage fails. */
  put(content: Uint8Array): Promise<string>;
  /**
   * Stores what the source yields without buffering it, under a new key or the given one (from newKey()); an existing blob under that key
   * is replaced as a whole. If the source throws, nothing is kept and its error passes through; if it does not yield exactly `sizeBytes`
   * bytes, nothing is kept either. Rejects with Unavailable if storage fails. The source may overwrite a chunk as soon as the next one is
   * requested.
   */
  putStream(source: AsyncIterable<Uint8Array>, options?: PutStreamOptions): Promise<string>;
  /** Returns an unused key, which a row can name before the blob is written. */
  newKey(): string;
  /** Returns the complete blob, or undefined if it does not exist. Rejects with BlobDamaged if it is not what was written. */
  get(key: string): Promise<Buffer | undefined>;
  /**
   * Returns the blob as a stream, or undefined if it does not exist. The stream fails if the blob cannot be read completely, or at its end
   * if it is not what was written.
   */
  read(key: string): Promise<Readable | undefined>;
  /**
   * Opens the blob for reading into the caller's memory; absent in stores that cannot do this, see openBlob(). The content is not verified:
   * the caller must compare the digest.
   */
  open?(key: string): Promise<BlobReader | undefined>;
  /** Returns the size of a stored blob in bytes, or undefined if it does not exist. */
  sizeOf(key: string): Promise<number | undefined>;
  /**
   * Returns the store's own fingerprint of a blob, which changes when the blob is modified or replaced; undefined if it does not exist.
   * Does not read the blob. Absent in stores without such a fingerprint.
   */
  stampOf?(key: string): Promise<string | undefined>;
  /** Removes a blob; does nothing if it does not exist. */
  remove(key: string): Promise<void>;
  /** Lists every key with the time it was written (Unix ms by the store's clock), in no particular order. */
  list(): AsyncIterable<{ key: string; writtenAtMs: number }>;
  /** Returns Unix ms by the store's clock, for comparison with `writtenAtMs`. */
  storeNowMs(): Promise<number>;
  /** Removes what unfinished writes left over an hour ago by the store's clock; returns how many. */
  removeUnfinished(): Promise<number>;
  /** The id of the store, next to the blobs; absent in stores that only one process can use. */
  mark?: BlobMark;
  /** Presigned PUT for stores that accept direct uploads (S3); absent on disk, where uploads go through Postrider. */
  presignPut?(options: PresignOptions): Promise<PresignedPut>;
}

/** Reads a blob into memory that the caller owns and reuses, so that a large blob allocates little. */
export interface BlobReader {
  /** Fills `into` from its start; returns less than its length only at the end of the blob. One call at a time. */
  fill(into: Buffer): Promise<number>;
  /** Waits for a pending call. */
  close(): Promise<void>;
}

interface PutStreamOptions {
  /** From newKey(). */
  key?: string;
  sizeBytes?: number;
  /** Digest of what the source yields. The source checks it and throws on a mismatch, so the store does not hash again. */
  sha256?: Uint8Array;
}

export interface PresignOptions {
  /** From newKey(). */
  key: string;
  /** Length, type, and digest that the upload must have; the signature covers them. */
  sizeBytes: number;
  contentType: string;
  sha256: Buffer;
  expiresInSeconds: number;
  nowMs: number;
}

export interface PresignedPut {
  url: string;
  /** Headers that the client must send besides Content-Length. */
  headers: Record<string, string>;
}

/** Minimum age of an unfinished write before it is removed. */
export const UNFINISHED_MS = 3_600_000;

const KEY = /^[0-9A-Za-z]{2}\/[0-9A-Za-z]{26}(?:-([0-9A-Za-z_-]{43}))?$/;

/** What is stored under a key is not what was written. */
export class BlobDamaged extends Unavailable {
  override name = 'BlobDamaged';

  constructor(key: string) {
    super(`blob storage: the blob ${key} is not what was written: its SHA-256 differs`);
  }
}

/** Two characters distribute the blobs over folders; the rest is 154 random bits, and the digest if it is known. */
export function newBlobKey(digest?: Uint8Array): string {
  const key = `${randomText(2)}/${randomText(26)}`;
  return digest === undefined ? key : withDigest(key, digest);
}

/** Returns the key with the SHA-256 of its content appended. */
export function withDigest(key: string, digest: Uint8Array): string {
  return `${key}-${Buffer.from(digest).toString('base64url')}`;
}

/** Returns the content if it matches the digest in the key; a key without a digest matches anything. Throws BlobDamaged. */
export async function asWritten(key: string, content: Buffer): Promise<Buffer> {
  const expected = KEY.exec(key)?.[1];
  if (expected !== undefined && (await sha256(content)).toString('base64url') !== expected) throw new BlobDamaged(key);
  return content;
}

/** Like asWritten() for a stream, which fails with BlobDamaged at its end. */
export async function* streamAsWritten(key: string, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const expected = KEY.exec(key)?.[1];
  const hash = createHash('sha256');
  for await (const chunk of source) {
    if (expected !== undefined) hash.update(chunk);
    yield chunk;
  }
  if (expected !== undefined && hash.digest('base64url') !== expected) throw new BlobDamaged(key);
}

export function isBlobKey(text: string): boolean {
  return KEY.test(text);
}

/** Throws unless the text is a blob key. Nothing else may become a path or an object name. */
export function assertBlobKey(text: string): void {
  if (!KEY.test(text)) throw new Error('the text is not a valid blob key');
}

/** Passes the chunks through and throws if they do not add up to `sizeBytes`; undefined accepts any size. */
export async function* exactly(
  source: AsyncIterable<Uint8Array>,
  sizeBytes: number | undefined,
): AsyncGenerator<Uint8Array> {
  let passed = 0;
  for await (const chunk of source) {
    passed += chunk.length;
    if (sizeBytes !== undefined && passed > sizeBytes) break;
    yield chunk;
  }
  if (sizeBytes !== undefined && passed !== sizeBytes) {
    throw new Error(
      `the source of a blob yielded ${passed > sizeBytes ? 'more than' : `${passed} of`} ${sizeBytes} bytes`,
    );
  }
}

/** Returns undefined if the blob does not exist; rejects with Unavailable if storage fails. */
export async function openBlob(blobs: Blobs, key: string): Promise<BlobReader | undefined> {
  if (blobs.open) return blobs.open(key);
  const stream = await blobs.read(key);
  return stream && streamReader(stream);
}

/** The stream is destroyed if it is closed early. */
function streamReader(stream: Readable): BlobReader {
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return {
    fill: async (into) => {
      let filled = 0;
      while (filled < into.length) {
        if (rest.length === 0) {
          const next = await chunks.next();
          if (next.done) break;
          rest = next.value;
        }
        const taken = rest.copy(into, filled);
        filled += taken;
        rest = rest.subarray(taken);
      }
      return filled;
    },
    close: async () => {
      stream.on('error', () => {});
      stream.destroy();
    },
  };
}
