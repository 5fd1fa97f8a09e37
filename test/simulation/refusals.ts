/**
 * How a mail server refuses mail, and what that means by the contract: whether the message ends, whether its address is suppressed, and the
 * kind of its bounce. The text decides first, then the enhanced code, then the class: text about the sender, a list, a policy or another
 * server prevents a suppression whatever the code, and a 5xx that says "later" is temporary.
 */
import type { Random } from './random.ts';

export interface Refusal {
  at: 'MAIL' | 'RCPT' | 'dot';
  /** `{to}` is replaced by the recipient. */
  reply: string;
  /** Whether the message bounces immediately. */
  isFinal: boolean;
  /** At the dot only if the transaction had one recipient. */
  suppresses: boolean;
  /** The kind of its bounce. */
  bounce: 'hard' | 'soft' | 'block';
  /** It blocks the host: all mail for the server waits, by the schedule of blocked hosts. */
  isBlock?: boolean;
}

const unknown = { at: 'RCPT', isFinal: true, suppresses: true, bounce: 'hard' } as const;
const vetoed = { at: 'RCPT', isFinal: true, suppresses: false } as const;
const passing = { at: 'RCPT', isFinal: false, suppresses: false, bounce: 'soft' } as const;

export const REFUSALS = {
  'no mailbox': { ...unknown, reply: '550 5.1.1 no such user' },
  'no mailbox, by name': {
    ...unknown,
    reply: '550 5.1.1 <{to}>: Recipient address rejected: User unknown in virtual mailbox table',
  },
  'no mailbox, in German': { ...unknown, reply: '550 {to} Benutzer unbekannt' },
  'no mailbox, in several lines': {
    ...unknown,
    reply: '550-5.1.1 The email account that you tried to reach\r\n550 5.1.1 does not exist: {to}',
  },
  'no mailbox, after other codes': { ...unknown, reply: '450-please wait\r\n550 5.1.1 no such user here' },
  'no mailbox, at the dot': {
    ...unknown,
    at: 'dot',
    reply: "554 delivery error: dd This user doesn't have an account ({to}) [0]",
  },
  policy: { ...vetoed, reply: '550 5.7.1 access denied by policy', bounce: 'block' },
  'policy, of an unknown user': { ...vetoed, reply: '550 5.7.1 user unknown', bounce: 'hard' },
  'sender, of an unknown user': {
    ...vetoed,
    reply: '550 5.1.1 sender address rejected: unknown user',
    bounce: 'block',
  },
  'a list': {
    ...vetoed,
    reply: '550 5.1.1 <{to}> is a members only list, you are not allowed to post',
    bounce: 'block',
  },
  'another server': { ...vetoed, reply: '550 5.1.1 Remote server returned: no such user', bounce: 'hard' },
  'many unknown users': { ...vetoed, reply: '550 5.1.1 too many unknown users from your host', bounce: 'block' },
  full: { ...vetoed, reply: '552 5.2.2 mailbox full', bounce: 'soft' },
  listed: { ...passing, reply: '550 5.7.1 your host is on our block list', bounce: 'block', isBlock: true },
  'listed, of an unknown user': {
    ...passing,
    reply: '550 5.1.1 user unknown, or your host is blocked by our policy',
    bounce: 'block',
    isBlock: true,
  },
  later: { ...passing, reply: '554 5.7.1 Greylisted, please come back later' },
  'greylisted, with a 5xx': { ...passing, reply: '550 5.7.1 <{to}>: Recipient address rejected: Greylisted' },
  'too many recipients': { ...passing, reply: '552 5.5.3 too many recipients' },
  sender: { ...vetoed, at: 'MAIL', reply: '553 5.1.8 sender address refused', bounce: 'block' },
  content: { ...vetoed, at: 'dot', reply: '554 5.6.0 message content refused', bounce: 'block' },
} as const satisfies Record<string, Refusal>;

export type RefusalKind = keyof typeof REFUSALS;

export const refusalOf = (kind: RefusalKind): Refusal => REFUSALS[kind];

/** Returns the server's reply for this recipient. */
export const replyTo = (kind: RefusalKind, to: string): string => REFUSALS[kind].reply.replaceAll('{to}', to);

/** Returns the refusal of a recorded reply about a recipient; its lines are joined there. */
export function refusalBehind(reply: string | null, recipient: string): Refusal | undefined {
  if (reply === null) return undefined;
  const kinds = Object.keys(REFUSALS) as RefusalKind[];
  const lastLine = (kind: RefusalKind): string => {
    const said = replyTo(kind, recipient);
    const line = said.split('\r\n').at(-1)!;
    // The enhanced code of a later line is omitted if it equals that of the first one.
    return line === said ? line : line.replace(/^\d{3} (5\.\d\.\d+ )?/, '');
  };
  const kind = kinds.find((one) =>
    replyTo(one, '').includes('\r\n') ? reply.endsWith(lastLine(one)) : reply === lastLine(one),
  );
  return kind && REFUSALS[kind];
}

const KINDS = Object.keys(REFUSALS) as RefusalKind[];

/** Draws the refusals of a server: one reason, or several. */
export function drawRefusals(random: Random): RefusalKind[] {
  const drawn = Array.from({ length: 1 + random.below(4) }, () =>
    random.chance(0.3) ? 'no mailbox' : random.pick(KINDS),
  );
  // A refused dot with several recipients says nothing about one of them.
  const atDot: RefusalKind[] = random.stream('at the dot').chance(0.2) ? ['no mailbox, at the dot'] : [];
  return [...new Set([...drawn, ...atDot])];
}
