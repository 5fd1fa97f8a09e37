/**
 * How a mail server of the world refuses mail for good, and what of it speaks of the address, so that it goes onto the suppression list. One
 * that names a block list speaks of our host: whatever its code, the mail waits until its lifetime ends.
 */
import type { Random } from './random.ts';

export type RefusalKind = 'no mailbox' | 'policy' | 'full' | 'listed' | 'sender' | 'content';

interface Refusal {
  at: 'MAIL' | 'RCPT' | 'dot';
  reply: string;
  /** That the mail bounces at once. */
  isFinal: boolean;
  suppresses: boolean;
}

const ofMail = { isFinal: true, suppresses: false };

export const REFUSALS: Readonly<Record<RefusalKind, Refusal>> = {
  'no mailbox': { at: 'RCPT', reply: '550 5.1.1 no such user', isFinal: true, suppresses: true },
  policy: { ...ofMail, at: 'RCPT', reply: '550 5.7.1 access denied by policy' },
  full: { ...ofMail, at: 'RCPT', reply: '552 5.2.2 mailbox full' },
  listed: { ...ofMail, at: 'RCPT', reply: '550 5.7.1 your host is on our block list', isFinal: false },
  sender: { ...ofMail, at: 'MAIL', reply: '553 5.1.8 sender address refused' },
  content: { ...ofMail, at: 'dot', reply: '554 5.6.0 message content refused' },
};

const OTHERS = (Object.keys(REFUSALS) as RefusalKind[]).filter((kind) => kind !== 'no mailbox');

export const drawRefusal = (random: Random): RefusalKind => (random.chance(0.6) ? 'no mailbox' : random.pick(OTHERS));
