/**
 * The status of a message as text: what happened, who has to act, and what comes next. Pure: the caller passes the format of times, so a
 * page and a test show the same.
 */
import type { Event, Message, MessageDetail } from '../../../../clients/typescript/src/schema.ts';
import type { Tone } from '../../parts/tone.ts';
import { causes, happened, next, type turns, waits } from '../../texts/answer.ts';

export type Turn = keyof typeof turns;

export interface Answer {
  tone: Tone;
  /** What happened, as a sentence. */
  happened: string;
  turn: Turn;
  /** More sentences: what comes next, what to do. */
  next: string[];
}

export interface Say {
  nowMs: number;
  /** For example 10:02, or Nov 20, 10:02. */
  at(time: string): string;
  /** For example in 3 min, or 2 h ago. */
  from(time: string): string;
  duration(seconds: number): string;
}

type Outcome = 'delivery' | 'deliveryDelay' | 'bounce' | 'complaint' | 'reject';
export type TimelineEvent = Pick<
  Event,
  'eventId' | 'eventType' | 'timestamp' | Outcome | 'open' | 'click' | 'unsubscribe'
>;

export type Answered = Pick<
  Message,
  'status' | 'mode' | 'to' | 'createdAt' | 'sendAt' | 'nextAttemptAt' | 'expiresAt'
> & {
  attempts: MessageDetail['attempts'];
  timeline: readonly TimelineEvent[];
};

/** Returns the domain of an address for display. */
export const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1);

/** Returns the details of the last event of this type. */
function lastOf<K extends Outcome>(message: Answered, kind: K) {
  const event = message.timeline.findLast((one) => one[kind] !== undefined);
  return event && { timestamp: event.timestamp, ...(event[kind] as NonNullable<TimelineEvent[K]>) };
}

/** `isSuppressed`: whether the address is suppressed now, if known. */
export function answerOf(message: Answered, say: Say, isSuppressed?: boolean): Answer {
  const answer = ANSWERS[message.status](message, say, isSuppressed);
  if (message.mode === 'sandbox' && message.status !== 'scheduled') answer.next.push(next.simulated);
  return answer;
}

type Make = (message: Answered, say: Say, isSuppressed: boolean | undefined) => Answer;

const ANSWERS: Record<Message['status'], Make> = {
  scheduled: ({ sendAt, nextAttemptAt, createdAt }, say) => {
    const at = sendAt ?? nextAttemptAt ?? createdAt;
    const sentence = happened.scheduled(say.at(at), say.from(at));
    return { tone: 'note', happened: sentence, turn: 'nobody', next: [next.scheduled] };
  },
  queued: (message, say) => {
    const { attempts, sendAt, createdAt } = message;
    const sinceMs = Date.parse(attempts.at(-1)?.time ?? sendAt ?? createdAt);
    const waitedSeconds = (say.nowMs - sinceMs) / 1_000;
    const sentence = attempts.length > 0 ? happened.queuedAgain : happened.queued(say.at(createdAt));
    const isLong = attempts.length === 0 && waitedSeconds > 60;
    const further = isLong ? next.queuedLong(say.duration(waitedSeconds)) : next.queued;
    return { tone: 'note', happened: sentence, turn: 'nobody', next: [further] };
  },
  sending: ({ attempts }) => ({
    tone: 'note',
    happened: happened.sending(attempts.length + 1),
    turn: 'nobody',
    next: [next.sending],
  }),
  delayed,
  delivered,
  bounced,
  complained: (message, say, isSuppressed) => {
    const complaint = lastOf(message, 'complaint');
    return {
      tone: 'bad',
      happened: happened.complained(say.at(complaint?.timestamp ?? message.createdAt)),
      turn: 'you',
      next: [...suppression(complaint?.suppressed, isSuppressed), next.complained],
    };
  },
  suppressed: (message, _, isSuppressed) => {
    const reject = lastOf(message, 'reject');
    if (reject?.simulated)
      return { tone: 'calm', happened: happened.suppressedSimulated, turn: 'nobody', next: [reject.advice] };
    const further = isSuppressed === false ? next.isLifted : next.suppressed;
    return { tone: 'calm', happened: happened.suppressed(message.to), turn: 'you', next: [further] };
  },
  cancelled: (message, say) => ({
    tone: 'calm',
    happened: happened.cancelled(say.at(lastOf(message, 'reject')?.timestamp ?? message.createdAt)),
    turn: 'nobody',
    next: [next.cancelled],
  }),
};

/** Removes the part of the advice about retries: the time of the next attempt says it better. */
const withoutRetry = (advice: string): string => advice.replace(/[;,]? (and )?Postrider retries automatically\.$/, '.');

function delayed(message: Answered, say: Say): Answer {
  const delay = lastOf(message, 'deliveryDelay');
  const at = message.nextAttemptAt ?? delay?.nextAttemptAt;
  const isOurs = delay?.owner === 'service' || delay?.owner === 'sender';
  const because = waits[delay?.category ?? ''] ?? waits.refused!;
  const latest = message.attempts.at(-1)?.reply ?? null;
  const isOther = latest !== null && delay !== undefined && latest !== delay.reply;
  const again = at === undefined ? [] : [next.again(say.at(at), say.from(at))];
  return {
    tone: 'wait',
    happened: happened.delayed(because(domainOf(message.to))),
    turn: delay?.owner === 'service' ? 'operator' : delay?.owner === 'sender' ? 'you' : 'nobody',
    next: [
      ...again,
      next.againUntil(say.at(message.expiresAt)),
      ...(isOurs ? [withoutRetry(delay.advice)] : []),
      ...(isOther ? [next.latest(latest)] : []),
    ],
  };
}

function delivered(message: Answered, say: Say): Answer {
  const delivery = lastOf(message, 'delivery');
  const host = delivery?.remoteHost ?? domainOf(message.to);
  const at = say.at(delivery?.timestamp ?? message.createdAt);
  // A scheduled message was not slow.
  const isPrompt = delivery !== undefined && message.sendAt === undefined;
  const wasOpened = message.timeline.some(({ open }) => open?.machine === false);
  const wasClicked = message.timeline.some(({ click }) => click?.machine === false);
  const read = wasClicked ? next.clicked : wasOpened ? next.opened : next.delivered;
  const isClear = delivery !== undefined && delivery.tls === null && message.mode === 'live';
  return {
    tone: 'good',
    happened: isPrompt
      ? happened.delivered(host, at, say.duration(delivery.latencyMs / 1_000))
      : happened.deliveredPlain(host, at),
    turn: 'nobody',
    next: [read, ...(isClear ? [next.inTheClear(delivery.tlsFallback ?? next.noTls)] : [])],
  };
}

function bounced(message: Answered, say: Say, isSuppressed?: boolean): Answer {
  const bounce = lastOf(message, 'bounce');
  const advice = bounce?.category === 'expired' ? next.expired : bounce?.advice;
  return {
    tone: 'bad',
    happened: bouncedSentence(message, say, bounce),
    turn: bounce?.owner === 'service' ? 'operator' : 'you',
    next: [...suppression(bounce?.suppressed, isSuppressed), ...(advice === undefined ? [] : [advice])],
  };
}

function bouncedSentence(message: Answered, say: Say, bounce: ReturnType<typeof lastOf<'bounce'>>): string {
  const domain = domainOf(message.to);
  const timestamp = bounce?.timestamp ?? message.createdAt;
  const at = say.at(timestamp);
  const delivery = lastOf(message, 'delivery');
  if (bounce?.late && bounce.category === 'expired')
    return happened.returnedExpired(delivery?.remoteHost ?? domain, at);
  if (bounce?.category === 'expired') {
    const seconds = (Date.parse(timestamp) - Date.parse(message.sendAt ?? message.createdAt)) / 1_000;
    return happened.expired(at, say.duration(Math.max(0, seconds)), domain);
  }
  const cause = causes[bounce?.category ?? ''] ?? causes.refused!;
  if (delivery !== undefined) return happened.returned(delivery.remoteHost ?? domain, at, cause);
  return bounce?.smtpCode == null ? happened.failed(at, cause) : happened.bounced(domain, at, cause);
}

function suppression(wasSuppressed: boolean | undefined, isSuppressed: boolean | undefined): string[] {
  if (isSuppressed === true) return [next.isSuppressed];
  if (!wasSuppressed) return [];
  return [isSuppressed === false ? next.isLifted : next.isSuppressed];
}
