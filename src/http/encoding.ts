/** Content encodings of responses (RFC 9110 §12.5.3). */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';

/** Shorter JSON fits into few packets as it is. */
const COMPRESSED_FROM_BYTES = 2_048;

const compress = promisify(gzip);

/** The encodings that a client accepts, in lower case; those with `q=0` are left out. */
export function acceptedEncodings(header: string | undefined): string[] {
  return (header ?? '')
    .toLowerCase()
    .split(',')
    .filter((element) => !/;\s*q=0(?:\.0*)?\s*$/.test(element))
    .map((element) => element.split(';', 1)[0]!.trim());
}

/**
 * Returns a JSON body compressed by gzip; undefined if it is short or the client does not accept gzip. Only responses to GET are compressed:
 * responses to other methods may contain a new secret next to text of the request, and their length would tell parts of it (BREACH).
 */
export async function compressedJson({ request }: Exchange, content: string): Promise<Buffer | undefined> {
  if (request.method !== 'GET' || content.length < COMPRESSED_FROM_BYTES) return undefined;
  if (!acceptedEncodings(request.headers['accept-encoding']?.toString()).includes('gzip')) return undefined;
  return compress(content);
}
