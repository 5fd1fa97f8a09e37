/**
 * The caller's own headers. Refuses whatever structures the mail, traces its way or proves its origin: those are ours to
 * write, and a second copy is how mail is forged. Reply-To may stand here instead of in replyTo. X-Sandbox-Outcome is an
 * order to the sandbox and never leaves.
 */
import type { Issue } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { hasForbiddenControl, isHeaderName } from '../mail/compose/header.ts';

const MAX_TOTAL_LENGTH = 64_000;

const REFUSED = new Set(
  `apparently-to authentication-results bcc cc date delivered-to dkim-signature domainkey-signature from idempotency-key message-id
  mime-version received received-spf reply-to return-path sender subject to x-original-to`.split(/\s+/),
);
const REFUSED_PREFIXES = ['arc-', 'content-', 'resent-', 'x-postrider-'];
/** Refused here because a field of the request says the same. */
const FIELDS: Record<string, string> = {
  from: 'from',
  to: 'to',
  cc: 'cc',
  bcc: 'bcc',
  'reply-to': 'replyTo',
  subject: 'subject',
};

const OUTCOMES: readonly string[] = ['bounced', 'delayed', 'complained', 'suppressed', 'delivered'];
const SMTP_REPLY = /^[245][0-5]\d(?: [245]\.\d{1,3}\.\d{1,3})?(?: [\x20-\x7e]{1,400})?$/;

export interface ExtraHeaders {
  headers: [name: string, value: string][];
  sandboxOutcome: string | undefined;
  /** Addresses still to be read, with the place they were given in. */
  replyTo: { field: string; value: string } | undefined;
}

export interface HeaderContext {
  mode: Mode;
  /** Whether the request has the field replyTo, which a Reply-To header would contradict. */
  hasReplyTo: boolean;
}

const NONE: ExtraHeaders = { headers: [], sandboxOutcome: undefined, replyTo: undefined };

/** Reads `headers` of a request. */
export function readHeaders(
  given: Record<string, string> | undefined,
  context: HeaderContext,
  issues: Issue[],
): ExtraHeaders {
  if (given === undefined) return NONE;
  const headers: [string, string][] = [];
  let sandboxOutcome: string | undefined;
  let replyTo: ExtraHeaders['replyTo'];
  let total = 0;
  const names = Object.keys(given);
  // One alone is not given twice.
  const seen = names.length > 1 ? new Set<string>() : undefined;
  for (const name of names) {
    const value = given[name]!;
    const lower = name.toLowerCase();
    const isReplyTo = lower === 'reply-to' && !context.hasReplyTo;
    const issue =
      (isReplyTo ? undefined : nameIssue(name, lower)) ??
      (seen?.has(lower) === true ? 'is given twice' : valueIssue(value));
    seen?.add(lower);
    if (issue !== undefined) {
      issues.push({ field: `headers.${name}`, message: issue });
      continue;
    }
    if (lower === 'x-sandbox-outcome') {
      if (context.mode === 'sandbox') sandboxOutcome = readOutcome(value, `headers.${name}`, issues);
      continue;
    }
    if (isReplyTo) {
      replyTo = { field: `headers.${name}`, value };
      continue;
    }
    total += name.length + value.length;
    headers.push([name, value]);
  }
  if (total > MAX_TOTAL_LENGTH)
    issues.push({ field: 'headers', message: `have more than ${MAX_TOTAL_LENGTH} characters together` });
  return { headers, sandboxOutcome, replyTo };
}

function nameIssue(name: string, lower: string): string | undefined {
  if (!isHeaderName(name)) return 'is not a header name (1 to 76 visible ASCII characters without a colon)';
  if (!isRefused(lower)) return undefined;
  const instead = FIELDS[lower];
  return instead === undefined
    ? 'is written by the service and may not be set'
    : `may not be set here; use the field ${instead}`;
}

function isRefused(lower: string): boolean {
  for (const prefix of REFUSED_PREFIXES) if (lower.startsWith(prefix)) return true;
  return REFUSED.has(lower);
}

function valueIssue(value: string): string | undefined {
  return hasForbiddenControl(value) ? 'has a line break or another control character' : undefined;
}

/** The order that X-Sandbox-Outcome gives to the sandbox; an issue of the field when it is none. */
export function readOutcome(value: string, field: string, issues: Issue[]): string | undefined {
  const text = value.trim();
  const word = text.toLowerCase();
  if (OUTCOMES.includes(word)) return word;
  if (SMTP_REPLY.test(text)) return text;
  issues.push({
    field,
    message: `must be one of ${OUTCOMES.join(', ')}, or an SMTP reply such as 452 4.2.2 mailbox full`,
  });
  return undefined;
}
