/** The status of an account: for an active one, whether sending protection has warned it or holds its live mail. */
import { Badge } from '../../parts/badge.tsx';
import type { Tone } from '../../parts/tone.ts';
import { accounts } from '../../texts/operator.ts';

export type ShownStatus = keyof typeof accounts.statuses;

const TONES: Record<ShownStatus, Tone> = { active: 'good', warned: 'wait', held: 'bad', suspended: 'bad' };

interface WithStatus {
  status: 'active' | 'suspended';
  sendingProtection: { status: 'good' | 'warned' | 'held' };
}

export function shownStatusOf({ status, sendingProtection }: WithStatus): ShownStatus {
  return status === 'active' && sendingProtection.status !== 'good' ? sendingProtection.status : status;
}

export function AccountStatus({ account }: { account: WithStatus }) {
  const shown = shownStatusOf(account);
  return <Badge tone={TONES[shown]}>{accounts.statuses[shown]}</Badge>;
}
