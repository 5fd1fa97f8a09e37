/**
 * Addresses of ours with a token (src/mail/token-address.ts) that a feedback report quotes: from the header of the mail that it is about, and from
 * its own Original-Mail-From (RFC 5965 §3.2). Only who has that copy can quote them. Whether a token is real is for who asks.
 */
import { type Fields, fieldsOf, type ReceivedMail } from './received.ts';

const LOCAL_PART = /(?<![\w.+-])[bu]\+[a-z2-7]{45}(?=@)/gi;
const OF_THE_MAIL = ['return-path', 'cfbl-address', 'list-unsubscribe', 'x-original-return-path'];
/** More than one copy has. */
const MOST = 4;

/** Local parts, each once. */
export function quotedTokens(mail: ReceivedMail, original: Fields | undefined): string[] {
  const report = mail.parts.find((part) => part.type === 'message/feedback-report');
  const written = [
    ...OF_THE_MAIL.flatMap((name) => original?.all(name) ?? []),
    ...(report ? fieldsOf(report.latin1()).all('original-mail-from') : []),
  ];
  const found = written.flatMap((value) => value.match(LOCAL_PART) ?? []);
  return [...new Set(found.map((local) => local.toLowerCase()))].slice(0, MOST);
}
