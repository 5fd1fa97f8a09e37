/**
 * Checks the suppression list: it contains addresses that a server reported as unknown, those whose domain accepts no mail, for seven days,
 * and those with a report; no others, whatever else a server refused, and none is missing.
 */

import type { Suppressed } from './customer-actions.ts';
import type { Entry } from './customers.ts';
import type { Rows } from './node.ts';
import type { EventRow, MessageRow } from './oracle.ts';
import type { Peer } from './peers.ts';
import { isNowhere } from './policies.ts';
import { refusalBehind } from './refusals.ts';
import type { Report } from './reporters.ts';
import type { Attempt } from './schedule-oracle.ts';

const REPORTED = new Set<string>(['bounce', 'complaint', 'abuse', 'unsubscribe']);
/** Maximum time between the claim of a message and its attempt. */
const IN_PROGRESS_MS = 60_000;
/** For a domain that may exist again. */
const NOWHERE_MS = 7 * 86_400_000;

interface SuppressionEvidence {
  database: Rows;
  peers: readonly Peer[];
  clockSetAtMs: readonly number[];
  reports: readonly Report[];
  messages: readonly MessageRow[];
  events: readonly EventRow[];
  attempts: readonly Attempt[];
  ledger: readonly Entry[];
  manually: readonly Suppressed[];
  /** The wall clock at the start, Unix ms. */
  startMs: number;
  /** Several nodes share the database; their clocks differ. */
  isShared: boolean;
}

interface SuppressionRow {
  email: string;
  created_at: number;
  expires_at: number | null;
}

export function suppressionFaults(evidence: SuppressionEvidence): string[] {
  // The sandbox has its own list, which stays empty here.
  const rows = evidence.database.all<SuppressionRow>('SELECT email, created_at, expires_at FROM suppression');
  return [
    ...ofListed(evidence, rows),
    ...ofBounced(evidence, rows),
    ...ofRefused(evidence),
    ...ofManual(evidence),
    ...ofWelcome(evidence),
    ...ofReplies(evidence),
  ];
}

/** Returns addresses that a server reported as unknown, that had a report, or that a customer suppressed. */
function knownOf({ peers, reports, manually }: SuppressionEvidence): Set<string> {
  const reported = reports.filter(({ kind }) => REPORTED.has(kind)).map(({ copy }) => copy.recipient);
  const unknown = peers.flatMap((peer) => [...peer.unknown]);
  return new Set([...unknown, ...reported, ...manually.map(({ email }) => email)]);
}

/** No message is held back from an address without a reason. */
function ofRefused(evidence: SuppressionEvidence): string[] {
  const known = knownOf(evidence);
  return evidence.messages.flatMap(({ id, status, mode, recipient }) =>
    status !== 'suppressed' || mode !== 'live' || known.has(recipient) || isNowhere(recipient)
      ? []
      : [`${id} is suppressed, though nothing speaks against ${recipient}`],
  );
}

/** A refusal ends the message immediately or not at all, as its reply says. */
function ofReplies({ attempts, messages }: SuppressionEvidence): string[] {
  const byId = new Map(messages.map((one) => [one.id, one]));
  return attempts.flatMap(({ message_id: id, reply, outcome, at }) => {
    const { recipient, expires_at: expiresAt, mode } = byId.get(id)!;
    const refusal = mode === 'live' ? refusalBehind(reply, recipient) : undefined;
    if (refusal?.isFinal && outcome === 'delayed') return [`${id} was refused with ${reply}, and waits`];
    if (refusal && !refusal.isFinal && outcome === 'bounced' && at < expiresAt)
      return [`${id} was ended by ${reply}, which passes`];
    return [];
  });
}

/** After the response to a request, except for messages in progress, no attempt is made to an address that it suppressed. */
function ofManual({ manually, messages, attempts, startMs, isShared, clockSetAtMs }: SuppressionEvidence): string[] {
  if (isShared || clockSetAtMs.length > 0) return [];
  return manually.flatMap(({ email, atMs, removeAskedAtMs = Number.POSITIVE_INFINITY }) => {
    const ids = new Set(messages.filter(({ recipient }) => recipient === email).map(({ id }) => id));
    const fromMs = startMs + atMs + IN_PROGRESS_MS;
    const own = attempts.filter((one) => ids.has(one.message_id) && one.startedMs > fromMs);
    const late = own.filter(({ startedMs }) => startedMs < startMs + removeAskedAtMs);
    return late.map((one) => `${one.message_id} was tried, though ${email} was suppressed before`);
  });
}

/** An address that was removed receives again, unless it was suppressed for another reason. */
function ofWelcome({ ledger, messages, peers, reports }: SuppressionEvidence): string[] {
  const welcome = new Set(ledger.filter(({ isWelcome }) => isWelcome).map(({ mail }) => mail.key));
  const refused = new Set(peers.flatMap((peer) => [...peer.refused]));
  const isOther = (recipient: string): boolean =>
    refused.has(recipient) || reports.some(({ copy }) => copy.recipient === recipient);
  return messages.flatMap(({ id, subject, status, recipient }) =>
    status === 'suppressed' && welcome.has(subject) && !isOther(recipient)
      ? [`${id} is suppressed, though ${recipient} was let off the list`]
      : [],
  );
}

/** A suppressed address has a reason, and receives no mail. */
function ofListed(evidence: SuppressionEvidence, rows: readonly SuppressionRow[]): string[] {
  const { messages, clockSetAtMs } = evidence;
  const known = knownOf(evidence);
  return rows.flatMap(({ email, created_at: sinceMs, expires_at: untilMs }) => {
    const faults = known.has(email) || isNowhere(email) ? [] : [`${email} is suppressed without a reason`];
    const longestMs = isNowhere(email) ? NOWHERE_MS : null;
    const isLimited = evidence.manually.some((one) => one.email === email);
    if (!isLimited && (longestMs === null ? untilMs !== null : untilMs === null || untilMs - sinceMs !== longestMs))
      faults.push(`${email} is suppressed until ${untilMs}, since ${sinceMs}`);
    const later = messages.filter(
      (one) =>
        one.mode === 'live' &&
        one.recipient === email &&
        one.created_at > sinceMs &&
        one.created_at < (untilMs ?? Number.POSITIVE_INFINITY) &&
        clockSetAtMs.length === 0,
    );
    const sent = later.filter(({ status }) => status !== 'suppressed' && status !== 'cancelled');
    return [...faults, ...sent.map(({ id }) => `${id} is to ${email}, which is suppressed`)];
  });
}

/** An address that bounced for such a reason is suppressed, and every bounce has the kind of its reply. */
function ofBounced({ messages, events }: SuppressionEvidence, rows: readonly SuppressionRow[]): string[] {
  const listed = new Set(rows.map(({ email }) => email));
  const bySubject = Map.groupBy(messages, (one) => one.subject);
  return events.flatMap(({ type, late, mode, message_id: id, detail }) => {
    if (type !== 'Bounce' || late === 1 || mode !== 'live') return [];
    const { recipient, subject } = messages.find((one) => one.id === id)!;
    const { reply, category, kind } = JSON.parse(detail).bounce;
    const refusal = category === 'expired' ? undefined : refusalBehind(reply, recipient);
    const faults =
      refusal && refusal.bounce !== kind
        ? [`${id} bounced with ${reply}, of kind ${kind} and not ${refusal.bounce}`]
        : [];
    // A dot for several recipients says nothing about one of them.
    const isOfAddress = refusal?.suppresses && (refusal.at === 'RCPT' || bySubject.get(subject)!.length === 1);
    const isGone = isNowhere(recipient) && category === 'domain-not-found';
    if ((isOfAddress || isGone) && !listed.has(recipient))
      faults.push(`${recipient} bounced with ${reply}, and is not suppressed`);
    return faults;
  });
}
