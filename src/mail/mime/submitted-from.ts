/**
 * Checks the From field of submitted mail (RFC 5322 §3.6.2): exactly one mailbox, whose address is what recipients see. Refuses what makes
 * readers see another sender than the verified one: groups, several mailboxes, an address in a comment, an address in an unquoted display
 * name, or hidden in encoded-words or behind look-alikes of the @, a quoted display name that is an address of another domain, and text
 * direction controls. A comment without an address is accepted, as old mailers write the name there: `root@host.example (Cron Daemon)`.
 *
 * The display name check is shared by HTTP and SMTP. A name that merely mentions an address is accepted: `"Ann (ann@home.example) via
 * Shop"`.
 */
import { type Address, parseAddress } from '../address.ts';
import { decodeWords } from './header-fields.ts';
import { type MailboxItem, mailboxItems } from './mailbox-list.ts';
import { quote, type SubmissionRefusal, senderRefused } from './submitted-refusal.ts';

/** Control characters and text direction controls (UAX #9). */
const CONTROL = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
/** Full-width and small forms of the @. */
const AT_LOOK_ALIKE = /[\uff20\ufe6b]/;
const INVISIBLE = /[\p{Cf}\p{Mn}\u115f\u1160\u3164\uffa0]/gu;
/** Characters that people put around an address. */
const AROUND = ' \t\u00a0\'"`<>()[]{}.,;:';

function hasNameControl(text: string): boolean {
  return CONTROL.test(text);
}

/** Returns whether the name, without surrounding quotes and brackets, is an address of another domain. */
function isForeignAddress(name: string, { domain }: Address): boolean {
  if (!name.includes('@')) return false;
  let start = 0;
  let end = name.length;
  while (start < end && AROUND.includes(name[start]!)) start += 1;
  while (end > start && AROUND.includes(name[end - 1]!)) end -= 1;
  const inside = parseAddress(name.slice(start, end));
  return inside.ok && inside.value.domain !== domain && !inside.value.domain.endsWith(`.${domain}`);
}

/** Returns why the name is deceptive, as the rest of a sentence; undefined if it is not. `isEncoded`: it was in encoded-words. */
export function displayNameIssue(name: string, address: Address, { isEncoded = false } = {}): string | undefined {
  if (name === '') return undefined;
  if (hasNameControl(name)) return 'has a control character in its display name';
  const decoded = name.includes('=?') ? decodeWords(name) : name;
  const hides = isEncoded || decoded !== name || AT_LOOK_ALIKE.test(name);
  const own = name.toLowerCase() === address.address.toLowerCase();
  if (hides && !own && decoded.normalize('NFKC').includes('@')) {
    return `has the display name ${quote(name)}, which hides another address in encoded text; remove that address`;
  }
  const plain = name.includes('@') && /[^ -~]/.test(name) ? name.replace(INVISIBLE, '') : name;
  if (isForeignAddress(name, address) || (plain !== name && isForeignAddress(plain.normalize('NFKC'), address))) {
    return `has the display name ${quote(name)}, which is an address of another domain; remove it`;
  }
  return undefined;
}

interface FromField {
  address: Address;
  /** `Name <a@b>` or the bare address; `parseAddress` reads it back. */
  text: string;
}

type FromResult = { ok: true; from: FromField } | { ok: false; refusal: SubmissionRefusal };

const MAX_NAME_LENGTH = 300;
const SPECIAL = /["\\()<>[\]:;@,]/;

type Refuse = (text: string) => FromResult;

/** Returns why the name is deceptive, or undefined. */
function nameIssue(mailbox: MailboxItem & { kind: 'mailbox' }, address: Address): string | undefined {
  const { name, encoded, bareAt, comments } = mailbox;
  const own = name.toLowerCase() === address.address.toLowerCase();
  if (bareAt && !own && !hasNameControl(name)) {
    return `has an @ in its display name (${quote(name)}); remove the address from the display name`;
  }
  const issue = displayNameIssue(name, address, { isEncoded: encoded });
  if (issue !== undefined) return issue;
  for (const comment of comments) {
    if (comment.normalize('NFKC').includes('@'))
      return `has an address in a comment (${quote(comment)}); remove the comment`;
    if (hasNameControl(comment)) return 'has a control character in a comment';
  }
  return undefined;
}

function nameText(name: string): string {
  return SPECIAL.test(name) || name.includes('=?') ? `"${name.replace(/["\\]/g, '\\$&')}"` : name;
}

/** Returns the mailbox as the API displays it, which `parseAddress` reads back. */
export function displayedMailbox(address: Address): string {
  if (address.name === '') return address.address;
  const text = `${nameText(address.name)} <${address.address}>`;
  return parseAddress(text).ok ? text : address.address;
}

/** Checks the unfolded, decoded value. */
export function readFrom(value: string, field: 'From' | 'Sender' = 'From'): FromResult {
  const refused: Refuse = (text) => ({ ok: false, refusal: senderRefused(`the ${field} field ${text}`) });
  const bare = parseAddress(value);
  if (bare.ok && bare.value.name === '') return { ok: true, from: { address: bare.value, text: bare.value.address } };
  const list = mailboxItems(value);
  if (!list.ok)
    return refused(`${list.reason} (${quote(value)}); use one address, for example Name <name@example.com>`);
  if (list.straySemicolon) return refused(`has a semicolon without a group (${quote(value)}); use one address`);
  const { items } = list;
  if (items.some((item) => item.kind !== 'mailbox')) return refused(`is a group (${quote(value)}); use one address`);
  if (items.length > 1)
    return refused(`has ${items.length} addresses (${quote(value)}); use only one, and list others in Reply-To`);
  const [mailbox] = items;
  if (mailbox?.kind !== 'mailbox') return refused('is empty; use one address');
  const parsed = parseAddress(mailbox.spec);
  if (!parsed.ok || parsed.value.name !== '') {
    const reason = parsed.ok ? 'has two addresses' : parsed.reason;
    return refused(`${reason} (${quote(mailbox.spec)}); write one address, such as Name <name@example.com>`);
  }
  const issue = nameIssue(mailbox, parsed.value);
  if (issue !== undefined) return refused(issue);
  const name = [...(mailbox.name || (mailbox.comments.at(-1) ?? ''))].slice(0, MAX_NAME_LENGTH).join('');
  const address: Address = { ...parsed.value, name };
  return { ok: true, from: { address, text: displayedMailbox(address) } };
}
