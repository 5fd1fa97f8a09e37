/** The paused and the busiest destinations, as a node publishes them for operators with its heartbeat: a limited number. */
import type { LastReply, PublishedDestination } from '../../nodes/nodes.ts';
import type { Connections } from '../attempt/connections.ts';
import type { Schedule } from '../queue/schedule.ts';
import type { MxSets } from '../routing/mx-sets.ts';
import { isRelay, SANDBOX } from '../routing/route.ts';
import { type DeferredCounts, PUBLISHED_PAUSED } from './deferred-counts.ts';
import { isOwnLimit, withReply } from './last-replies.ts';
import { limitReason } from './limit-reason.ts';
import type { Limits } from './limits.ts';
import type { Destination, Registry } from './registry.ts';
import type { SendLimits } from './shares.ts';

const PUBLISHED_BUSIEST = 40;
/** Limits on domains, per destination and in total. */
const PUBLISHED_DOMAINS = 100;
const PUBLISHED_DOMAINS_IN_ALL = 1_000;

interface Publishing {
  registry: Registry;
  schedule: Schedule;
  connections: Connections;
  sets: MxSets;
  sendLimits: SendLimits;
  deferred: DeferredCounts;
  limits: Limits;
}

export function publishedOf(worker: Publishing): PublishedDestination[] {
  const { registry, schedule, connections, sets } = worker;
  const waiting = new Map(schedule.busiest(PUBLISHED_BUSIEST).map((one) => [one.key, one.waiting]));
  const paused = registry.paused().slice(0, PUBLISHED_PAUSED);
  const blocked = registry.blocked().slice(0, PUBLISHED_PAUSED);
  const keys = new Set([...blocked.map((one) => one.key), ...paused.map((one) => one.key), ...waiting.keys()]);
  keys.delete(SANDBOX);
  let domainsLeft = PUBLISHED_DOMAINS_IN_ALL;
  const domainsOf = (key: string): Pick<PublishedDestination, 'domains'> => {
    if (isRelay(key)) return {};
    // At least one, otherwise the most recent ones.
    const domains = sets.domainsOf(key).slice(-Math.max(1, Math.min(PUBLISHED_DOMAINS, domainsLeft)));
    domainsLeft -= domains.length;
    return { domains };
  };
  return [...keys].map((key) => {
    const destination = registry.of(key);
    const proven = registry.isProven(key);
    const limits = worker.limits.of(key);
    const limit = Math.min(registry.limitOf(destination), proven ? Number.POSITIVE_INFINITY : 1);
    return {
      key,
      waiting: waiting.get(key) ?? 0,
      connections: connections.count(key),
      ...domainsOf(key),
      limit,
      limitReason: limitReason(destination, {
        limits,
        limit,
        proven,
        owner: worker.limits.ownerOf(key),
        ration: sendLimitOf(worker, key),
      }),
      messageMs: destination.messageMs ?? null,
      messagesPerMinute: limits.messagesPerMinute,
      pausedUntil: registry.pauseOf(key)?.untilMs ?? null,
      requested: destination.pause !== undefined && destination.pause.outcome.smtpCode !== null,
      deferred: worker.deferred.of(key),
      blockedSince: destination.pause?.blockedMs ?? null,
      fallback: registry.usesFallback(key),
      replies: repliesOf(destination),
    };
  });
}

/** After a restart only the reply that started the pause is known. */
function repliesOf({ replies, pause }: Destination): readonly LastReply[] {
  if (replies.length > 0 || !pause) return replies;
  return withReply(replies, pause, pause.beganMs);
}

/** The state known to this node; after a restart the one stored with the pause. */
function sendLimitOf({ registry, sendLimits }: Publishing, key: string): string | undefined {
  const outcome = registry.pauseOf(key)?.outcome;
  return outcome && isOwnLimit(outcome) ? outcome.reply! : sendLimits.reasonOf(key);
}
