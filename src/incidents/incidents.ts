/**
 * Finds ongoing incidents: delayed messages by cause, bounces of the last 24 hours that the account or the operator can fix, failing
 * endpoints and domains. The work is bounded, done in parts between which the storage serves others, and shared by concurrent callers with
 * the same request.
 */

import { sendingProtectionOperation } from '../accounts/accounts.ts';
import type { Owner } from '../base/mode.ts';
import { adviceWhileDelayed, causeOf, destinationOf, type FailureFacts, readCause } from '../delivery/delivery.ts';
import type { EventPlace } from '../events/events.ts';
import type { Database } from '../storage/database.ts';
import {
  type BouncedIncident,
  bouncedBody,
  byWeight,
  causeRange,
  type DelayedIncident,
  delayedBody,
  delayedIncident,
  domainBody,
  domainIncident,
  type Incident,
  incidentId,
  reputationBody,
  reputationIncident,
  webhookBody,
  webhookIncident,
} from './incident.ts';
import {
  type BouncedRow,
  bouncedOperation,
  type DelayedGroup,
  delayedOperation,
  failingDomainsOperation,
  failingWebhooksOperation,
  type Sample,
  samplesOperation,
} from './store.ts';

const DAY_MS = 86_400_000;
/** Causes and bounces per part. */
const PART_CAUSES = 100;
const BOUNCED_PART = 1_000;
/** Maximum numbers of causes to read, of delayed messages to count for each cause, and of bounces to read. */
const MOST_CAUSES = 5_000;
const MOST_COUNTED = 1_000_000;
const MOST_BOUNCED = 10_000;
/** Maximum groups that are tracked at the same time. */
const MOST_GROUPS = 1_000;
const MOST_DOMAINS = 1_000;
/** Number of the newest deliveries of a webhook to check. */
export const DELIVERIES_SCANNED = 1_000;
const SAMPLES = 5;
const SCANNED_FOR_TIMES = 10_000;
const LAST_CAUSE = '~';

export interface IncidentDeps {
  database: Database;
  /** Returns how far the clock of an account's sandbox is ahead of real time. */
  clockOffsetMs(accountId: string): Promise<number>;
  nowMs(): number;
}

export interface Incidents {
  /** Returns all incidents, the heaviest first. */
  list(owner: Owner): Promise<Incident[]>;
  /** Returns undefined if it has ended or belongs to another account or mode. */
  find(owner: Owner, id: string): Promise<Incident | undefined>;
  /** Returns API bodies; incidents that have ended in the meantime are omitted. */
  show(owner: Owner, incidents: readonly Incident[]): Promise<Record<string, unknown>[]>;
  /** Reads bounces of the last 24 hours newest first, from a place, until `take` has enough. */
  bounces(owner: Owner, from: EventPlace | null, take: (row: BouncedRow, failure: Bounce) => boolean): Promise<void>;
}

type Bounce = FailureFacts & { advice: string };

export function bouncedIdOf({ recipient }: BouncedRow, bounce: Bounce): string {
  return incidentId('bounced', causeOf(recipient, bounce).id);
}

export function createIncidents({ database, clockOffsetMs, nowMs }: IncidentDeps): Incidents {
  const running = new Map<string, Promise<Incident[]>>();
  const offsetOf = ({ accountId, mode }: Owner): Promise<number> | number =>
    mode === 'live' ? 0 : clockOffsetMs(accountId);

  const bounces: Incidents['bounces'] = async (owner, from, take) => {
    const sinceMs = nowMs() + (await offsetOf(owner)) - DAY_MS;
    let before = from;
    for (let looked = 0; looked < MOST_BOUNCED; looked += BOUNCED_PART) {
      const rows: BouncedRow[] = await database.execute(bouncedOperation, { ...owner, before, limit: BOUNCED_PART });
      for (const row of rows) {
        if (row.at < sinceMs) continue;
        const { bounce } = JSON.parse(row.detail) as { bounce: Bounce };
        if (bounce.owner !== 'recipient' && !take(row, bounce)) return;
      }
      const last = rows.at(-1);
      if (rows.length < BOUNCED_PART || !last || last.at < sinceMs) return;
      before = { position: last.position, seq: last.seq };
    }
  };

  const bounced = async (owner: Owner): Promise<Incident[]> => {
    const found = new Map<string, BouncedIncident>();
    await bounces(owner, null, (row, bounce) => {
      addBounce(found, row, bounce);
      return true;
    });
    return [...found.values()];
  };

  const compute = async (owner: Owner): Promise<Incident[]> => {
    const [groups, bounces, others] = [
      await countDelayed(database, owner),
      await bounced(owner),
      await settings(database, owner),
    ];
    return [...groups.map(delayedIncident), ...bounces, ...others].sort(byWeight);
  };

  const list: Incidents['list'] = (owner) => {
    const key = `${owner.accountId} ${owner.mode}`;
    const found = running.get(key) ?? compute(owner).finally(() => running.delete(key));
    running.set(key, found);
    return found;
  };

  return {
    bounces,
    list,
    find: async (owner, id) => {
      const [delayed] = await countDelayed(database, owner, causeRange(id));
      if (delayed) return delayedIncident(delayed);
      const others = [...(await settings(database, owner)), ...(await bounced(owner))];
      return others.find((one) => one.incidentId === id);
    },
    show: async (owner, incidents) => {
      const delayed = incidents.filter((one) => one.kind === 'delayed');
      const causes = delayed.map(({ cause }) => cause);
      const samples = await database.execute(samplesOperation, {
        ...owner,
        causes,
        limit: SAMPLES,
        scanLimit: SCANNED_FOR_TIMES,
      });
      const byCause = new Map(samples.map((sample) => [sample.cause, sample]));
      const offsetMs = await offsetOf(owner);
      return incidents.flatMap((one) => bodyOf(one, byCause, offsetMs) ?? []);
    },
  };
}

/** Failing webhooks; for live mail also failing domains and sending protection. */
async function settings(database: Database, owner: Owner): Promise<Incident[]> {
  const { accountId, mode } = owner;
  const [webhooks, domains, protection] = await Promise.all([
    database.execute(failingWebhooksOperation, { ...owner, scanLimit: DELIVERIES_SCANNED }),
    mode === 'live' ? database.execute(failingDomainsOperation, { accountId, limit: MOST_DOMAINS }) : [],
    mode === 'live' ? database.execute(sendingProtectionOperation, accountId) : null,
  ]);
  const guarded = protection && protection.status !== 'good' ? [reputationIncident(protection)] : [];
  return [...guarded, ...webhooks.map(webhookIncident), ...domains.map(domainIncident)];
}

interface Range {
  from: string;
  below: string;
}

/** The largest groups of delayed messages, counted part by part. */
async function countDelayed(
  database: Database,
  owner: Owner,
  { from, below }: Range = { from: '', below: LAST_CAUSE },
): Promise<DelayedGroup[]> {
  let groups: DelayedGroup[] = [];
  let after = from;
  for (let looked = 0; looked < MOST_CAUSES; looked += PART_CAUSES) {
    const part: DelayedGroup[] = await database.execute(delayedOperation, {
      ...owner,
      after,
      below,
      groups: PART_CAUSES,
      counted: MOST_COUNTED,
    });
    groups.push(...part);
    if (groups.length > 2 * MOST_GROUPS) groups = largest(groups);
    if (part.length < PART_CAUSES) break;
    after = part.at(-1)!.cause;
  }
  return groups;
}

function largest(groups: DelayedGroup[]): DelayedGroup[] {
  return groups.sort((a, b) => b.messages - a.messages).slice(0, MOST_GROUPS);
}

function addBounce(found: Map<string, BouncedIncident>, row: BouncedRow, bounce: Bounce): void {
  const meaning = causeOf(row.recipient, bounce);
  const known = found.get(meaning.id);
  if (known) {
    known.messages += 1;
    known.weight += 1;
    known.sinceMs = Math.min(known.sinceMs, row.at);
    known.lastAtMs = Math.max(known.lastAtMs, row.at);
    if (known.messageIds.length < SAMPLES) known.messageIds.push(row.messageId);
    return;
  }
  const { reply, advice } = bounce;
  found.set(meaning.id, {
    kind: 'bounced',
    incidentId: incidentId('bounced', meaning.id),
    weight: 1,
    messages: 1,
    meaning,
    reply,
    advice,
    destination: destinationOf(row.recipient),
    sinceMs: row.at,
    lastAtMs: row.at,
    messageIds: [row.messageId],
  });
}

function bodyOf(one: Incident, samples: ReadonlyMap<string, Sample>, clockOffsetMs: number) {
  if (one.kind === 'webhook') return webhookBody(one);
  if (one.kind === 'domain') return domainBody(one);
  if (one.kind === 'reputation') return reputationBody(one);
  if (one.kind === 'bounced') return bouncedBody(one);
  const sample = samples.get(one.cause);
  return sample && delayedBodyOf(one, sample, clockOffsetMs);
}

function delayedBodyOf(one: DelayedIncident, sample: Sample, clockOffsetMs: number) {
  const cause = readCause(one.cause);
  const [advice, destination] = [adviceWhileDelayed(cause.category), destinationOf(sample.recipient)];
  return delayedBody(one, { cause, advice, destination, sample, clockOffsetMs });
}
