/**
 * The mechanisms PLAIN (RFC 4616) and LOGIN as bytes: Base64 to user name and password. Refuses what is no Base64, wrong
 * numbers of NULs, controls in the names, and names that are no UTF-8. Knows nothing of who may log in.
 */
import { isUtf8 } from 'node:buffer';

export interface Credentials {
  username: string;
  password: string;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const CONTROL = /[\x00-\x1f\x7f]/;

/** The bytes of a response; undefined when it is not Base64. `=` stands for an empty initial response (RFC 4954 §4). */
export function decodeResponse(text: string): Buffer | undefined {
  if (text === '=') return Buffer.alloc(0);
  return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined;
}

/** The text of a LOGIN response; undefined when it is none. */
export function decodeText(text: string): string | undefined {
  const bytes = decodeResponse(text);
  return bytes !== undefined && isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}

export type PlainResponse = { ok: true; value: Credentials } | { ok: false; why: 'malformed' | 'other identity' };

/** `authzid NUL authcid NUL password`; to act for somebody else than oneself is refused. */
export function readPlain(text: string): PlainResponse {
  const parts = decodeText(text)?.split('\0');
  if (parts?.length !== 3) return { ok: false, why: 'malformed' };
  const [identity, username, password] = parts as [string, string, string];
  if (CONTROL.test(identity + username)) return { ok: false, why: 'malformed' };
  if (identity !== '' && identity !== username) return { ok: false, why: 'other identity' };
  return { ok: true, value: { username, password } };
}
