/** A status as text and color; the text alone is sufficient. */
import type { ReactNode } from 'react';
import classes from './parts.module.css';

export type Tone = 'good' | 'bad' | 'wait' | 'calm' | 'note';

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
  send: 'note',
  delivery: 'good',
  deliverydelay: 'wait',
  bounce: 'bad',
  complaint: 'bad',
  reject: 'calm',
  open: 'calm',
  click: 'calm',
  unsubscribe: 'calm',
  inbound: 'note',
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

/** A status by its name in the API. */
export function StatusBadge({ status }: { status: string }) {
  const words = status.replace(/(?<=[a-z])(?=[A-Z])/g, ' ');
  return <Badge tone={TONES[status.toLowerCase()] ?? 'calm'}>{words.charAt(0).toUpperCase() + words.slice(1)}</Badge>;
}
