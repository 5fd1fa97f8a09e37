/** Texts of an incident for the overview, the list, and its page. */
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

/** The API's advice names API calls; the portal has buttons and pages instead. */
export function adviceOf(one: Incident): string {
  const { advice } = incidents;
  if (one.kind === 'webhook') return advice[one.state](one.host);
  if (one.kind === 'domain') return advice.domain(one.record.name);
  if (one.kind === 'reputation') return [advice.rates[one.rate ?? ''], advice[one.state]].filter(Boolean).join(' ');
  return one.advice;
}

/** Returns, for example, "Mailbox full" for `mailbox-full`. */
export function categoryName(category: string): string {
  return category.charAt(0).toUpperCase() + category.slice(1).replaceAll('-', ' ');
}

export function whoseTurn(one: Incident): string {
  if (one.kind === 'reputation') return incidents.turns.reputation;
  return incidents.turns[one.kind === 'webhook' ? 'webhook' : one.owner];
}
