/**
 * Display names that make readers see another sender than the address behind them, over HTTP and SMTP alike: a name that is an
 * address of another domain, an address hidden in encoded-words, in look-alikes of the @ or among invisible characters, and controls
 * that turn the direction of text. A name that merely mentions an address is taken: `"Ann (ann@home.example) via Shop"`.
 */
import { type Address, parseAddress } from '../address.ts';
import { decodeWords } from './encoded-words.ts';
import { quote } from './submitted-refusal.ts';

/** Controls, and those that turn the direction of the text behind them (UAX #9). */
const CONTROL = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
/** Full-width and small forms of the @. */
const AT_LOOK_ALIKE = /[\uff20\ufe6b]/;
const INVISIBLE = /[\p{Cf}\p{Mn}\u115f\u1160\u3164\uffa0]/gu;
/** What people put around an address. */
const AROUND = ' \t\u00a0\'"`<>()[]{}.,;:';

export function hasNameControl(text: string): boolean {
  return CONTROL.test(text);
}

/** Whether the name, with whatever quotes and brackets stand around it, is an address that is not of this domain. */
function isForeignAddress(name: string, { domain }: Address): boolean {
  if (!name.includes('@')) return false;
  let start = 0;
  let end = name.length;
  while (start < end && AROUND.includes(name[start]!)) start += 1;
  while (end > start && AROUND.includes(name[end - 1]!)) end -= 1;
  const inside = parseAddress(name.slice(start, end));
  return inside.ok && inside.value.domain !== domain && !inside.value.domain.endsWith(`.${domain}`);
}

/** Why the name deceives, as the end of a sentence; undefined when it does not. `isEncoded`: it came in encoded-words. */
export function displayNameIssue(name: string, address: Address, { isEncoded = false } = {}): string | undefined {
  if (name === '') return undefined;
  if (hasNameControl(name)) return 'has a control character in its display name';
  const decoded = name.includes('=?') ? decodeWords(name) : name;
  const hides = isEncoded || decoded !== name || AT_LOOK_ALIKE.test(name);
  const own = name.toLowerCase() === address.address.toLowerCase();
  if (hides && !own && decoded.normalize('NFKC').includes('@')) {
    return `has the display name ${quote(name)}, which hides another address in encoded text; leave the address out`;
  }
  const plain = name.includes('@') && /[^ -~]/.test(name) ? name.replace(INVISIBLE, '') : name;
  if (isForeignAddress(name, address) || (plain !== name && isForeignAddress(plain.normalize('NFKC'), address))) {
    return `has the display name ${quote(name)}, which is an address of another domain; leave it out`;
  }
  return undefined;
}
