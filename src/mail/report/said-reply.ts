/**
 * Addresses, reply codes and enhanced status codes (RFC 3463) as they stand in the words of reports: `host mx.example.com said:
 * 550 5.1.1 unknown`, `(#5.1.1)`. Bare numbers that are part of an IP address or of a size are none.
 */
import { trimmed } from '../../base/trim.ts';

export interface SaidReply {
  smtpCode: number | null;
  status: string | null;
  /** From the code on; the whole text where there is none. */
  text: string;
}

const CODE =
  /(?:^|said:|[\s:;("'<>#,[])(4[2-7]\d|5[0-7]\d)(?=[\s,:;)\]"#-]|$)(?!\s?(?:bytes|kb|mb|messages|seconds|hours|days|minutes)\b)/gi;
const STATUS = /(?<![\d.])([245]\.\d{1,2}\.\d{1,3})(?!\d|\.\d)/g;
const MAX_LOOKED_AT = 8000;
const MAX_TEXT = 64_000;
const MAX_DIAGNOSTIC = 1000;
/** Codes that the same reply repeats on each of its lines (`550-5.1.1 …  550 5.1.1 …`). */
const REPEATED = /(?<=\S\s)([45]\d\d)[- ](?:([45]\.\d{1,2}\.\d{1,3}) )?/g;

/** Looked for by its `@`: a search from each letter in front of it would cost 64 times as much. */
const ADDRESS =
  /(?<=([\p{L}\p{N}!#$%&'*+/=?^_`{|}~.-]{1,64}|"[^"@\\\s<>]{1,64}"))@[\p{L}\p{N}](?:[\p{L}\p{N}._-]{0,250}[\p{L}\p{N}])?/gu;

/** The first address in a text, without brackets; leading punctuation that is no part of it is left out. */
export function addressIn(text: string): string | null {
  return addressesIn(text.slice(0, MAX_LOOKED_AT), 1)[0] ?? null;
}

/** Every address, each once. */
export function addressesIn(text: string, atMost: number): string[] {
  const found = new Set<string>();
  for (const [domain, local] of text.slice(0, MAX_TEXT).matchAll(ADDRESS)) {
    if (found.size >= atMost) break;
    found.add(`${local}${domain}`.replace(/^['.=]+/, ''));
  }
  return [...found];
}

/** The status that fits to the code, and says more than `x.0.0` where another does. */
function statusOf(text: string, smtpCode: number | null): string | null {
  let vague: string | null = null;
  for (const [, status] of text.matchAll(STATUS)) {
    if (smtpCode !== null && Number(status![0]) !== Math.floor(smtpCode / 100)) continue;
    if (!isVague(status!)) return status!;
    vague ??= status!;
  }
  return vague;
}

/** `5.0.0` and its like name a class and nothing more. */
export function isVague(status: string): boolean {
  return /^\d\.0\.0$/.test(status);
}

/** What must not be shown: controls, and what turns the direction of text. */
export const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

/** White space collapsed, repeated codes of a reply's lines left out, bounded. */
export function tidied(text: string): string {
  return text
    .slice(0, MAX_LOOKED_AT)
    .replace(UNPRINTABLE, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, MAX_DIAGNOSTIC)
    .toWellFormed();
}

const isFrame = (code: number): boolean => code <= 0x20 || '[]<>*-'.includes(String.fromCharCode(code));

/** What a server is quoted to have said. */
export function saidReply(raw: string): SaidReply {
  const text = tidied(raw);
  CODE.lastIndex = 0;
  const found = CODE.exec(text);
  const smtpCode = found ? Number(found[1]) : null;
  const from = found ? text.slice(found.index + found[0].length - 3) : text;
  const status = statusOf(from, smtpCode) ?? statusOf(text, smtpCode);
  const said =
    smtpCode === null ? from : from.replace(REPEATED, (all, code: string) => (Number(code) === smtpCode ? '' : all));
  const reply = trimmed(said, isFrame);
  const inFront = found && WITHOUT_WORDS.test(reply) ? trimmed(text.slice(0, found.index), isFrame) : '';
  return {
    smtpCode,
    status,
    text: /\p{L}\s\p{L}/u.test(inFront) && !/[:,]$/.test(inFront) ? `${reply} ${inFront}` : reply,
  };
}

/** A reply of codes alone: some servers say why in front of them. */
const WITHOUT_WORDS = /^[45]\d\d(?:[ -]#?[45]\.\d{1,3}\.\d{1,3})?[.\s]*$/;
