/** What became of a mail that came in, in a word. */
import type { Answer } from '../../api.ts';
import { Badge } from '../../parts/badge.tsx';
import { outcomes } from '../../texts/inbound.ts';

export type Outcome = Answer<'getInboundMail'>['outcome'];

export function OutcomeBadge({ outcome }: { outcome: Outcome }) {
  return <Badge tone={outcome === 'event' ? 'good' : 'calm'}>{outcomes[outcome].name}</Badge>;
}
