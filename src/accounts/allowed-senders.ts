/**
 * Senders that a key or credential is bound to: addresses, and domains with their subdomains, as a verified domain covers its own.
 * Kept in the form in which addresses are compared (lower case, A-labels); an empty list binds to nothing. They hold in both modes,
 * and beside what the account itself may send from.
 */
import { failure, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { type Address, domainToAscii, parseAddress, sameAddressKey } from '../mail/address.ts';
import { NO_SENDERS } from './account.ts';

export const MAXIMUM_SENDERS = 20;
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The form that is compared, or undefined when the text is neither an address nor a domain. */
function comparable(text: string): string | undefined {
  if (text.includes('@')) {
    const address = parseAddress(text);
    return address.ok && address.value.name === '' ? sameAddressKey(address.value) : undefined;
  }
  const domain = domainToAscii(text.normalize('NFC').toLowerCase());
  return domain !== undefined && domain.length <= 253 && DOMAIN.test(domain) ? domain : undefined;
}

export function allowedSenderIssues(list: readonly (string | undefined)[]): Issue[] {
  return list.flatMap((text, index) =>
    text !== undefined && comparable(text) === undefined
      ? [{ field: `allowedSenders[${index}]`, message: 'must be an address or a domain, such as shop@example.com' }]
      : [],
  );
}

/** The list as it is kept; INVALID_REQUEST names every entry that is none. */
export function readAllowedSenders(list: readonly string[]): Result<readonly string[]> {
  const issues = allowedSenderIssues(list);
  if (list.length > MAXIMUM_SENDERS) {
    issues.push({ field: 'allowedSenders', message: `must have at most ${MAXIMUM_SENDERS} entries` });
  }
  return issues.length > 0 ? refuse(invalid(issues)) : ok([...new Set(list.map((text) => comparable(text)!))]);
}

function covers(allowed: readonly string[], wanted: string): boolean {
  const domain = wanted.slice(wanted.lastIndexOf('@') + 1);
  return allowed.some((one) => (one.includes('@') ? one === wanted : domain === one || domain.endsWith(`.${one}`)));
}

export function maySendAs(allowed: readonly string[], from: Address): boolean {
  return allowed.length === 0 || covers(allowed, sameAddressKey(from));
}

/** What a key made with a bound one is bound to: the same unless asked for, and never to more (FORBIDDEN). */
export function handedOn(own: readonly string[], asked: readonly string[] | undefined): Result<readonly string[]> {
  const wanted = readAllowedSenders(asked ?? own);
  if (!wanted.ok || own.length === 0) return wanted;
  if (wanted.value.length > 0 && wanted.value.every((one) => covers(own, one))) return wanted;
  return refuse(
    failure('FORBIDDEN', {
      message: `This key may send from ${own.join(', ')} only, and makes keys and credentials for these only; name them in allowedSenders.`,
    }),
  );
}

/** As it stands in a row. */
export function sendersColumn(allowed: readonly string[] = NO_SENDERS): string | null {
  return allowed.length === 0 ? null : JSON.stringify(allowed);
}

export function sendersOf(column: string | null): readonly string[] {
  return column === null ? NO_SENDERS : (JSON.parse(column) as string[]);
}
