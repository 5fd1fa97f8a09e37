/**
 * Blobs as objects of an S3-compatible store. Every write carries its digest, which the store verifies before it acknowledges; an
 * acknowledged object is on stable storage there and replaces an existing one as a whole. Up to 16 MB are uploaded in one piece, more in
 * parts. An incomplete read is an error, and a missing bucket is never reported as a missing blob. Every failure is Unavailable (S3Error),
 * after a limited number of tries.
 */
import { Readable } from 'node:stream';
import { sha256 } from '../../base/digest.ts';
import { assertBlobKey, asWritten, type Blobs, exactly, isBlobKey, newBlobKey, streamAsWritten } from './blobs.ts';
import { MARK_NAME } from './mark.ts';
import {
  bytesOf,
  drained,
  openS3Client,
  type S3Call,
  type S3Client,
  type S3ClientOptions,
  S3Error,
  textOf,
  wholeBody,
  xmlElements,
  xmlText,
} from './s3-client.ts';
import { objectName } from './s3-location.ts';
import { abortUnfinished, type BytePart, openPartCutter, PART_BYTES, uploadInParts } from './s3-multipart.ts';

/** Maximum number of stream parts in memory at the same time: 96 MB. */
const PARTS_IN_MEMORY = 6;
const BINARY = 'application/octet-stream';

export interface S3Blobs extends Blobs {
  presignPut: NonNullable<Blobs['presignPut']>;
  /** Aborts calls in flight. */
  close(): Promise<void>;
}

interface ObjectsOptions extends S3ClientOptions {
  /** Returns whether this store writes objects of this name. The prefix can contain objects of other programs. */
  isOwnName(name: string): boolean;
}

/** Objects below the prefix of a location, by their names below it. */
function openObjects(options: ObjectsOptions) {
  const { location, isOwnName } = options;
  const client = openS3Client(options);
  const cutter = openPartCutter({ partBytes: PART_BYTES, partsInMemory: PARTS_IN_MEMORY });
  const prefix = objectName(location, '');
  const inProgress = new Set<string>();

  /** Stores the content under the key, or under a new one with the digest. */
  const putObject = async (given: string | undefined, content: Uint8Array): Promise<string> => {
    const digest = await sha256(content);
    const key = given ?? newBlobKey(digest);
    await client.run(
      {
        name: 'PutObject',
        method: 'PUT',
        key,
        body: content,
        bodySha256: digest.toString('hex'),
        headers: { 'content-type': BINARY, 'x-amz-checksum-sha256': digest.toString('base64') },
      },
      (answer) => drained('PutObject', answer),
    );
    return key;
  };

  /** An object of several parts is named before its digest is known. */
  const putParts = async (given: string | undefined, source: AsyncIterable<Uint8Array>): Promise<string> => {
    const parts = cutter.cut(source);
    try {
      const first = await parts.next();
      if (first.done) throw new Error('a source has at least one part');
      if (first.value.last) return await putObject(given, first.value.bytes);
      const key = given ?? newBlobKey();
      await uploadInParts(client, { key, parts: allParts(first.value, parts), inProgress });
      return key;
    } finally {
      await parts.return(undefined);
    }
  };

  /** Lists the objects whose names begin with this; the time is that of the store. */
  async function* list(start = ''): AsyncGenerator<{ key: string; writtenAtMs: number }> {
    for (let from: Record<string, string> | undefined = {}; from; ) {
      const { text } = await listPage(client, { prefix: prefix + start, ...from });
      for (const object of xmlElements(text, 'Contents')) {
        const key = (xmlText(object, 'Key') ?? '').slice(prefix.length);
        const writtenAtMs = Date.parse(xmlText(object, 'LastModified') ?? '');
        if (!Number.isNaN(writtenAtMs)) yield { key, writtenAtMs };
      }
      const token: string | undefined = xmlText(text, 'NextContinuationToken');
      from = token ? { 'continuation-token': token } : undefined;
    }
  }

  const remove = async (key: string): Promise<void> => {
    const name = 'DeleteObject';
    await client.run({ name, method: 'DELETE', key }, (answer) => drained(name, answer));
  };

  const removeUnfinished = (): Promise<number> =>
    abortUnfinished(client, location, (key, uploadId) => isOwnName(key) && !inProgress.has(uploadId));

  return { client, prefix, putObject, putParts, list, remove, removeUnfinished };
}

/** Files under names of the caller's choice. */
export interface NamedFiles {
  /** Stores what the source yields; replaces a file of the same name. */
  put(name: string, source: AsyncIterable<Uint8Array>): Promise<void>;
  /** Lists the names that begin with this, in no particular order. */
  names(start: string): Promise<string[]>;
  remove(name: string): Promise<void>;
  /** Removes what unfinished writes left over an hour ago by the store's clock; returns how many. */
  removeUnfinished(): Promise<number>;
  close(): Promise<void>;
}

export function openS3Files(options: ObjectsOptions): NamedFiles {
  const { client, putParts, list, remove, removeUnfinished } = openObjects(options);
  return {
    put: async (name, source) => {
      await putParts(name, source);
    },
    names: async (start) => (await Array.fromAsync(list(start))).map(({ key }) => key),
    remove,
    removeUnfinished,
    close: () => client.close(),
  };
}

export function openS3Blobs(options: S3ClientOptions): S3Blobs {
  const { client, prefix, putObject, putParts, list, remove, removeUnfinished } = openObjects({
    ...options,
    isOwnName: isBlobKey,
  });

  const getObject = (key: string): S3Call => {
    assertBlobKey(key);
    return { name: 'GetObject', method: 'GET', key };
  };

  return {
    newKey: newBlobKey,
    put: async (content) => {
      if (content.length <= PART_BYTES) return putObject(undefined, content);
      return putParts(newBlobKey(await sha256(content)), asSource(content));
    },
    putStream: async (source, { key, sizeBytes, sha256: digest } = {}) => {
      if (key !== undefined) assertBlobKey(key);
      return putParts(key ?? (digest && newBlobKey(digest)), exactly(source, sizeBytes));
    },
    get: async (key) => {
      const content = await client.run(getObject(key), (answer) => bytesOf('GetObject', answer));
      return content && asWritten(key, content);
    },
    read: async (key) => {
      const answer = await client.run(getObject(key), async (one) => one);
      if (!answer) return undefined;
      const content = Readable.from(streamAsWritten(key, wholeBody('GetObject', answer)), { objectMode: false });
      // A stream that is destroyed before its first chunk never frees the connection on its own.
      return content.once('close', answer.discard);
    },
    sizeOf: async (key) => {
      assertBlobKey(key);
      const name = 'HeadObject';
      const answer = await client.run({ name, method: 'HEAD', key }, (one) => drained(name, one));
      if (answer === undefined || answer.sizeBytes !== undefined) return answer?.sizeBytes;
      throw new S3Error(`the response to ${name} has no length`, { isRetryable: false });
    },
    remove: async (key) => {
      assertBlobKey(key);
      await remove(key);
    },
    list: async function* () {
      for await (const object of list()) if (isBlobKey(object.key)) yield object;
    },
    storeNowMs: async () => {
      const { nowMs } = await listPage(client, { prefix, 'max-keys': '1' });
      if (nowMs === undefined) throw new S3Error('the response to ListObjectsV2 has no Date', { isRetryable: false });
      return nowMs;
    },
    mark: {
      read: async () => {
        const name = 'GetObject';
        return (await client.run({ name, method: 'GET', key: MARK_NAME }, (answer) => textOf(name, answer)))?.trim();
      },
      write: async (id) => {
        await putObject(MARK_NAME, Buffer.from(`${id}\n`));
      },
    },
    removeUnfinished,
    presignPut: async ({ key, sizeBytes, contentType, sha256: digest, expiresInSeconds, nowMs }) => {
      assertBlobKey(key);
      const headers = { 'Content-Type': contentType, 'x-amz-checksum-sha256': digest.toString('base64') };
      const url = await client.presign(
        { name: 'PutObject', method: 'PUT', key, headers: { ...headers, 'Content-Length': String(sizeBytes) } },
        { expiresInSeconds, nowMs },
      );
      return { url, headers };
    },
    close: () => client.close(),
  };
}

/** Reads one page of the listing, unparsed, and the store's clock. */
async function listPage(
  client: S3Client,
  query: Record<string, string>,
): Promise<{ text: string; nowMs: number | undefined }> {
  const name = 'ListObjectsV2';
  const page = await client.run({ name, method: 'GET', query: { 'list-type': '2', ...query } }, async (answer) => ({
    text: await textOf(name, answer),
    nowMs: answer.storeNowMs,
  }));
  return page ?? { text: '', nowMs: undefined };
}

async function* asSource(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content;
}

async function* allParts(first: BytePart, rest: AsyncGenerator<BytePart>): AsyncGenerator<Uint8Array> {
  yield first.bytes;
  for await (const part of rest) yield part.bytes;
}
