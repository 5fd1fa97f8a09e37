/**
 * Whose address is on the suppression list: those that a server said it does not know, those whose domain takes no mail, for seven days, and
 * those that something came back of. Nobody else is, whatever else a server refused, and none of them is left out.
 */

import type { Rows } from './node.ts';
import type { EventRow, MessageRow } from './oracle.ts';
import type { Peer } from './peers.ts';
import { isNowhere } from './policies.ts';
import { REFUSALS } from './refusals.ts';
import type { Report } from './reporters.ts';

const REPORTED = new Set<string>(['bounce', 'complaint', 'abuse', 'unsubscribe']);
/** Of a domain that may be there again. */
const NOWHERE_MS = 7 * 86_400_000;

interface SuppressionEvidence {
  database: Rows;
  peers: readonly Peer[];
  clockSetAtMs: readonly number[];
  reports: readonly Report[];
  messages: readonly MessageRow[];
  events: readonly EventRow[];
}

interface SuppressionRow {
  email: string;
  created_at: number;
  expires_at: number | null;
}

export function suppressionFaults(evidence: SuppressionEvidence): string[] {
  // The sandbox has a list of its own, which stays empty here.
  const rows = evidence.database.all<SuppressionRow>('SELECT email, created_at, expires_at FROM suppression');
  return [...ofListed(evidence, rows), ...ofBounced(evidence, rows)];
}

/** Who is on the list has a reason, and gets no mail. */
function ofListed(
  { peers, reports, messages, clockSetAtMs }: SuppressionEvidence,
  rows: readonly SuppressionRow[],
): string[] {
  const reported = reports.filter(({ kind }) => REPORTED.has(kind)).map(({ copy }) => copy.recipient);
  const said = peers.filter(({ manners }) => REFUSALS[manners.refusal].suppresses);
  const known = new Set([...said.flatMap((peer) => [...peer.refused]), ...reported]);
  return rows.flatMap(({ email, created_at: sinceMs, expires_at: untilMs }) => {
    const faults = known.has(email) || isNowhere(email) ? [] : [`${email} is suppressed without a reason`];
    const longestMs = isNowhere(email) ? NOWHERE_MS : null;
    if (longestMs === null ? untilMs !== null : untilMs === null || untilMs - sinceMs !== longestMs)
      faults.push(`${email} is suppressed until ${untilMs}, since ${sinceMs}`);
    const later = messages.filter(
      (one) => one.mode === 'live' && one.recipient === email && one.created_at > sinceMs && clockSetAtMs.length === 0,
    );
    const sent = later.filter(({ status }) => status !== 'suppressed' && status !== 'cancelled');
    return [...faults, ...sent.map(({ id }) => `${id} is to ${email}, which is suppressed`)];
  });
}

const SUPPRESSING_REPLIES = new Set(Object.values(REFUSALS).flatMap((one) => (one.suppresses ? [one.reply] : [])));

/** Who bounced for such a reason is on the list. */
function ofBounced({ messages, events }: SuppressionEvidence, rows: readonly SuppressionRow[]): string[] {
  const listed = new Set(rows.map(({ email }) => email));
  return events.flatMap(({ type, late, mode, message_id: id, detail }) => {
    if (type !== 'Bounce' || late === 1 || mode !== 'live') return [];
    const { recipient } = messages.find((one) => one.id === id)!;
    const { reply, category } = JSON.parse(detail).bounce;
    const isOfAddress = SUPPRESSING_REPLIES.has(reply) || (isNowhere(recipient) && category === 'domain-not-found');
    return !isOfAddress || listed.has(recipient) ? [] : [`${recipient} bounced with ${reply}, and is not suppressed`];
  });
}
