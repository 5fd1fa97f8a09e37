/**
 * The simulated DNS at the level of datagrams: answers the queries of the product's own stub resolver from a table of zones. The seed
 * decides which queries are lost and which servers fail.
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
  /** Sets the records of a name; a name without records does not exist. */
  set(name: string, answers: Answer[]): void;
  /** Servers fail for this name until then, virtual ms. */
  failUntil(name: string, ms: number): void;
  /** The zones of this domain are signed and validated: answers have the AD bit. */
  sign(domain: string): void;
  /** Changes the zones at a time. */
  at(ms: number, change: () => void): void;
}

const NAME_ERROR = 3;
const SERVER_FAILURE = 2;
const AUTHORITATIVE = 1 << 10;
/** RFC 4035 §3.2.3. */
const AUTHENTIC_DATA = 1 << 5;

export function createDns(
  timeline: Timeline,
  { random, faults, count = () => undefined }: { random: Random; faults: DnsFaults; count?: (what: string) => void },
): DnsWorld {
  const zones = new Map<string, Answer[]>();
  const signed = new Set<string>();
  const failing = new Map<string, number>();
  const isSigned = (name: string): boolean => [...signed].some((one) => name === one || name.endsWith(`.${one}`));
  const answerTo = (bytes: Buffer): Buffer => {
    const { id = 0, questions = [] } = decode(bytes);
    const { name, type } = questions[0]!;
    const asked = name.toLowerCase();
    const known = zones.get(asked);
    const isFailure = random.chance(faults.failed) || timeline.nowMs < (failing.get(asked) ?? 0);
    if (isFailure) count('DNS server failure');
    const rcode = isFailure ? SERVER_FAILURE : known === undefined ? NAME_ERROR : 0;
    const answers = isFailure ? [] : (known ?? []).filter((one) => one.type === (type as RecordType));
    return encode({
      type: 'response',
      id,
      flags: AUTHORITATIVE | (isSigned(asked) ? AUTHENTIC_DATA : 0) | rcode,
      questions,
      answers: answers.map((one) => ({ ...one, name }) as Answer),
    });
  };
  return {
    set: (name, answers) => void zones.set(name, answers),
    failUntil: (name, ms) => void failing.set(name, ms),
    sign: (domain) => void signed.add(domain),
    at: (ms, change) => void timeline.after(ms, 'a zone changes', change, timeline.world),
    ask: (question, answer) => {
      if (random.chance(faults.lost)) {
        count('lost DNS datagram');
        return;
      }
      const reply = answerTo(question);
      timeline.after(random.between(0.5, 60), 'dns', () => answer(reply), timeline.world);
    },
  };
}
