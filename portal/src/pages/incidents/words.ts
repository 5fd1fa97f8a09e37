/** Incidents in words: the same on the overview, in the list and on their own pages. */
import type { Answer } from '../../api.ts';
import { incidents } from '../../texts/incidents.ts';

export type Incident = Answer<'listIncidents'>[number];

export function whatFails(one: Incident): string {
  if (one.kind === 'delivery') return incidents.what[one.state](one.destination);
  if (one.kind === 'webhook') return incidents.what[one.state](one.host);
  if (one.kind === 'reputation') return incidents.what[one.state];
  return incidents.what.domain(one.domain);
}

export function howMany(one: Incident): string {
  if (one.kind === 'delivery') return incidents.messages(one.messages);
  if (one.kind === 'webhook') return incidents.deliveries(one.deliveries);
  return incidents.allItsMail;
}

export function whoseTurn(one: Incident): string {
  if (one.kind === 'reputation') return incidents.turns.reputation;
  return incidents.turns[one.kind === 'webhook' ? 'webhook' : one.owner];
}
