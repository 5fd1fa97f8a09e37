/** The transitions that the state machine of messages allows, as before>after; the first three are of a new message. */
export const TRANSITIONS: ReadonlySet<string> = new Set([
  '>queued',
  '>scheduled',
  '>suppressed',
  'scheduled>queued',
  'queued>delayed',
  'delayed>queued',
  'scheduled>delayed',
  'scheduled>delivered',
  'queued>delivered',
  'delayed>delivered',
  'scheduled>bounced',
  'queued>bounced',
  'delayed>bounced',
  'delivered>bounced',
  'delivered>complained',
  'scheduled>suppressed',
  'queued>suppressed',
  'delayed>suppressed',
  'scheduled>cancelled',
  'queued>cancelled',
  'delayed>cancelled',
]);

/** Returns the transitions and states that did not occur in any of these scenarios. */
export function unseen(transitions: Readonly<Record<string, number>>): { states: string[]; transitions: string[] } {
  const after = (one: string): string => one.slice(one.indexOf('>') + 1);
  const seen = new Set(Object.keys(transitions).map(after));
  return {
    states: [...new Set([...TRANSITIONS].map(after))].filter((one) => !seen.has(one)),
    transitions: [...TRANSITIONS].filter((one) => transitions[one] === undefined),
  };
}
