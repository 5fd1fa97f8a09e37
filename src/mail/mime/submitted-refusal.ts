/**
 * Refusals of submitted mail: reply code, enhanced code (RFC 3463), and one line of text with the problem, its place, and the fix. The text
 * is printable ASCII for any mail, and fits into a reply line.
 */

export interface SubmissionRefusal {
  code: number;
  enhanced: string;
  text: string;
}

const MAX_TEXT_LENGTH = 400;
const MAX_QUOTE_LENGTH = 60;

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]+/g, '?');
}

/** Returns a piece of the mail in the form allowed in a reply. */
export function quote(text: string): string {
  const short = printable(text);
  return short.length > MAX_QUOTE_LENGTH ? `${short.slice(0, MAX_QUOTE_LENGTH)}...` : short;
}

function refusal(code: number, enhanced: string, text: string): SubmissionRefusal {
  return { code, enhanced, text: printable(text).slice(0, MAX_TEXT_LENGTH) };
}

/** The mail violates the format. */
export function malformed(text: string): SubmissionRefusal {
  return refusal(550, '5.6.0', text);
}

/** The format is valid, but exceeds a limit. */
export function excessive(text: string): SubmissionRefusal {
  return refusal(554, '5.6.0', text);
}

/** The sender in the mail is refused. */
export function senderRefused(text: string): SubmissionRefusal {
  return refusal(550, '5.7.1', text);
}

export function tooLarge(text: string): SubmissionRefusal {
  return refusal(552, '5.3.4', text);
}
