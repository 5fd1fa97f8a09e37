/**
 * A captured message for a person or a test: html, text, headers, and what tests search for, links and codes. Only the beginning of a large
 * message is read; its files come after its text. Nothing here is ever sent.
 */
import { htmlToText } from '../mail/html/html-text.ts';
import { codesOf } from './codes.ts';

const READ_BYTES = 4_000_000;
/** Limit because parsing takes about 4 us per line, however short. */
const READ_LINES = 60_000;
const MOST_FOUND = 100;

export interface Preview {
  html: string | null;
  text: string | null;
  /** By name as the message writes it; values of a repeated header are joined by line breaks. */
  headers: Record<string, string>;
  /** URLs in html and text without duplicates, in order. */
  links: string[];
  /** Probable codes to type in (codes.ts). */
  codes: string[];
}

export async function previewOf(content: Uint8Array): Promise<Preview> {
  // A service that shows no preview does not load this package.
  const { default: PostalMime } = await import('postal-mime');
  // Attached mail stays an attachment: parsing it takes as long again for each level.
  const email = await PostalMime.parse(beginningOf(content), { forceRfc822Attachments: true });
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const { originalKey, value } of email.headers) {
    headers[originalKey] = originalKey in headers ? `${headers[originalKey]}\n${value}` : value;
  }
  const html = withoutLastLineEnd(email.html);
  const text = withoutLastLineEnd(email.text);
  return { html, text, headers, links: linksOf(html ?? '', text ?? ''), codes: codesIn(html, text) };
}

function beginningOf(content: Uint8Array): Uint8Array {
  const most = content.subarray(0, READ_BYTES);
  let end = -1;
  for (let lines = 0; lines < READ_LINES; lines += 1) {
    end = most.indexOf(0x0a, end + 1);
    if (end === -1) return most;
  }
  return most.subarray(0, end + 1);
}

/** Returns codes in the text, or in the html if the text has none. */
function codesIn(html: string | null, text: string | null): string[] {
  const inText = text === null ? [] : codesOf(text);
  return inText.length > 0 || html === null ? inText : codesOf(htmlToText(html));
}

/** The final line end belongs to the message, not to its text. */
function withoutLastLineEnd(part: string | undefined): string | null {
  return part?.replace(/\r?\n$/, '') ?? null;
}

const ENTITIES: Record<string, string> = { '&amp;': '&', '&#38;': '&', '&quot;': '"', '&#39;': "'" };

/** Starts only after another character, so that each run of punctuation is read once. */
const PUNCTUATION_LAST = /(?<![.,;:!?])[.,;:!?]+$/;

function linksOf(html: string, text: string): string[] {
  const found = new Set<string>();
  for (const [, quoted, single, bare] of html.matchAll(/\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/gi)) {
    const link = (quoted ?? single ?? bare ?? '').trim();
    found.add(link.replace(/&(?:amp|#38|quot|#39);/g, (entity) => ENTITIES[entity]!));
  }
  for (const [link] of text.matchAll(/\bhttps?:\/\/[^\s<>"'\])]+/gi)) found.add(link.replace(PUNCTUATION_LAST, ''));
  return [...found].filter((link) => /^(?:https?|mailto):/i.test(link)).slice(0, MOST_FOUND);
}
