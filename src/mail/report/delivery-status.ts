/**
 * Parses machine-readable delivery reports: message/delivery-status (RFC 3464) and message/global-delivery-status (RFC 6533), as servers
 * write them: misplaced fields, groups that are not separated, addresses with brackets or of other systems, non-standard actions. What an
 * `x.0.0` leaves open is taken from the reply that the diagnostic quotes.
 */

import { addressIn, isVague, type QuotedReply, quotedReply, tidied } from './quoted-reply.ts';
import { type Fields, fieldsOf } from './received.ts';
import type { ReportedRecipient } from './report-types.ts';

const MAX_RECIPIENTS = 500;
/** Including groups without a recipient. */
const MAX_GROUPS = 1000;
/** Maximum length of a host name (RFC 1035 §3.1). */
const MAX_HOST = 255;
const OF_RECIPIENT = ['final-recipient', 'original-recipient', 'x-actual-recipient', 'action', 'status'];

/** Splits off the type: `rfc822; a@b.example`, `dns; mx.b.example`. */
function typedValue(value: string): { type: string; value: string } {
  const found = /^\s*([\w-]+)\s*;/.exec(value);
  return found
    ? { type: found[1]!.toLowerCase(), value: value.slice(found[0].length).trim() }
    : { type: '', value: value.trim() };
}

/** RFC 6533 §3: `\x{FC}` is a character that the form of the address cannot contain. */
function withoutEscapes(text: string): string {
  return text.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (all, hex: string) => {
    const code = Number.parseInt(hex, 16);
    return code > 0x20 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : all;
  });
}

function addressOf(field: string): string | null {
  const { type, value } = typedValue(field);
  return addressIn(type === 'utf-8' || value.includes('\\x{') ? withoutEscapes(value) : value);
}

function actionOf(quoted: string, status: string | null): ReportedRecipient['action'] {
  const word = /[a-z]+/.exec(quoted.toLowerCase())?.[0] ?? '';
  if (word.startsWith('fail') || word === 'expired' || word === 'undeliverable') return 'failed';
  if (word.startsWith('delay')) return 'delayed';
  if (word === 'delivered' || word === 'deliverable') return 'delivered';
  if (word === 'relayed' || word === 'expanded') return word;
  if (status?.startsWith('2') === true) return 'delivered';
  return status?.startsWith('4') === true ? 'delayed' : 'failed';
}

/** The code in the quoted reply is more reliable than the one that the reporting server derived. */
function bestStatus(stated: string | null, quoted: QuotedReply): string | null {
  const direct = /^[45]\d\d[ -]#?([45]\.\d{1,3}\.\d{1,3})\b/.exec(quoted.text)?.[1];
  if (direct !== undefined && !isVague(direct)) return direct;
  if (stated === null) return quoted.status;
  return isVague(stated) && quoted.status !== null && !isVague(quoted.status) ? quoted.status : stated;
}

function recipientOf(fields: Fields): ReportedRecipient {
  const stated = /[245]\.\d{1,3}\.\d{1,3}/.exec(fields.first('status'))?.[0] ?? null;
  // Old versions of Exchange write the reply into a separate field.
  const written = fields.first('diagnostic-code') || fields.first('x-supplementary-info');
  const { type, value } = typedValue(written);
  // The exit code of a local program is meaningless here.
  const diagnostic = type === 'x-unix' && /^\d{1,3}$/.test(value) ? '' : value;
  const quoted = quotedReply(diagnostic);
  const status = bestStatus(stated, quoted);
  const remote = typedValue(fields.first('remote-mta')).value;
  const final = addressOf(fields.first('final-recipient'));
  const original = addressOf(fields.first('original-recipient'));
  const actual = addressOf(fields.first('x-actual-recipient'));
  return {
    finalRecipient: final ?? actual ?? original,
    originalRecipient: original,
    action: actionOf(fields.first('action'), status),
    status,
    smtpCode: quoted.smtpCode,
    diagnostic: diagnostic === '' ? null : tidied(diagnostic),
    remoteHost: /^[^\s([]+/.exec(remote.slice(0, MAX_HOST))?.[0].replace(/\.$/, '') ?? null,
  };
}

/** Splits the groups of fields: at empty lines, or, if those are missing, where a recipient's first field repeats. */
function groupsOf(text: string): string[] {
  return text
    .replace(/^(?:[ \t]*\r\n)+/, '')
    .split(/\r\n(?:[ \t]*\r\n)+/, MAX_GROUPS)
    .flatMap((block) => {
      const starts = [...block.matchAll(/^(?:final|original)-recipient[ \t]*:/gim)];
      const first = starts[0]?.[0].toLowerCase();
      const again = starts.filter((one) => one[0].toLowerCase() === first).map((one) => one.index);
      if (again.length < 2) return [block];
      return again.map((start, i) => block.slice(i === 0 ? 0 : start, again[i + 1]));
    });
}

/** Returns what Latin-1 text with CRLF reports about each recipient. */
export function readDeliveryStatus(text: string): ReportedRecipient[] {
  const recipients: ReportedRecipient[] = [];
  for (const group of groupsOf(text)) {
    if (recipients.length >= MAX_RECIPIENTS) break;
    const fields = fieldsOf(group);
    if (OF_RECIPIENT.some((name) => fields.first(name) !== '')) recipients.push(recipientOf(fields));
  }
  return recipients;
}
