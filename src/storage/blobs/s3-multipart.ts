/**
 * Multipart uploads, for content that is larger than one part or of unknown length. The object exists only once all its parts are
 * acknowledged and the upload is completed; a failure before that aborts it, and removeUnfinished() aborts uploads that a crash left, but
 * none of other programs that use the same bucket. The response to the completion may be lost: the object then carries the mark of the
 * upload.
 *
 * Cuts a stream into parts of one size, one in memory at a time. Large streams share a fixed number of permits, which limits memory; a
 * stream without a permit waits.
 */

import { createHash } from 'node:crypto';
import { randomText } from '../../base/ids.ts';
import { createSemaphore } from '../../base/semaphore.ts';
import { UNFINISHED_MS } from './blobs.ts';
import {
  drained,
  errorFromAnswer,
  escapeXml,
  type S3Client,
  S3Error,
  textOf,
  xmlElements,
  xmlText,
} from './s3-client.ts';
import { objectName, type S3Location } from './s3-location.ts';

export interface BytePart {
  /** Overwritten as soon as the next part is requested. */
  bytes: Uint8Array;
  /** This is the last part. */
  last: boolean;
}

interface PartCutter {
  /** Yields at least one part, which is empty for an empty source; all but the last have `partBytes`. Errors of the source pass through. */
  cut(source: AsyncIterable<Uint8Array>): AsyncGenerator<BytePart>;
}

const FIRST_BYTES = 64 * 1024;
/** A part that grows larger than this needs a permit. */
const FREE_BYTES = 1024 * 1024;

export function openPartCutter({ partBytes, partsInMemory }: { partBytes: number; partsInMemory: number }): PartCutter {
  const permits = createSemaphore(partsInMemory);

  async function* cut(source: AsyncIterable<Uint8Array>): AsyncGenerator<BytePart> {
    let buffer: Buffer<ArrayBuffer> = Buffer.allocUnsafeSlow(Math.min(FIRST_BYTES, partBytes));
    let filled = 0;
    let hasPermit = false;
    try {
      for await (const chunk of source) {
        for (let from = 0; from < chunk.length; ) {
          if (filled === partBytes) {
            yield { bytes: buffer, last: false };
            filled = 0;
          }
          const taken = Math.min(chunk.length - from, partBytes - filled);
          if (!hasPermit && filled + taken > FREE_BYTES) {
            await permits.acquire();
            hasPermit = true;
          }
          if (filled + taken > buffer.length) buffer = grown(buffer, filled + taken);
          buffer.set(chunk.subarray(from, from + taken), filled);
          filled += taken;
          from += taken;
        }
      }
      yield { bytes: buffer.subarray(0, filled), last: true };
    } finally {
      if (hasPermit) permits.release();
    }
  }

  const grown = (buffer: Uint8Array, neededBytes: number): Buffer<ArrayBuffer> => {
    let bytes = buffer.length;
    while (bytes < neededBytes) bytes = Math.min(bytes * 2, partBytes);
    const larger = Buffer.allocUnsafeSlow(bytes);
    larger.set(buffer);
    return larger;
  };

  return { cut };
}

/** Also the maximum size of a single-part upload. Stores require at least 5 MB per part. */
export const PART_BYTES = 16 * 1024 * 1024;
/** The store assembles the parts before it responds. */
const COMPLETE_MS = 60_000;
const MARK = 'x-amz-meta-write';

interface UploadToWrite {
  key: string;
  /** All but the last have PART_BYTES. */
  parts: AsyncIterable<Uint8Array>;
  /** The ids of the uploads in progress, which include this one until it ends. */
  inProgress: Set<string>;
}

/** Uploads the parts in sequence. */
export async function uploadInParts(client: S3Client, { key, parts, inProgress }: UploadToWrite): Promise<void> {
  const mark = randomText(26);
  const created = await client.run(
    {
      name: 'CreateMultipartUpload',
      method: 'POST',
      key,
      query: { uploads: '' },
      headers: { 'content-type': 'application/octet-stream', [MARK]: mark },
    },
    (answer) => textOf('CreateMultipartUpload', answer),
  );
  const uploadId = xmlText(created ?? '', 'UploadId');
  if (!uploadId) throw new S3Error('the response to CreateMultipartUpload has no UploadId', { isRetryable: false });
  inProgress.add(uploadId);
  try {
    const etags: string[] = [];
    for await (const part of parts)
      etags.push(await uploadPart(client, { key, uploadId, part, number: etags.length + 1 }));
    await complete(client, { key, uploadId, etags, mark });
  } catch (error) {
    await abort(client, key, uploadId).catch(() => undefined);
    throw error;
  } finally {
    inProgress.delete(uploadId);
  }
}

async function uploadPart(
  client: S3Client,
  { key, uploadId, part, number }: { key: string; uploadId: string; part: Uint8Array; number: number },
): Promise<string> {
  const name = 'UploadPart';
  const bodySha256 = createHash('sha256').update(part).digest('hex');
  const query = { partNumber: String(number), uploadId };
  const answer = await client.run({ name, method: 'PUT', key, query, body: part, bodySha256 }, (one) =>
    drained(name, one),
  );
  const etag = answer?.headers.etag;
  if (!etag) throw new S3Error('the response to UploadPart has no ETag', { isRetryable: false });
  return etag;
}

async function complete(
  client: S3Client,
  { key, uploadId, etags, mark }: { key: string; uploadId: string; etags: string[]; mark: string },
): Promise<void> {
  const name = 'CompleteMultipartUpload';
  const parts = etags.map(
    (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`,
  );
  const body = Buffer.from(`<${name}>${parts.join('')}</${name}>`);
  const headers = { 'content-type': 'application/xml' };
  const query = { uploadId };
  try {
    await client.run({ name, method: 'POST', key, query, headers, body, answerMs: COMPLETE_MS }, async (answer) => {
      // The status is sent before the parts are assembled, so only the body reports success.
      const text = await textOf(name, answer);
      if (!text.includes(`<${name}Result`)) throw errorFromAnswer(name, { status: 500, body: text });
    });
  } catch (error) {
    const stored = await client
      .run({ name: 'HeadObject', method: 'HEAD', key }, (answer) => drained('HeadObject', answer))
      .catch(() => undefined);
    if (stored?.headers[MARK] !== mark) throw error;
  }
}

async function abort(client: S3Client, key: string, uploadId: string): Promise<void> {
  const name = 'AbortMultipartUpload';
  await client.run({ name, method: 'DELETE', key, query: { uploadId } }, (answer) => drained(name, answer));
}

/**
 * Aborts the uploads under the prefix that started over an hour ago by the store's clock; returns how many. `isLeft` returns whether an
 * upload can be one that a crash left: uploads of other programs can have the same prefix.
 */
export async function abortUnfinished(
  client: S3Client,
  location: S3Location,
  isLeft: (key: string, uploadId: string) => boolean,
): Promise<number> {
  const name = 'ListMultipartUploads';
  const prefix = objectName(location, '');
  let aborted = 0;
  let from: Record<string, string> = {};
  for (;;) {
    const query = { uploads: '', prefix, ...from };
    const page = await client.run({ name, method: 'GET', query }, async (answer) => ({
      text: await textOf(name, answer),
      nowMs: answer.storeNowMs,
    }));
    if (!page) return aborted;
    for (const upload of xmlElements(page.text, 'Upload')) {
      const object = xmlText(upload, 'Key') ?? '';
      const uploadId = xmlText(upload, 'UploadId');
      const ageMs = (page.nowMs ?? 0) - Date.parse(xmlText(upload, 'Initiated') ?? '');
      if (!object.startsWith(prefix) || uploadId === undefined || !(ageMs > UNFINISHED_MS)) continue;
      const key = object.slice(prefix.length);
      if (!isLeft(key, uploadId)) continue;
      await abort(client, key, uploadId);
      aborted += 1;
    }
    const [keyMarker, uploadIdMarker] = [xmlText(page.text, 'NextKeyMarker'), xmlText(page.text, 'NextUploadIdMarker')];
    if (xmlText(page.text, 'IsTruncated') !== 'true' || !keyMarker) return aborted;
    from = { 'key-marker': keyMarker, ...(uploadIdMarker ? { 'upload-id-marker': uploadIdMarker } : {}) };
  }
}
