/** The outcome of an inbound message as a badge. */
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { outcomes } from '../../texts/inbound.ts';

export type Outcome = Answer<'getInboundMail'>['outcome'];

export function OutcomeBadge({ outcome }: { outcome: Outcome }) {
  return <Badge tone={outcome === 'event' ? 'good' : 'calm'}>{outcomes[outcome].name}</Badge>;
}
