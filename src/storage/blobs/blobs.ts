/**
 * What the house knows of blob storage: content too large for a database row, and uploaded files. A blob is written under a
 * random key and is on stable storage before put() or putStream() resolves; a reader sees all of what one write
 * wrote, or an error, never a part. The row that names it is committed afterwards; a blob that no row names is an orphan
 * and is swept later.
 *
 * A key that is made while the content is written ends with its SHA-256, and get() and read() compare: content that was
 * changed or exchanged without our knowing is never taken for what was accepted. A key that is made beforehand (newKey) cannot
 * have it; the row that names such a blob keeps the digest.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { sha256 } from '../../base/digest.ts';
import { Unavailable } from '../../base/failure.ts';
import { randomText } from '../../base/ids.ts';
import type { BlobMark } from './mark.ts';

export interface Blobs {
  /** Stores the bytes; the key is made here. Rejects with Unavailable when the storage does not take them. */
  put(content: Uint8Array): Promise<string>;
  /**
   * Stores what the source yields without holding it; the key is made here, or is the one given (from newKey()): a blob that
   * was there under it is replaced as a whole. When the source throws, nothing is kept and its error passes through; when it
   * yields other than `sizeBytes` bytes, nothing is kept either. Rejects with Unavailable when storage does not take it.
   * What the source has yielded it may overwrite as soon as it is asked for more.
   */
  putStream(source: AsyncIterable<Uint8Array>, options?: PutStreamOptions): Promise<string>;
  /** A key that nothing is stored under; it can be named in a row before the blob is written. */
  newKey(): string;
  /** The whole blob, or undefined when it does not exist. Rejects with BlobDamaged when it is not what was written. */
  get(key: string): Promise<Buffer | undefined>;
  /**
   * The blob as a stream, or undefined when it does not exist. The stream fails when it cannot give all of the blob, or in
   * the end when that was not what was written.
   */
  read(key: string): Promise<Readable | undefined>;
  /**
   * The blob for reading into the caller's memory, where the store can do that; absent elsewhere: see openBlob(). What is
   * read so is compared with nothing: the caller knows the digest.
   */
  open?(key: string): Promise<BlobReader | undefined>;
  /** sizeBytes of a stored blob, or undefined when it does not exist. */
  sizeOf(key: string): Promise<number | undefined>;
  /**
   * What the store itself knows of a blob, as one text that becomes another when the bytes are written to, or when the blob is
   * exchanged; undefined when it does not exist. It costs no reading. Absent in stores that say nothing of the kind.
   */
  stampOf?(key: string): Promise<string | undefined>;
  /** Removing what is not there is no error. */
  remove(key: string): Promise<void>;
  /** Every key with the time it was written (Unix ms by the clock of the store), in no order. */
  list(): AsyncIterable<{ key: string; writtenAtMs: number }>;
  /** Unix ms by the clock of the store, against which `writtenAtMs` is to be compared. */
  storeNowMs(): Promise<number>;
  /** Removes what writes that never ended left behind over an hour ago by the clock of the store; answers how many. */
  removeUnfinished(): Promise<number>;
  /** The id of the store, beside the blobs; absent in stores that are of one process anyhow. */
  mark?: BlobMark;
  /** Presigned PUT of stores that take uploads directly (S3); absent on disk: bytes then come through Postrider. */
  presignPut?(options: PresignOptions): Promise<PresignedPut>;
}

/** Reads a blob into memory that the caller owns and uses again, so that a large blob costs no garbage. */
export interface BlobReader {
  /** Fills `into` from its start; answers less than its length only where the blob ends. One call at a time. */
  fill(into: Buffer): Promise<number>;
  /** Waits for a call that is in flight. */
  close(): Promise<void>;
}

interface PutStreamOptions {
  /** From newKey(). */
  key?: string;
  sizeBytes?: number;
  /** Of what the source yields; the source vouches for it by throwing otherwise, so that nobody hashes it again. */
  sha256?: Uint8Array;
}

export interface PresignOptions {
  /** From newKey(). */
  key: string;
  /** Length, type and digest that the upload must have; they are bound by the signature. */
  sizeBytes: number;
  contentType: string;
  sha256: Buffer;
  expiresInSeconds: number;
  nowMs: number;
}

export interface PresignedPut {
  url: string;
  /** What the client has to send beside Content-Length. */
  headers: Record<string, string>;
}

/** How old a write that never ended is at least when it is removed. */
export const UNFINISHED_MS = 3_600_000;

const KEY = /^[0-9A-Za-z]{2}\/[0-9A-Za-z]{26}(?:-([0-9A-Za-z_-]{43}))?$/;

/** What is stored under a key is not what was written. */
export class BlobDamaged extends Unavailable {
  override name = 'BlobDamaged';

  constructor(key: string) {
    super(`blob storage: the blob ${key} is not what was written: its SHA-256 differs`);
  }
}

/** Two characters spread the blobs over folders; the rest is 154 random bits, and the digest where it is known. */
export function newBlobKey(digest?: Uint8Array): string {
  const key = `${randomText(2)}/${randomText(26)}`;
  return digest === undefined ? key : withDigest(key, digest);
}

/** The key with the SHA-256 of what is stored under it. */
export function withDigest(key: string, digest: Uint8Array): string {
  return `${key}-${Buffer.from(digest).toString('base64url')}`;
}

/** Answers the content if it is what the key says; keys without a digest say nothing. Throws BlobDamaged. */
export async function asWritten(key: string, content: Buffer): Promise<Buffer> {
  const expected = KEY.exec(key)?.[1];
  if (expected !== undefined && (await sha256(content)).toString('base64url') !== expected) throw new BlobDamaged(key);
  return content;
}

/** The same for a stream: it ends with BlobDamaged instead of its end. */
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

/** Throws unless it is a key: nothing else ever becomes a path or an object's name. */
export function assertBlobKey(text: string): void {
  if (!KEY.test(text)) throw new Error('not a blob key');
}

/** Counts what passes and throws when it is not `sizeBytes` in the end; undefined lets everything pass. */
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

/** Undefined when the blob does not exist; rejects with Unavailable when the storage does not answer. */
export async function openBlob(blobs: Blobs, key: string): Promise<BlobReader | undefined> {
  if (blobs.open) return blobs.open(key);
  const stream = await blobs.read(key);
  return stream && streamReader(stream);
}

/** The stream is destroyed when it is closed before its end. */
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
