/**
 * Attachments of a send, in every form that clients use: Base64, a list of bytes, a Node Buffer serialized as JSON, or the URL of a file,
 * which is fetched from a public address. A missing name or type is derived from the URL or the name.
 */
import type { Static } from 'typebox';
import { ok, type Result } from '../../base/failure.ts';
import { Type } from '../../http/schema-type.ts';
import type { HttpClient } from '../../net/http-client.ts';
import { typeOfFile } from '../file-types.ts';
import { invalidField, open } from './endpoint.ts';

/** Limit of all files of an email together; the complete email has a limit of its own. */
export const MAX_FILES_BYTES = 2_000_000;
const FETCH_MS = 10_000;
const MAX_REDIRECTS = 3;

const content = Type.Union([
  Type.String({ maxLength: 16_000_000 }),
  Type.Unsafe<unknown[]>({ type: 'array', description: 'Bytes, as the SDKs for Python and Go write them.' }),
  open({ type: Type.Literal('Buffer'), data: Type.Unsafe<unknown[]>({ type: 'array' }) }),
]);

export const attachment = open({
  content: Type.Optional(content),
  path: Type.Optional(Type.String({ maxLength: 2_048, description: 'URL of a file that is fetched.' })),
  filename: Type.Optional(Type.Union([Type.String({ maxLength: 255 }), Type.Literal(false)])),
  content_type: Type.Optional(Type.String({ maxLength: 255 })),
  content_id: Type.Optional(Type.String({ maxLength: 255 })),
  inline_content_id: Type.Optional(Type.String({ maxLength: 255, description: 'Earlier name of `content_id`.' })),
});
type Given = Static<typeof attachment>;

export interface SendAttachment {
  name: string;
  contentType: string;
  content: string;
  contentId?: string;
}

/** Returns the bytes of a Buffer serialized as JSON; undefined if an element is not a byte. */
function bytesOf(data: readonly unknown[]): Buffer | undefined {
  const bytes = Buffer.alloc(data.length);
  for (const [index, byte] of data.entries()) {
    if (typeof byte !== 'number' || !Number.isInteger(byte) || byte < 0 || byte > 255) return undefined;
    bytes[index] = byte;
  }
  return bytes;
}

function nameInUrl(url: string): string {
  const last = URL.parse(url)?.pathname.split('/').at(-1) ?? '';
  try {
    return decodeURIComponent(last).replace(/[\p{Cc}/\\]/gu, '_');
  } catch {
    return '';
  }
}

/** Fetches a file and follows a few redirects; the address guard checks each of them. */
async function fetchFile(http: HttpClient, url: string, field: string): Promise<Result<Buffer>> {
  let next = url;
  for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
    const outcome = await http.get({ url: next, timeoutMs: FETCH_MS, maxBytes: MAX_FILES_BYTES });
    if (!outcome.ok) return invalidField(field, `cannot be fetched: ${outcome.message}`);
    const { status, headers, body } = outcome;
    if (status >= 300 && status < 400 && headers.location !== undefined) {
      next = URL.parse(headers.location, next)?.href ?? '';
      continue;
    }
    if (status !== 200) return invalidField(field, `cannot be fetched: the server returned ${status}`);
    return body === undefined
      ? invalidField(field, `cannot be fetched: the file has more than ${MAX_FILES_BYTES} bytes`)
      : ok(body);
  }
  return invalidField(field, `cannot be fetched: more than ${MAX_REDIRECTS} redirects`);
}

/** Returns attachments in the form of POST /send, or the failure of the first one that is not valid. */
export async function readAttachments(http: HttpClient, given: readonly Given[]): Promise<Result<SendAttachment[]>> {
  const read: SendAttachment[] = [];
  let sizeBytes = 0;
  for (const [index, one] of given.entries()) {
    const field = `attachments[${index}]`;
    const { content: inline, content_type: contentType } = one;
    // Some clients send the fields that they do not use as empty strings, and older ones use another name of `content_id`.
    const path = one.path === '' ? undefined : one.path;
    const contentId = one.content_id || one.inline_content_id || undefined;
    if ((inline === undefined) === (path === undefined)) return invalidField(field, 'needs either content or path');
    let base64 = typeof inline === 'string' ? inline : undefined;
    if (base64 === undefined) {
      const bytes =
        typeof inline === 'object'
          ? ok(bytesOf('data' in inline ? inline.data : inline))
          : await fetchFile(http, path!, `${field}.path`);
      if (!bytes.ok) return bytes;
      if (bytes.value === undefined)
        return invalidField(`${field}.content`, 'must be a Buffer, or its bytes in Base64');
      base64 = bytes.value.toString('base64');
    }
    sizeBytes += Math.floor((base64.length * 3) / 4);
    if (sizeBytes > MAX_FILES_BYTES + 2)
      return invalidField(field, `exceeds the limit of ${MAX_FILES_BYTES} bytes for all files of an email together`);
    const named = typeof one.filename === 'string' && one.filename !== '' ? one.filename : undefined;
    const name = named ?? ((path === undefined ? '' : nameInUrl(path)) || `attachment-${index + 1}`);
    read.push({
      name,
      contentType: contentType ?? typeOfFile(name),
      content: base64,
      ...(contentId !== undefined && { contentId: contentId.replace(/^<(.*)>$/, '$1') }),
    });
  }
  return ok(read);
}
