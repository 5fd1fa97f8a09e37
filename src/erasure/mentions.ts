/** Finds and replaces an address in texts, in any spelling: upper and lower case, both forms of a domain, quoted, percent-encoded. */
import { addressSpellings, parseAddress, sameAddressKey } from '../mail/address.ts';

/** Texts show this instead of an erased address. */
export const ERASED = '[erased]';

export interface Mentions {
  /** Whether an address, with or without a display name, is the one to erase. */
  isAddress(text: string): boolean;
  /** Whether a text or JSON text contains the address. */
  has(text: string | null): boolean;
  /** Returns the text with every occurrence replaced. */
  without(text: string): string;
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');

/** `address` is bare, in any spelling. */
export function createMentions(address: string): Mentions {
  const key = sameAddressKey(address);
  const spellings = addressSpellings(address).map((one) => {
    const at = one.lastIndexOf('@');
    const local = one.slice(0, at);
    // JSON texts escape the quotes of a quoted local part.
    const locals = local.startsWith('"') ? [local, JSON.stringify(local).slice(1, -1)] : [local];
    return `(?:${locals.map(escaped).join('|')})(?:@|%40)${escaped(one.slice(at + 1))}`;
  });
  // A longer address is another one: `joann@x.example`, `ann@x.example.org`. In JSON, the letter before may belong to an escaped line break.
  const before = String.raw`(?:(?<![\p{L}\p{N}._%+-])|(?<=\\[bfnrt])|(?<=%3[aACcDd]|%2[02cC]))`;
  const after = String.raw`(?![\p{L}\p{N}-]|\.[\p{L}\p{N}])`;
  const source = `${before}(?:${spellings.join('|')})${after}`;
  const one = new RegExp(source, 'iu');
  const all = new RegExp(source, 'giu');
  return {
    isAddress: (text) => {
      const parsed = parseAddress(text);
      return parsed.ok ? sameAddressKey(parsed.value) === key : one.test(text);
    },
    has: (text) => text !== null && one.test(text),
    without: (text) => text.replace(all, ERASED),
  };
}
