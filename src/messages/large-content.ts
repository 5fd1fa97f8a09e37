/**
 * Reads mail whose files are stored separately: the stored content, with each file at its place as Base64 lines, encoded while the blob is
 * read. Memory holds at most the content and three chunks. The last lines of a file are only returned once its length and SHA-256 match
 * what was accepted; otherwise the sequence ends with a ContentFault, so that the reader knows that the mail is incomplete.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import {
  BASE64_LINE_RAW_BYTES,
  type Base64Lines,
  base64SizeBytes,
  writeBase64,
} from '../mail/compose/transfer-encoding.ts';
import { type BlobReader, type Blobs, openBlob } from '../storage/blobs/blobs.ts';

import type { EmailFile } from './message.ts';

/** Raw bytes per read: complete lines, just above 128 KiB; 179,712 bytes as lines. */
const CHUNK_BYTES = BASE64_LINE_RAW_BYTES * 2304;
/** Content is returned in slices of up to this size. */
const SLICE_BYTES = 256 * 1024;

/** A file that is missing, or differs from the one that was accepted. */
export class ContentFault extends Error {
  override name = 'ContentFault';
  readonly blobKey: string;

  constructor(blobKey: string, message: string) {
    super(message);
    this.blobKey = blobKey;
  }
}

interface LargeContent {
  /** Everything but the files. */
  content: Buffer;
  files: readonly EmailFile[];
}

/** Size of the files in the mail, as Base64 lines. */
export function encodedFilesBytes(files: readonly EmailFile[]): number {
  return files.reduce((sum, file) => sum + base64SizeBytes(file.sizeBytes), 0);
}

/** Returns a fault for the first file that is missing or has another length; undefined if there is none. Reads no file. */
export async function findMissingFile(files: readonly EmailFile[], blobs: Blobs): Promise<ContentFault | undefined> {
  for (const { blobKey, sizeBytes } of files) {
    const found = await blobs.sizeOf(blobKey);
    if (found === undefined) return missing(blobKey);
    if (found !== sizeBytes) return wrongLength(blobKey, found, sizeBytes);
  }
  return undefined;
}

/**
 * Yields the complete mail. Chunks of content are views of it; lines of a file may be overwritten as soon as the next chunk is requested.
 * Throws ContentFault, or Unavailable if storage fails.
 */
export async function* readLargeContent(mail: LargeContent, blobs: Blobs): AsyncGenerator<Buffer | Base64Lines> {
  let from = 0;
  for (const file of mail.files) {
    yield* slices(mail.content.subarray(from, file.at));
    from = file.at;
    if (file.sizeBytes > 0) yield* encode(file, blobs);
  }
  yield* slices(mail.content.subarray(from));
}

/** Returns the complete mail as a stream. Undefined if a file is missing; the stream fails midway if a file turns out to be different. */
export async function streamLargeContent(mail: LargeContent, blobs: Blobs): Promise<Readable | undefined> {
  if (await findMissingFile(mail.files, blobs)) return undefined;
  return Readable.from(copies(mail, blobs), { objectMode: false });
}

async function* copies(mail: LargeContent, blobs: Blobs): AsyncGenerator<Buffer> {
  for await (const chunk of readLargeContent(mail, blobs)) {
    yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.base64);
  }
}

function* slices(content: Buffer): Generator<Buffer> {
  for (let from = 0; from < content.length; from += SLICE_BYTES) yield content.subarray(from, from + SLICE_BYTES);
}

/** Reads the next chunk while the previous one is being used. */
async function* encode(file: EmailFile, blobs: Blobs): AsyncGenerator<Base64Lines> {
  const reader = await openBlob(blobs, file.blobKey);
  if (!reader) throw missing(file.blobKey);
  const bytes = Math.min(CHUNK_BYTES, file.sizeBytes);
  let [present, next] = [Buffer.allocUnsafeSlow(bytes), Buffer.allocUnsafeSlow(bytes)];
  const lines = Buffer.allocUnsafeSlow(base64SizeBytes(bytes));
  const digest = createHash('sha256');
  try {
    let reading = readAhead(reader, present);
    for (let seen = 0; seen < file.sizeBytes; ) {
      const chunk = present.subarray(0, Math.min(await reading, file.sizeBytes - seen));
      seen += chunk.length;
      if (chunk.length < bytes && seen < file.sizeBytes) throw wrongLength(file.blobKey, seen, file.sizeBytes);
      digest.update(chunk);
      if (seen < file.sizeBytes) reading = readAhead(reader, next);
      else if (digest.digest('hex') !== file.sha256) throw changed(file.blobKey);
      yield { base64: lines.subarray(0, writeBase64(chunk, lines, 0)) };
      [present, next] = [next, present];
    }
  } finally {
    await reader.close();
  }
}

/** Handles a rejection right away: it is only reported when the bytes are requested, which may be later or never. */
function readAhead(reader: BlobReader, into: Buffer): Promise<number> {
  const reading = reader.fill(into);
  reading.catch(() => undefined);
  return reading;
}

function missing(blobKey: string): ContentFault {
  return new ContentFault(blobKey, 'a file of the message is missing from storage');
}

function wrongLength(blobKey: string, found: number, accepted: number): ContentFault {
  return new ContentFault(blobKey, `a stored file of the message has ${found} bytes instead of ${accepted}`);
}

function changed(blobKey: string): ContentFault {
  return new ContentFault(
    blobKey,
    'a stored file of the message is not the one that was accepted: its SHA-256 differs',
  );
}
