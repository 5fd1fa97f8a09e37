/**
 * Converts header fields with raw UTF-8 (RFC 6532) to the form that every server accepts: text and display names become encoded-words (RFC
 * 2047), parameters RFC 2231, domains A-labels, links percent-encoded. A reader sees the same. ASCII fields are unchanged. An address with
 * a UTF-8 local part has no such form: if it is only displayed or replied to, it becomes an empty group named after it (RFC 6857 §3.1), so
 * that the other addresses remain usable. Refused are such addresses in sender fields, and message ids with UTF-8.
 *
 * Invalid UTF-8 occurs only in the headers of parts, and is read as Windows-1252, like email clients do.
 */
import { domainToAscii } from '../address.ts';
import { hasLinks, percentEncoded } from '../compose/extra-field.ts';
import { encodedWords, encodePhrase, fold, parameter } from '../compose/header.ts';
import { decodeWords, headerText } from './header-fields.ts';
import { type MailboxItem, mailboxItems } from './mailbox-list.ts';
import { parameterizedValue } from './mime-walk.ts';

export type DowngradedField = { ok: true; line: string } | { ok: false; text: string };

const MAX_LINE_BYTES = 998;
const NON_ASCII = /[^\x00-\x7f]/;
const NON_ASCII_RUN = /[^\x00-\x7f]+/g;
const CONTROLS = /[\x00-\x1f\x7f\u0085\u2028\u2029]+/g;

const ADDRESS_FIELDS = new Set(
  `from sender reply-to to cc bcc resent-from resent-sender resent-reply-to resent-to resent-cc resent-bcc return-path
  disposition-notification-to return-receipt-to errors-to`.split(/\s+/),
);
/** Fields among these whose addresses are only displayed or replied to. */
const SHOWN_FIELDS = new Set('reply-to to cc bcc resent-reply-to resent-to resent-cc resent-bcc'.split(' '));
const ID_FIELDS = new Set(['message-id', 'in-reply-to', 'references', 'content-id', 'resent-message-id']);
const PARAMETER_FIELDS = new Set(['content-type', 'content-disposition']);

function clean(text: string): string {
  return text.replace(CONTROLS, ' ');
}

/** Returns the address with its domain in A-labels; undefined if it has no ASCII form. */
function asciiSpec(spec: string): string | undefined {
  if (!NON_ASCII.test(spec)) return spec;
  const at = spec.lastIndexOf('@');
  const domain =
    at < 0
      ? undefined
      : domainToAscii(
          spec
            .slice(at + 1)
            .trim()
            .normalize('NFC'),
        );
  return domain === undefined || NON_ASCII.test(spec.slice(0, at)) ? undefined : `${spec.slice(0, at)}@${domain}`;
}

function commentText(comment: string): string {
  const text = clean(comment);
  return NON_ASCII.test(text) ? `(${encodedWords(text, 12)})` : `(${text.replace(/[()\\]/g, '\\$&')})`;
}

function itemText(item: MailboxItem & { kind: 'mailbox' }): string | undefined {
  const spec = asciiSpec(item.spec);
  if (spec === undefined) return undefined;
  const name = encodePhrase(clean(item.name).trim());
  const mailbox = name === '' ? spec : `${name} <${spec}>`;
  return [mailbox, ...item.comments.map(commentText)].join(' ');
}

/** Returns an address without an ASCII form as the name of a group without members. */
function groupText(item: MailboxItem & { kind: 'mailbox' }): string {
  const shown = clean(item.name === '' ? item.spec : `${item.name} ${item.spec}`);
  return `${encodePhrase(shown.trim())} :;`;
}

/**
 * Returns the mailboxes with encoded names; undefined if an address has no ASCII form and is not merely `shown`. Groups cannot be nested,
 * so one that replaces a member of a group follows that group.
 */
function listText(items: readonly MailboxItem[], shown: boolean): string | undefined {
  let out = '';
  let separator = '';
  let pending: string[] | undefined;
  for (const item of items) {
    if (item.kind === 'groupEnd') {
      out += [';', ...(pending ?? [])].join(', ');
      pending = undefined;
      separator = ', ';
    } else if (item.kind === 'group') {
      out += `${separator}${encodePhrase(clean(item.name).trim())}:`;
      separator = ' ';
      pending = [];
    } else {
      const text = itemText(item);
      if (text === undefined && !shown) return undefined;
      if (text === undefined && pending) pending.push(groupText(item));
      else {
        out += separator + (text ?? groupText(item));
        separator = ', ';
      }
    }
  }
  return out;
}

/**
 * Encodes readable text from the first to the last word that needs it. Existing encoded-words in between are encoded too, because white
 * space between two encoded-words is not displayed.
 */
function wordsText(value: string, column: number): string {
  const words = value.split(/([ \t]+)/);
  const needs = (word: string): boolean => NON_ASCII.test(word) || (word.startsWith('=?') && word.endsWith('?='));
  const first = words.findIndex(needs);
  const last = words.findLastIndex(needs);
  const run = decodeWords(words.slice(first, last + 1).join(''));
  return words.slice(0, first).join('') + encodedWords(clean(run), column) + words.slice(last + 1).join('');
}

/** Percent-encodes links in angle brackets and encodes the text between them. */
function linksText(value: string, column: number): string {
  const encoded = (part: string): string => {
    if (!NON_ASCII.test(part)) return part;
    return part.startsWith('<') && part.endsWith('>') ? percentEncoded(part) : wordsText(part, column);
  };
  return value
    .split(/(<[^<>]*>)/)
    .map(encoded)
    .join('');
}

/** Fixes a parameter in RFC 2231 form with bytes that should have been percent-encoded. */
function extendedParameter(name: string, value: string): string {
  const percent = percentEncoded(value);
  if (name.endsWith('*')) return `;\r\n ${name}=${percent}`;
  return `;\r\n ${name}*=${name.endsWith('*0') ? "UTF-8''" : ''}${percent.replaceAll(' ', '%20')}`;
}

function parametersText(value: string): string {
  const { main, parameters } = parameterizedValue(value);
  let out = main.replace(NON_ASCII_RUN, '?');
  for (const { name: given, value: text, raw } of parameters) {
    const name = given.replace(NON_ASCII_RUN, '?');
    if (!NON_ASCII.test(raw)) out += `;\r\n ${name}=${raw}`;
    else if (name.includes('*')) out += extendedParameter(name, clean(text));
    else out += parameter(name, clean(text));
  }
  return out;
}

function idText(value: string): string | undefined {
  return /<[^<>]*[^\x00-\x7f][^<>]*>/.test(value) ? undefined : wordsText(value, 20);
}

/**
 * Converts a field with bytes above 0x7F: `value` is its unfolded value as Latin-1. Returns the folded line with its CRLF, or why there is
 * none.
 */
export function downgradeField(name: string, value: string): DowngradedField {
  const lower = name.toLowerCase();
  const text = headerText(value);
  const column = name.length + 2;
  const line = (folded: string): DowngradedField => {
    const whole = `${name}: ${folded}\r\n`;
    if (whole.split('\r\n').every((one) => one.length <= MAX_LINE_BYTES)) return { ok: true, line: whole };
    return { ok: false, text: `the field ${name} cannot be folded after encoding` };
  };
  if (ADDRESS_FIELDS.has(lower)) {
    const list = mailboxItems(text);
    if (list.ok) {
      const addresses = listText(list.items, SHOWN_FIELDS.has(lower));
      if (addresses !== undefined) return line(fold(addresses, column));
      return { ok: false, text: `the field ${name} has an address that requires SMTPUTF8` };
    }
  }
  if (PARAMETER_FIELDS.has(lower)) return line(parametersText(text));
  if (ID_FIELDS.has(lower)) {
    const ids = idText(text);
    if (ids === undefined) return { ok: false, text: `the field ${name} has an id that requires SMTPUTF8` };
    return line(fold(ids, column));
  }
  return line(fold(hasLinks(lower) ? linksText(text, column) : wordsText(text, column), column));
}
