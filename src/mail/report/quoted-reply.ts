/**
 * Finds addresses, reply codes, and enhanced status codes (RFC 3463) in the text of reports: `host mx.example.com said: 550 5.1.1 unknown`,
 * `(#5.1.1)`. Numbers that are part of an IP address or of a size are ignored.
 */
import { trimmed } from '../../base/trim.ts';

export interface QuotedReply {
  smtpCode: number | null;
  status: string | null;
  /** From the code on; the complete text if there is none. */
  text: string;
}

const CODE =
  /(?:^|said:|[\s:;("'<>#,[])(4[2-7]\d|5[0-7]\d)(?=[\s,:;)\]"#-]|$)(?!\s?(?:bytes|kb|mb|messages|seconds|hours|days|minutes)\b)/gi;
const STATUS = /(?<![\d.])([245]\.\d{1,2}\.\d{1,3})(?!\d|\.\d)/g;
const MAX_SEARCHED = 8000;
const MAX_TEXT = 64_000;
const MAX_DIAGNOSTIC = 1000;
/** Codes that one reply repeats on each of its lines (`550-5.1.1 …  550 5.1.1 …`). */
const REPEATED = /(?<=\S\s)([45]\d\d)[- ](?:([45]\.\d{1,2}\.\d{1,3}) )?/g;

/** Searched by its `@`: starting at each letter before it would cost 64 times as much. */
const ADDRESS =
  /(?<=([\p{L}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64}|"[^"@\\\s<>]{1,64}"))@[\p{L}\p{N}](?:[\p{L}\p{N}._-]{0,250}[\p{L}\p{N}])?/gu;

/** Returns the first address in a text, without brackets and leading punctuation. */
export function addressIn(text: string): string | null {
  return addressesIn(text.slice(0, MAX_SEARCHED), 1)[0] ?? null;
}

/** Returns every address without duplicates. */
export function addressesIn(text: string, atMost: number): string[] {
  const found = new Set<string>();
  for (const [domain, local] of text.slice(0, MAX_TEXT).matchAll(ADDRESS)) {
    if (found.size >= atMost) break;
    const localPart = local!.replace(/^['.=]+/, '');
    if (localPart !== '') found.add(`${localPart}${domain}`);
  }
  return [...found];
}

/** Returns the status that matches the code, preferring one that is more specific than `x.0.0`. */
function statusOf(text: string, smtpCode: number | null): string | null {
  let vague: string | null = null;
  for (const [, status] of text.matchAll(STATUS)) {
    if (smtpCode !== null && Number(status![0]) !== Math.floor(smtpCode / 100)) continue;
    if (!isVague(status!)) return status!;
    vague ??= status!;
  }
  return vague;
}

/** `5.0.0` and the like only name a class. */
export function isVague(status: string): boolean {
  return /^\d\.0\.0$/.test(status);
}

/** What must not be displayed: control characters and text direction controls. */
export const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

/** Collapses white space, removes codes repeated on a reply's lines, and limits the length. */
export function tidied(text: string): string {
  return text
    .slice(0, MAX_SEARCHED)
    .replace(UNPRINTABLE, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, MAX_DIAGNOSTIC)
    .toWellFormed();
}

const isFrame = (code: number): boolean => code <= 0x20 || '[]<>*-'.includes(String.fromCharCode(code));

/** Returns the server reply that the text quotes. */
export function quotedReply(raw: string): QuotedReply {
  const text = tidied(raw);
  CODE.lastIndex = 0;
  const found = CODE.exec(text);
  const smtpCode = found ? Number(found[1]) : null;
  const from = found ? text.slice(found.index + found[0].length - 3) : text;
  const status = statusOf(from, smtpCode) ?? statusOf(text, smtpCode);
  const quoted =
    smtpCode === null ? from : from.replace(REPEATED, (all, code: string) => (Number(code) === smtpCode ? '' : all));
  const reply = trimmed(quoted, isFrame);
  const inFront = found && WITHOUT_WORDS.test(reply) ? trimmed(text.slice(0, found.index), isFrame) : '';
  return {
    smtpCode,
    status,
    text: /\p{L}\s\p{L}/u.test(inFront) && !/[:,]$/.test(inFront) ? `${reply} ${inFront}` : reply,
  };
}

/** A reply of codes only: some servers write the reason before them. */
const WITHOUT_WORDS = /^[45]\d\d(?:[ -]#?[45]\.\d{1,3}\.\d{1,3})?[.\s]*$/;
