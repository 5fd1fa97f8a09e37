/**
 * Reads a message to postmaster or abuse for the operator: its author and text. Never throws.
 */
import { inTimeSlice } from '../../base/time-slice.ts';
import { automaticByHeader } from './automatic.ts';
import { addressIn } from './quoted-reply.ts';
import { readReceived, subjectOf } from './received.ts';
import { readableTexts } from './texts.ts';

/** The field of a message that Postrider forwarded; a message that has it, or quotes it, is not forwarded again. */
export const FORWARDED_FIELD = 'X-Postrider-Forwarded';

export interface Letter {
  /** The From header, decoded; empty if there is none. */
  from: string;
  /** Address for replies: from Reply-To, else From. */
  replyTo: string | null;
  subject: string;
  text: string;
  /** It is an automatic reply (RFC 3834); a reply to it would be answered again. */
  isAutomaticReply: boolean;
  /** It is a forwarded mail, or quotes one. */
  hasForwarded: boolean;
}

const MAX_FIELD = 500;
const MAX_TEXT = 20_000;
const QUOTED_FORWARD = Buffer.from(`${FORWARDED_FIELD}:`);

/** Reads what an operator needs of a message; empty for one without a header. */
export async function readLetter(raw: Uint8Array): Promise<Letter> {
  const mail = await inTimeSlice(() => readReceived(raw));
  const hasForwarded = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).includes(QUOTED_FORWARD);
  if (mail === undefined) {
    return { from: '', replyTo: null, subject: '', text: '', isAutomaticReply: false, hasForwarded };
  }
  const { header } = mail;
  const from = header.first('from').slice(0, MAX_FIELD);
  const text = await inTimeSlice(() => readableTexts(mail).join('\n'));
  return {
    from,
    replyTo: addressIn(header.first('reply-to')) ?? addressIn(from),
    subject: subjectOf(mail).slice(0, MAX_FIELD),
    text: text.slice(0, MAX_TEXT).toWellFormed(),
    isAutomaticReply: /^\s*auto-replied/i.test(header.first('auto-submitted')) || automaticByHeader(mail) !== undefined,
    hasForwarded,
  };
}
