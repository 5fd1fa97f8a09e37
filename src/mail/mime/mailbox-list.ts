/**
 * Parses address fields of received mail (RFC 5322 §3.4), which may contain what `address.ts` refuses in user input: comments, groups,
 * encoded-words, route addresses. Does not check the addresses; text without such a structure is refused. Takes time linear in the text.
 */
import { decodeWords } from './header-fields.ts';

export type MailboxItem =
  | {
      kind: 'mailbox';
      /** Decoded display name; empty if there is none. */
      name: string;
      /** Whether the name was in encoded-words. */
      encoded: boolean;
      /** Whether the name has an @ outside of quotes, which makes it look like an address. */
      bareAt: boolean;
      /** The address as written, unchecked. */
      spec: string;
      /** Decoded comments. */
      comments: string[];
    }
  | { kind: 'group'; name: string }
  | { kind: 'groupEnd' };

export type MailboxItems =
  | {
      ok: true;
      items: MailboxItem[];
      /** Whether a semicolon ends no group; some mailers write it instead of a comma, and it is read as one. */
      straySemicolon: boolean;
    }
  | { ok: false; reason: string };

const SPACE = /[ \t]+/g;
const SPECIAL = /["()<>[\],:;\\]/g;

/** Returns the index after the quoted string, comment, or literal that starts at `at`; -1 if it is not closed. */
function endOfQuotedPart(text: string, at: number): number {
  const open = text[at]!;
  const close = open === '"' ? '"' : open === '(' ? ')' : ']';
  let depth = 0;
  for (let i = at; i < text.length; i += 1) {
    const c = text[i];
    if (c === '\\') i += 1;
    else if (c === close && (depth === 1 || open === '"') && i > at) return i + 1;
    else if (c === close && i > at) depth -= 1;
    else if (c === open) depth += 1;
  }
  return -1;
}

/** Decodes words and quoted strings: without quotes and escapes, with encoded-words decoded. */
function phraseText(raw: string): string {
  const plain = raw.includes('"') ? raw.replace(/"((?:[^"\\]|\\.)*)"/gsu, (_, inner: string) => unescaped(inner)) : raw;
  return decodeWords(plain).replace(SPACE, ' ').trim();
}

function unescaped(text: string): string {
  return text.includes('\\') ? text.replace(/\\(.)/gsu, '$1') : text;
}

/** A mailbox being read. */
interface Draft {
  phrase: string;
  bareAt: boolean;
  spec: string | undefined;
  comments: string[];
}

function emptyDraft(): Draft {
  return { phrase: '', bareAt: false, spec: undefined, comments: [] };
}

function mailboxOf(draft: Draft): MailboxItem | undefined {
  const { comments } = draft;
  const phrase = draft.phrase.trim();
  if (draft.spec === undefined) {
    return phrase === ''
      ? undefined
      : { kind: 'mailbox', name: '', encoded: false, bareAt: false, spec: phrase, comments };
  }
  return {
    kind: 'mailbox',
    name: phraseText(phrase),
    encoded: phrase.includes('=?'),
    bareAt: draft.bareAt,
    spec: draft.spec.trim(),
    comments,
  };
}

/** Parses the unfolded, decoded value of an address field. */
export function mailboxItems(text: string): MailboxItems {
  const items: MailboxItem[] = [];
  let draft = emptyDraft();
  let inGroup = false;
  let straySemicolon = false;
  const refuse = (reason: string): MailboxItems => ({ ok: false, reason });
  const finish = (): void => {
    const mailbox = mailboxOf(draft);
    if (mailbox) items.push(mailbox);
    draft = emptyDraft();
  };
  SPECIAL.lastIndex = 0;
  for (let at = 0; at < text.length; ) {
    SPECIAL.lastIndex = at;
    const found = SPECIAL.exec(text);
    const special = found ? found.index : text.length;
    if (special > at) {
      const words = text.slice(at, special);
      if (draft.spec !== undefined && words.trim() !== '') return refuse('has text after an address in angle brackets');
      draft.phrase += words;
      draft.bareAt ||= words.includes('@');
      at = special;
      continue;
    }
    const c = text[at]!;
    if (c === '"' || c === '(' || c === '[') {
      const end = endOfQuotedPart(text, at);
      if (end < 0) return refuse(`has an unclosed ${c}`);
      if (c === '(') {
        draft.comments.push(decodeWords(unescaped(text.slice(at + 1, end - 1))).trim());
        // RFC 5322 §3.2.2: a comment counts as white space.
        draft.phrase += ' ';
      } else if (draft.spec !== undefined) return refuse('has text after an address in angle brackets');
      else draft.phrase += text.slice(at, end);
      at = end;
    } else if (c === '<') {
      if (draft.spec !== undefined) return refuse('has two addresses that are not separated by a comma');
      const end = closingBracket(text, at);
      if (end < 0) return refuse('has an unclosed <');
      draft.spec = text.slice(at + 1, end);
      at = end + 1;
    } else if (c === ',') {
      finish();
      at += 1;
    } else if (c === ':') {
      if (inGroup || draft.spec !== undefined) return refuse('has a misplaced colon');
      items.push({ kind: 'group', name: phraseText(draft.phrase) });
      draft = emptyDraft();
      inGroup = true;
      at += 1;
    } else if (c === ';') {
      finish();
      if (inGroup) items.push({ kind: 'groupEnd' });
      else straySemicolon = true;
      inGroup = false;
      at += 1;
    } else return refuse(`has a misplaced ${c}`);
  }
  finish();
  if (inGroup) items.push({ kind: 'groupEnd' });
  return { ok: true, items, straySemicolon };
}

/** Returns the index of the `>` that closes the `<` at `at`, outside quotes; -1 if there is none. */
function closingBracket(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i += 1) {
    const c = text[i];
    if (c === '>') return i;
    if (c === '<') return -1;
    if (c === '"') {
      const end = endOfQuotedPart(text, i);
      if (end < 0) return -1;
      i = end - 1;
    }
  }
  return -1;
}
