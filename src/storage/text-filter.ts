/**
 * Filters that compare text without case. The databases convert only A–Z to lower case. That is enough for a filter of ASCII characters, so
 * SQL selects its matches. For any other filter, SQL selects the rows that may match, which are those with other characters than ASCII, and
 * the operation compares them with `matches`: in Unicode's lower case and normal form (NFC), without further folding (ß is not ss).
 */
import { asciiLower } from '../base/ascii-lower.ts';
import { addressSpellings, sameAddressKey } from '../mail/address.ts';
import type { Fragment, Transaction } from './operation.ts';

/** Maximum rows in a part of a search that compares some of them with `matches`. */
export const COMPARED_PART_ROWS = 4_000;
/** Maximum rows that are read to compare them. The part of the search ends after these, so that a page of frequent matches is fast. */
export const COMPARED_ROWS = 1_000;

export interface TextFilter {
  /** Whether the condition selects nothing but matches. If not, its rows must be compared with `matches`. */
  readonly isExact: boolean;
  /** Returns a condition that all matches in this column satisfy. */
  condition(tx: Pick<Transaction, 'dialect'>, column: string): Fragment;
  matches(text: string): boolean;
}

const NON_ASCII = /[^\x00-\x7f]/;

function hasNonAscii(column: string): Fragment {
  return { sql: `octet_length(${column}) <> length(${column})`, params: [] };
}

/** Combines conditions of which one must be satisfied. */
export function anyOf(conditions: readonly Fragment[]): Fragment {
  return {
    sql: `(${conditions.map(({ sql }) => sql).join(' OR ')})`,
    params: conditions.flatMap(({ params }) => params),
  };
}

/** Returns the text as it is compared. The lower case of Σ depends on the letters next to it, so both forms become one. */
function comparable(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ');
}

/** Matches texts that contain this part. */
export function partFilter(part: string): TextFilter {
  if (NON_ASCII.test(part)) {
    const wanted = comparable(part);
    return {
      isExact: false,
      condition: (_, column) => hasNonAscii(column),
      matches: (text) => comparable(text).includes(wanted),
    };
  }
  const wanted = asciiLower(part);
  return {
    isExact: true,
    // Unlike LIKE, these functions need no escaping.
    condition: ({ dialect }, column) => ({
      sql: `${dialect === 'postgres' ? 'strpos' : 'instr'}(lower(${column}), ?) > 0`,
      params: [wanted],
    }),
    matches: (text) => asciiLower(text).includes(wanted),
  };
}

/** Matches this complete address in any spelling. */
export function addressFilter(address: string): TextFilter {
  const spellings = addressSpellings(address).map(asciiLower);
  const isSpelled = (column: string): Fragment => ({
    sql: `lower(${column}) IN (${spellings.map(() => '?').join(', ')})`,
    params: spellings,
  });
  if (!NON_ASCII.test(address)) {
    return {
      isExact: true,
      condition: (_, column) => isSpelled(column),
      matches: (text) => spellings.includes(asciiLower(text)),
    };
  }
  const key = address.includes('@') ? sameAddressKey(address.trim()) : undefined;
  const local = key === undefined ? '' : comparable(key.slice(0, key.lastIndexOf('@') + 1));
  // The conversion of the domain takes most of the time, and few addresses have the same local part.
  const mayMatch = (text: string): boolean => text.startsWith('"') || comparable(text).startsWith(local);
  return {
    isExact: false,
    // The address may be stored in ASCII: its domain in A-labels.
    condition: (_, column) => anyOf([isSpelled(column), hasNonAscii(column)]),
    matches: (text) => mayMatch(text) && sameAddressKey(text) === key,
  };
}

/** Matches addresses that contain this part, and the complete address in any spelling. */
export function addressOrPartFilter(text: string): TextFilter {
  const part = partFilter(text);
  const address = addressFilter(text);
  return {
    isExact: part.isExact && address.isExact,
    condition: (tx, column) => anyOf([address.condition(tx, column), part.condition(tx, column)]),
    matches: (stored) => part.matches(stored) || address.matches(stored),
  };
}
