/** The status of an account in the list and on its page: an active account whose live mail is warned or held is displayed as such. */
import { Badge, type Tone } from '../../parts/badge.tsx';
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
