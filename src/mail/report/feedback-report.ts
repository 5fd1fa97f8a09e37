/**
 * Parses complaints: feedback reports (RFC 5965, with the addition of RFC 9477), and those of Microsoft's JMRP, which return the mail with
 * the recipient in a separate field. Many feedback loops redact the recipient; such an address is ignored. Reports of failed authentication
 * (RFC 6591) and of mail that is not spam are not complaints.
 */

import { addressIn } from './quoted-reply.ts';
import { type Fields, fieldsOf, type ReceivedMail } from './received.ts';

export interface Complaint {
  feedbackType: string;
  recipients: string[];
}

/** RFC 5965 §3.1, RFC 6430, and older drafts; `other` is a complaint of no other type. */
const COMPLAINTS = new Set(['abuse', 'fraud', 'virus', 'opt-out', 'opt-out-list', 'miscategorized', 'other']);
const MAX_RECIPIENTS = 100;
const HIDDEN_WORD =
  '(?:redacted(?:[-_+][^@]*)?|removed|hidden|anonymous|anonymi[sz]ed|undisclosed(?:-recipients?)?|x{4,})';
/** Placeholders for an address. Words count only as the complete local part or a label, since real addresses contain them. */
const HIDDEN = new RegExp(
  [
    `^${HIDDEN_WORD}@`,
    `@(?:[^@]*\\.)?${HIDDEN_WORD}(?:\\.|$)`,
    '^(?:[^@]*[-_.])?hashed(?:[-_.][^@]*)?@',
    '^[0-9a-f]{32,64}@',
    '\\*{2,}',
    '@(?:invalid|localhost)?$',
    '\\.invalid$',
  ].join('|'),
  'i',
);
const BY_RECIPIENT = ['original-rcpt-to', 'removal-recipient', 'original-recipient'];
const JMRP_RECIPIENT = 'x-hmxmroriginalrecipient';

function shownAddress(value: string): string | null {
  const text = value.replace(/^\s*rfc822\s*;/i, '');
  const address = addressIn(text);
  return address === null || /[[\]]/.test(text) || HIDDEN.test(address) ? null : address;
}

function unique(values: readonly string[]): string[] {
  const found = new Map<string, string>();
  for (const one of values.slice(0, MAX_RECIPIENTS)) {
    const address = shownAddress(one);
    if (address !== null && !found.has(address.toLowerCase())) found.set(address.toLowerCase(), address);
  }
  return [...found.values()];
}

/** Returns a complaint, `none` if a feedback report is about something else, or undefined if the mail is not a feedback report. */
export function readComplaint(mail: ReceivedMail, original: Fields | undefined): Complaint | 'none' | undefined {
  const jmrp = [original?.first(JMRP_RECIPIENT) ?? '', mail.header.first(JMRP_RECIPIENT)];
  const part = mail.parts.find((one) => one.type === 'message/feedback-report');
  if (part === undefined) {
    const isJmrp = jmrp.some((one) => one !== '') && original !== undefined;
    return isJmrp ? { feedbackType: 'abuse', recipients: unique(jmrp) } : undefined;
  }
  const fields = fieldsOf(part.latin1().replace(/^(?:[ \t]*\r\n)+/, ''));
  const feedbackType = /^[\w-]+/.exec(fields.first('feedback-type'))?.[0].toLowerCase() ?? '';
  if (!COMPLAINTS.has(feedbackType)) return 'none';
  const named = BY_RECIPIENT.flatMap((name) => fields.all(name));
  return { feedbackType, recipients: unique([...named, ...jmrp]) };
}
