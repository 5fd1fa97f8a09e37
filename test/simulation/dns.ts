/**
 * The DNS of the world, at the level of datagrams: answers the questions of the product's own stub from a table of zones. Questions are
 * lost and servers fail as the seed decides.
 */
import { type Answer, decode, encode, type RecordType } from 'dns-packet';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export interface DnsFaults {
  lost: number;
  failed: number;
}

export interface DnsWorld {
  ask(question: Buffer, answer: (bytes: Buffer) => void): void;
  /** Records of a name; a name without any does not exist. */
  set(name: string, answers: Answer[]): void;
  readonly counts: Record<string, number>;
}

const NAME_ERROR = 3;
const SERVER_FAILURE = 2;
const AUTHORITATIVE = 1 << 10;

export function createDns(timeline: Timeline, { random, faults }: { random: Random; faults: DnsFaults }): DnsWorld {
  const zones = new Map<string, Answer[]>();
  const counts: Record<string, number> = {};
  const count = (what: string): void => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const answerTo = (bytes: Buffer): Buffer => {
    const { id = 0, questions = [] } = decode(bytes);
    const { name, type } = questions[0]!;
    const known = zones.get(name.toLowerCase());
    const isFailure = random.chance(faults.failed);
    if (isFailure) count('a server that failed');
    const rcode = isFailure ? SERVER_FAILURE : known === undefined ? NAME_ERROR : 0;
    const answers = isFailure ? [] : (known ?? []).filter((one) => one.type === (type as RecordType));
    return encode({
      ...{ type: 'response', id, flags: AUTHORITATIVE | rcode, questions },
      answers: answers.map((one) => ({ ...one, name }) as Answer),
    });
  };
  return {
    counts,
    set: (name, answers) => void zones.set(name, answers),
    ask: (question, answer) => {
      if (random.chance(faults.lost)) {
        count('a datagram lost');
        return;
      }
      const reply = answerTo(question);
      timeline.after(random.between(0.5, 60), 'dns', () => answer(reply), timeline.world);
    },
  };
}
