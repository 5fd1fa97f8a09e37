/**
 * Reads the mail that a report is about, if the report includes it: as a part (message/rfc822, text/rfc822-headers, and the kinds of RFC
 * 6533), or as a header block in the text, quoted or not.
 */

import { ORIGINAL_PARTS } from './condense.ts';
import { addressesIn } from './quoted-reply.ts';
import { type Fields, fieldsOf, type ReceivedMail } from './received.ts';
import type { ReportedMail } from './report-types.ts';

const MAX_TO = 100;
const FIELD_LINE = /^([A-Za-z][A-Za-z0-9-]{1,60})[ \t]?:(?=[ \t<]|$)/;
const QUOTED = /^[ \t]{0,8}(?:[>|][ \t]?)+|^[ \t]{1,8}(?=[A-Za-z][A-Za-z0-9-]{1,60}:)/;
const MESSAGE_FIELDS = new Set(
  ['return-path', 'received', 'message-id', 'from', 'to', 'subject', 'date', 'mime-version', 'content-type'].concat(
    'dkim-signature',
    'reply-to',
    'x-mailer',
    'feedback-id',
    'list-unsubscribe',
    'cc',
    'sender',
    'delivered-to',
  ),
);

/** Position of a header block in lines of text: at least three mail fields, one of which occurs only in mail. */
export interface QuotedHeader {
  firstLine: number;
  fields: Fields;
}

/** Returns the header of the mail that a report has as a part. */
export function attachedOriginal(mail: ReceivedMail): Fields | undefined {
  for (const part of mail.parts) {
    if (!ORIGINAL_PARTS.test(part.type)) continue;
    const fields = fieldsOf(part.latin1().replace(/^(?:[ \t]*\r\n)+/, ''));
    if (fields.size > 0) return fields;
  }
  return undefined;
}

/** Finds the first header block in the text. */
export function quotedHeader(lines: readonly string[]): QuotedHeader | undefined {
  for (let at = 0; at < lines.length; at += 1) {
    if (fieldName(lines[at]!) === undefined) continue;
    const names = new Set<string>();
    let end = at;
    for (; end < lines.length; end += 1) {
      const name = fieldName(lines[end]!);
      if (name !== undefined && MESSAGE_FIELDS.has(name)) names.add(name);
      if (name === undefined && !/^[ \t>|]+\S/.test(lines[end]!)) break;
    }
    const isMail = names.has('message-id') || names.has('received') || names.has('from');
    if (isMail && names.size >= (names.has('message-id') ? 2 : 3)) {
      const block = lines.slice(at, end).map((line) => line.replace(QUOTED, (found) => (/[>|]/.test(found) ? '' : '')));
      return { firstLine: at, fields: fieldsOf(Buffer.from(`${block.join('\r\n')}\r\n`).toString('latin1')) };
    }
    at = end;
  }
  return undefined;
}

function fieldName(line: string): string | undefined {
  return FIELD_LINE.exec(line.replace(QUOTED, ''))?.[1]?.toLowerCase();
}

function messageIdIn(text: string): string | null {
  const found = /<[!-;=?-~\u00a1-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\uffff]{1,400}>/.exec(text)?.[0];
  if (found !== undefined) return found;
  const bare = /^\s*([!-;=?-~]{1,400}@[!-;=?-~]{1,400})/.exec(text)?.[1];
  return bare === undefined ? null : `<${bare}>`;
}

/** Returns what a report quotes of the original: its header, else lines of the text, else a field of the report. */
export function reportedMail(mail: ReceivedMail, original: Fields | undefined, text: string): ReportedMail {
  const quoted =
    /^[ \t>|]*(?:X-)?(?:original-)?message-id[ \t]*:[ \t]*(<[!-;=?-~\u00a1-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\uffff]{1,400}>)/im.exec(
      text,
    )?.[1] ?? null;
  const ids = [original?.first('message-id'), mail.header.first('x-original-message-id')];
  const messageId = ids.map((one) => messageIdIn(one ?? '')).find((one) => one !== null) ?? quoted;
  return {
    messageId,
    feedbackId: original?.first('feedback-id') || original?.first('cfbl-feedback-id') || null,
    to: addressesIn(original?.all('to').join(', ') ?? '', MAX_TO),
  };
}

/** Returns the Message-ID of the message that a message replies to, or null. */
export function answeredMail({ header }: ReceivedMail): string | null {
  const answered = [header.first('in-reply-to'), header.first('references').split(/\s+/).at(-1) ?? ''];
  return answered.map(messageIdIn).find((one) => one !== null) ?? null;
}
