/**
 * Phrases of delivery notices, by language: a message failed, is delayed, or arrived. Sources are the notices of Exchange and Microsoft 365
 * in their languages, of national providers, and of common mail servers. Phrases are about the message, not about an address: those may
 * occur in any mail. They are compared without case and accents, since many servers write neither.
 */

import { OTHER } from './notice-phrases-other.ts';
import { type Phrases, WESTERN } from './notice-phrases-western.ts';

/**
 * Returns text as phrases are compared: Latin, Greek, and Cyrillic letters without accents, in lower case, with one kind of apostrophe and
 * space.
 */
export function folded(text: string): string {
  return text
    .normalize('NFD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .replace(/[\u2018\u2019\u02bc`\u00b4]/g, "'")
    .replace(/[ \t\u00a0\u202f]+/g, ' ')
    .toLowerCase();
}

function union(kind: keyof Phrases): RegExp {
  const phrases = Object.values({ ...WESTERN, ...OTHER }).flatMap((language) => language[kind]);
  // Folded like the text, except where regular expressions use upper case.
  const source = phrases.map((phrase) =>
    phrase
      .normalize('NFD')
      .replace(/[\u0300-\u036f]/g, '')
      .normalize('NFC'),
  );
  return new RegExp(source.map((phrase) => `(?:${phrase})`).join('|'), 'm');
}

/** Matches folded text. */
export const FAILED = union('failed');
export const DELAYED = union('delayed');
export const DELIVERED = union('delivered');

/** How conditions and announcements start. Spanish sentences start with `se` for other reasons. */
const CONDITION =
  /(?<=^|[.!?:]\s{0,4})(?:(?:if|in case|future|further (?:mail|message|e-?mail)s?|from (?:now|next|\d|january|february|march|april|may|june|july|august|september|october|november|december)|(?:zu)?künftige?|ab (?:sofort|dem|\d)|à l'avenir|à partir|désormais|en el futuro|a partir|in futuro|no futuro|in (?:het vervolg|de toekomst)|i framtiden|w przyszłości|should (?:you|your|the)|unless|falls|wenn|sofern|sollten?|si|s'(?:il|ils)|au cas où|en caso|en cas|se(?! (?:ha|han|produ|detec|inten|encontr|rechaz|devol|pud|pued|recib|gener|trat|le|te)\w*\s)|nel caso|qualora|caso|als|indien|mocht|om|hvis|dersom|jos|je[śs]li|je[żz]eli|pokud|kdyby|amennyiben|dac[ăa]|если|якщо|ако|εάν|αν|אם|إذا|jika|nếu|eğer)(?=[\s,])|もし|如果|若|만약)(?:[^.!?\n]|[.!?](?!\s|$))*/gimu;

/**
 * Returns the text without its sentences about what may or will happen to a message: they do not report what happened to this one. Takes
 * time linear in the text.
 */
export function withoutConditions(text: string): string {
  return joinedLines(text).replace(CONDITION, '');
}

/** A line this long continues in the next one, unless it ends like a sentence or a label. */
const WRAPPED = 50;

function joinedLines(text: string): string {
  let joined = '';
  let previous = '';
  for (const line of text.split('\n')) {
    const isWrapped = previous.length >= WRAPPED && /[\p{L}\p{N},]$/u.test(previous) && /^[^\s<>*-]/.test(line);
    joined += joined === '' ? line : `${isWrapped ? ' ' : '\n'}${line}`;
    previous = line.trimEnd();
  }
  return joined;
}
