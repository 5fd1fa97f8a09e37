/**
 * Finds token addresses of this service (src/mail/token-address.ts) that a feedback report quotes: in the header of the reported mail, and
 * in its Original-Mail-From (RFC 5965 §3.2). Only someone who has that copy can quote them. The caller verifies the tokens.
 */
import { type Fields, fieldsOf, type ReceivedMail } from './received.ts';

const LOCAL_PART = /(?<![\w.+-])[bu]\+[a-z2-7]{45}(?=@)/gi;
const OF_THE_MAIL = ['return-path', 'cfbl-address', 'list-unsubscribe', 'x-original-return-path'];
/** More than one copy has. */
const MOST = 4;

/** Returns the local parts without duplicates. */
export function quotedTokens(mail: ReceivedMail, original: Fields | undefined): string[] {
  const report = mail.parts.find((part) => part.type === 'message/feedback-report');
  const written = [
    ...OF_THE_MAIL.flatMap((name) => original?.all(name) ?? []),
    ...(report ? fieldsOf(report.latin1()).all('original-mail-from') : []),
  ];
  const found = written.flatMap((value) => value.match(LOCAL_PART) ?? []);
  return [...new Set(found.map((local) => local.toLowerCase()))].slice(0, MOST);
}
