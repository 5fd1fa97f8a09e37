/**
 * The signal of an attempt about its destination, for all messages that wait for it: it answers, it accepts no more connections, it asks
 * for time, it stalled, or it is unreachable. Pure; destinations/registry.ts decides how a signal affects a destination.
 */
import type { RecipientResult } from '../../net/smtp-client.ts';
import type { PauseRule } from '../destinations/providers.ts';
import type { Evidence, Outcome } from './outcome.ts';
import { isAboutConnections, type PauseRequest, pauseByRule, pauseRequestOf, waitHintMs } from './pause.ts';

/** Why a destination is paused: the outcome of the message that was refused, and the host that refused it. */
export interface Refusal {
  outcome: Outcome;
  host: string | null;
}

export type Signal =
  | { kind: 'nothing' }
  /** The peer answered an envelope; `accepted` if it accepted a recipient. */
  | { kind: 'answered'; accepted: boolean }
  /** The peer refused another connection while `open` connections existed. */
  | { kind: 'connection-limit'; open: number }
  /** No session could be opened. */
  | { kind: 'unreachable' }
  /** The peer stalled in the middle of an envelope. */
  | { kind: 'stalled'; refusal: Refusal }
  | { kind: 'wait'; request: PauseRequest; refusal: Refusal };

export const NO_SIGNAL: Signal = { kind: 'nothing' };

export interface NotOpenedFacts {
  evidence: Evidence;
  host: string | null;
  /** The refusal is about what this message requires of the connection: other messages may get one. */
  isForNeed: boolean;
  /** Other sessions of this process that the destination has open. */
  open: number;
}

/** Returns the signal of a session that could not be opened. */
export function signalOfOpening({ evidence, host, isForNeed, open }: NotOpenedFacts, outcome: Outcome): Signal {
  if (evidence.cause === 'ECANCELLED') return NO_SIGNAL;
  const isBeforeMail = evidence.stage === 'connect' || evidence.stage === 'banner' || evidence.stage === 'ehlo';
  const text = evidence.reply?.text ?? '';
  const asksForTime = waitHintMs(text) !== undefined && !isAboutConnections(text);
  // While sessions are open, a refusal before MAIL is about their number, unless it blocks this host or names a time.
  const isAboutNumber = open > 0 && isBeforeMail && outcome.category !== 'blocked' && !asksForTime;
  if (isAboutNumber && outcome.kind === 'temporary') return { kind: 'connection-limit', open };
  const request = pauseRequestOf(evidence, outcome);
  if (request) return { kind: 'wait', request, refusal: { outcome, host } };
  if (isForNeed) return NO_SIGNAL;
  return outcome.kind === 'temporary' || evidence.stage === 'dns' ? { kind: 'unreachable' } : NO_SIGNAL;
}

/** A recipient's result in a session; without an outcome the recipient was put back, and the result is ignored. */
export interface Answer {
  result: RecipientResult;
  outcome: Outcome | undefined;
  /** The addresses and domains of the message's sender. */
  senders?: readonly string[];
}

/** Returns the signal of a message that was sent over an open session with `host`. */
export function signalOfSession(answers: readonly Answer[], host: string): Signal {
  if (answers.some(({ result }) => result.accepted)) return { kind: 'answered', accepted: true };
  let signal: Signal = NO_SIGNAL;
  for (const { result, outcome, senders } of answers) {
    if (outcome === undefined) continue;
    const request = pauseRequestOf(result, outcome, senders);
    if (request) return { kind: 'wait', request, refusal: { outcome, host } };
    if (result.reply) signal = { kind: 'answered', accepted: false };
    else if (result.cause === 'ETIMEDOUT' && result.stage !== 'dot' && signal.kind === 'nothing') {
      signal = { kind: 'stalled', refusal: { outcome, host } };
    }
  }
  return signal;
}

/** Whether a refusal within a session asks for fewer connections. */
export function requestsFewerConnections(signal: Signal): boolean {
  return signal.kind === 'wait' && isAboutConnections(signal.refusal.outcome.reply ?? '');
}

/** Merges the signals of two sessions of one attempt: an accepted recipient takes precedence, then the later signal. */
export function laterSignal(before: Signal, now: Signal): Signal {
  const accepted = before.kind === 'answered' && before.accepted;
  return accepted || now.kind === 'nothing' ? before : now;
}

/** A provider's rule turns a refusal into a pause, or sets the length of one; a block and a connection limit take precedence. */
export function signalByRules(rules: readonly PauseRule[], signal: Signal, refusals: readonly Refusal[]): Signal {
  if (signal.kind === 'connection-limit' || (signal.kind === 'wait' && signal.request.blocked)) return signal;
  for (const refusal of refusals) {
    const request = pauseByRule(rules, refusal.outcome);
    if (request) return { kind: 'wait', request, refusal };
  }
  return signal;
}
