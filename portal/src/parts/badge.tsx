/** A status as text and color; the text alone is sufficient. */
import type { ReactNode } from 'react';
import classes from './parts.module.css';
import { capitalized } from './sentence.ts';
import type { Tone } from './tone.ts';

const TONES: Record<string, Tone> = {
  delivered: 'good',
  bounced: 'bad',
  complained: 'bad',
  delayed: 'wait',
  queued: 'note',
  sending: 'note',
  scheduled: 'note',
  suppressed: 'calm',
  cancelled: 'calm',
  verified: 'good',
  pending: 'wait',
  failing: 'bad',
  missing: 'bad',
  different: 'bad',
  unknown: 'calm',
  active: 'good',
  suspended: 'bad',
  invited: 'note',
  approved: 'good',
  rejected: 'bad',
  declined: 'calm',
  expired: 'calm',
  running: 'note',
  done: 'good',
  disabled: 'calm',
  succeeded: 'good',
  failed: 'bad',
  good: 'good',
  warning: 'wait',
  critical: 'bad',
  warned: 'wait',
  held: 'bad',
};

export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return <span className={`${classes.badge} ${classes[tone]}`}>{children}</span>;
}

/** Shows a status, or a type of events, by its name in the API. */
export function StatusBadge({ status, tone = TONES[status] ?? 'calm' }: { status: string; tone?: Tone }) {
  return <Badge tone={tone}>{capitalized(status.replace(/(?<=[a-z])(?=[A-Z])/g, ' '))}</Badge>;
}
