/**
 * Replies in words (RFC 5321 §4.2, enhanced codes of RFC 3463): the fixed ones, and those that are made of a refusal. What goes out is
 * one line of printable ASCII, whatever went in.
 */
import { catalogue, type Failure } from '../base/failure.ts';

const LONGEST = 500;

/** One line that a reply may be. */
export function cleanReply(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?').slice(0, LONGEST);
}

/** The reply for a refusal of the catalogue, with its first issue named. */
export function replyFor(failure: Failure): string {
  const [issue] = failure.details;
  const isNamed = issue !== undefined && failure.code === 'INVALID_REQUEST';
  return `${catalogue[failure.code].smtp} ${isNamed ? `${issue.field} ${issue.message}` : failure.message}`;
}

export const BUSY = '451 4.3.2 the service cannot take mail right now; try again later';
export const BROKEN = '451 4.3.0 something broke on our side; try again later';
export const STOPPING = '421 4.3.2 the service is stopping; connect again';
export const NEEDS_TLS = '530 5.7.0 STARTTLS first';
export const NEEDS_LOGIN = '530 5.7.0 authentication required';
export const LOGIN_FAILED = '535 5.7.8 authentication failed; check user name and password';
export const TOO_LARGE = (maxBytes: number): string => `552 5.3.4 the message is larger than ${maxBytes} bytes`;
