/**
 * The parameters of the DSN extension (RFC 3461): NOTIFY and ORCPT of RCPT, ENVID of MAIL, and the xtext encoding they share.
 * Pure functions; undefined means that the value is malformed.
 */
import type { ReportKind } from '../messages/messages.ts';

/** The delivery status notifications that RCPT requested for one recipient (RFC 3461). */
export interface RecipientReports {
  /** Empty for NEVER; absent without NOTIFY. */
  notify?: readonly ReportKind[];
  /** Decoded: an address type, a semicolon and the address. */
  originalRecipient?: string;
}

const MAX_ENVID_LENGTH = 100;
const MAX_ORCPT_LENGTH = 500;
/** RFC 3461 §4: visible ASCII except `+` and `=`, which are written as `+2B` and `+3D`. */
const XTEXT = /^(?:[!-*,-<>-~]|\+[0-9A-F]{2})+$/;
const PRINTABLE = /^[\x20-\x7e]+$/;
const ADDRESS_TYPE = /^[A-Za-z0-9][A-Za-z0-9-]{0,39}$/;
/** RFC 6533 §3: non-ASCII characters, and those not allowed in an esmtp-value, as `\x{HEX}`. */
const EMBEDDED_CHARACTER = /\\x\{([0-9A-F]{2,6})\}/g;
const NON_ASCII = /[^\x00-\x7f]/;
const FORBIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;

const KINDS: Readonly<Record<string, ReportKind>> = { SUCCESS: 'success', FAILURE: 'failure', DELAY: 'delay' };

export function isXtext(text: string): boolean {
  return XTEXT.test(text);
}

function decodeXtext(text: string): string {
  return text.replace(/\+([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** NOTIFY (RFC 3461 §4.1): empty for NEVER, which must be alone. */
export function parseNotify(value: string): readonly ReportKind[] | undefined {
  const words = value.toUpperCase().split(',');
  if (words.length === 1 && words[0] === 'NEVER') return [];
  const kinds = words.map((word) => (Object.hasOwn(KINDS, word) ? KINDS[word] : undefined));
  return kinds.includes(undefined) ? undefined : [...new Set(kinds as ReportKind[])];
}

/** ENVID (RFC 3461 §4.4): at most 100 characters of xtext that encode printable ASCII. */
export function decodeEnvid(value: string): string | undefined {
  if (value.length > MAX_ENVID_LENGTH || !XTEXT.test(value)) return undefined;
  const text = decodeXtext(value);
  return PRINTABLE.test(text) ? text : undefined;
}

/** ORCPT (RFC 3461 §4.2, RFC 6533 §3): at most 500 characters, `type;address`. */
export function decodeOriginalRecipient(value: string, smtpUtf8: boolean): string | undefined {
  const semicolon = value.indexOf(';');
  const type = value.slice(0, Math.max(0, semicolon));
  const encoded = value.slice(semicolon + 1);
  if (value.length > MAX_ORCPT_LENGTH || encoded === '' || !ADDRESS_TYPE.test(type)) return undefined;
  const address = type.toLowerCase() === 'utf-8' ? decodeUtf8Address(encoded, smtpUtf8) : decodeAscii(encoded);
  return address === undefined ? undefined : `${type};${address}`;
}

function decodeAscii(encoded: string): string | undefined {
  if (!XTEXT.test(encoded)) return undefined;
  const text = decodeXtext(encoded);
  return PRINTABLE.test(text) ? text : undefined;
}

/** Raw UTF-8 requires SMTPUTF8 in MAIL. */
function decodeUtf8Address(encoded: string, smtpUtf8: boolean): string | undefined {
  if (!smtpUtf8 && NON_ASCII.test(encoded)) return undefined;
  if (/[\x00-\x20\x7f=]/.test(encoded)) return undefined;
  const codes = [...encoded.matchAll(EMBEDDED_CHARACTER)].map(([, hex]) => Number.parseInt(hex!, 16));
  if (codes.some((code) => code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))) return undefined;
  const text = encoded
    .replace(EMBEDDED_CHARACTER, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replace(/\+([0-9A-F]{2})/g, (whole, hex: string) => {
      const code = Number.parseInt(hex, 16);
      return code < 0x80 ? String.fromCharCode(code) : whole;
    });
  return FORBIDDEN.test(text) ? undefined : text;
}
