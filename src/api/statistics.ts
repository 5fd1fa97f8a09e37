/**
 * `GET /statistics`: counts of messages in the caller's mode that were accepted, delivered, bounced, and so on, by hour or day, in total or
 * by tag, template, recipient domain, or mailbox provider. Exact: they match GET /events. If the counters lag too far behind to catch up
 * quickly, the call is refused (503) instead of returning wrong numbers.
 */
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { answer, defineRoute, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, isoTimeMs, named, oneOf } from '../http/validate.ts';
import { createSandboxClock } from '../sandbox/sandbox.ts';
import { GROUPINGS, PERIODS, ZEROS } from '../statistics/counts.ts';
import { readStatisticsOperation, type StatisticsBucket, type StatisticsQuery } from '../statistics/read-store.ts';
import { catchUp } from '../statistics/roll-up.ts';
import { KEPT_DAYS, readSpan, type Span } from '../statistics/span.ts';
import type { Database } from '../storage/database.ts';

const CATCH_UP_MS = 2_000;
const RETRY_SECONDS = 5;
const GROUPS_AT_MOST = 100;
/** Maximum number of buckets per response; if there are more, fewer groups are named. */
const BUCKETS_AT_MOST = 10_000;

const time = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }));
const query = closed({
  since: time('Rounded down to the start of its hour or day (UTC); 7 days before until by default.'),
  until: time('Exclusive; rounded up to the end of its hour or day (UTC); now by default.'),
  interval: Type.Optional(
    oneOf(['hour', 'day'], {
      description: 'By default hour up to 3 days, else day. At most 31 days by hour, 400 by day.',
    }),
  ),
  groupBy: Type.Optional(
    oneOf([...GROUPINGS], {
      description:
        'How to group the counts; none by default. mailboxProvider sums the known domains of a provider: google, microsoft, yahoo, apple, gmx, or t-online.',
    }),
  ),
});

const number = (description: string) => Type.Integer({ minimum: 0, description });
const seconds = (description: string) => Type.Unsafe<number | null>({ type: ['number', 'null'], description });

const bucketSchema = named('StatisticsBucket', {
  start: Type.String({ format: 'date-time', description: 'Start of the hour or day.' }),
  group: Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'Tag, templateId, domain or provider; empty for mail without a tag or template, null for all groups that are not named. Absent with groupBy=none.',
    }),
  ),
  accepted: number('Send events: messages accepted, including suppressed ones.'),
  delivered: number('Delivery events.'),
  bounced: Type.Object(
    {
      hard: number('Bounce events of kind hard.'),
      soft: number('Bounce events of kind soft.'),
      block: number('Bounce events of kind block.'),
    },
    { additionalProperties: false },
  ),
  delayed: number('DeliveryDelay events: messages whose first attempt failed temporarily.'),
  suppressed: number('Reject events of addresses that are suppressed; cancelled messages are not counted.'),
  complained: number('Complaint events.'),
  opened: number('Open events, including automated and repeated ones.'),
  clicked: number('Click events, including automated and repeated ones.'),
  unsubscribed: number('Unsubscribe events.'),
  deliverySeconds: Type.Object(
    {
      p50: seconds('Median of the time from acceptance to delivery, accurate to 2.5 %; null if nothing was delivered.'),
      p95: seconds('95th percentile of the same time.'),
    },
    { additionalProperties: false },
  ),
});
const statisticsSchema = named('Statistics', { buckets: Type.Array(bucketSchema) });

export interface StatisticsRouteDeps {
  database: Database;
  clock: Clock;
  /** How long a call may count uncounted events. */
  catchUpMs?: number;
}

export function statisticsRoutes({
  database,
  clock,
  catchUpMs = CATCH_UP_MS,
}: StatisticsRouteDeps): RouteDefinition<Caller>[] {
  const sandboxClock = createSandboxClock({ database, clock });
  return [
    defineRoute<Caller, undefined, typeof query>({
      method: 'GET',
      path: '/statistics',
      tag: 'statistics',
      access: { auth: 'key' },
      operationId: 'getStatistics',
      summary: 'Count messages and events by hour or day',
      description: `Each event counts in the hour and day of its own timestamp, and the numbers agree with GET /events. Kept for ${KEPT_DAYS} days. Without groups, every hour or day has a bucket; with groups, only those with events.`,
      query,
      response: { status: 200, schema: statisticsSchema },
      refusals: ['OVERLOADED'],
      async handle({ caller, query: requested }) {
        const owner = ownerOf({ caller });
        const nowMs = caller.mode === 'sandbox' ? await sandboxClock.now(caller.account.id) : clock.now();
        const span = readSpan(
          { sinceMs: msOf(requested.since), untilMs: msOf(requested.until), interval: requested.interval },
          nowMs,
        );
        if (!span.ok) return span;
        const groupBy = requested.groupBy ?? 'none';
        const buckets = await read(
          { database, catchUpMs },
          { ...owner, ...span.value, groupBy, groups: groupsOf(span.value) },
        );
        if (buckets === null) return refuse(BEHIND);
        const all = groupBy === 'none' ? everyPeriod(buckets, span.value) : buckets;
        return answer({ buckets: all.map((bucket) => shown(bucket, groupBy !== 'none')) });
      },
    }),
  ];
}

const BEHIND = failure('OVERLOADED', {
  message: 'Statistics are still being computed from the event log. Retry after the number of seconds in Retry-After.',
  retryAfterSeconds: RETRY_SECONDS,
});

const msOf = (text: string | undefined): number | undefined => (text === undefined ? undefined : isoTimeMs(text));

function groupsOf({ period, fromMs, untilMs }: Span): number {
  const periods = Math.max(1, (untilMs - fromMs) / PERIODS[period]);
  // The unnamed groups use one bucket per period.
  return Math.min(GROUPS_AT_MOST, Math.floor(BUCKETS_AT_MOST / periods) - 1);
}

async function read(
  { database, catchUpMs }: Pick<Required<StatisticsRouteDeps>, 'database' | 'catchUpMs'>,
  requested: StatisticsQuery,
): Promise<StatisticsBucket[] | null> {
  const buckets = await database.execute(readStatisticsOperation, requested);
  if (buckets !== null) return buckets;
  await catchUp(database, { accountId: requested.accountId, mode: requested.mode }, performance.now() + catchUpMs);
  return database.execute(readStatisticsOperation, requested);
}

/** Adds a bucket of zeros for periods without one. */
function everyPeriod(buckets: StatisticsBucket[], { period, fromMs, untilMs }: Span): StatisticsBucket[] {
  const found = new Map(buckets.map((bucket) => [bucket.start, bucket]));
  const all: StatisticsBucket[] = [];
  for (let start = fromMs; start < untilMs; start += PERIODS[period]) {
    all.push(found.get(start) ?? { ...ZEROS, start, group: '', p50: null, p95: null });
  }
  return all;
}

/** Returns seconds with three digits, the precision of the histogram. */
const secondsOf = (ms: number | null): number | null => (ms === null ? null : Number((ms / 1_000).toPrecision(3)));

function shown({ start, group, p50, p95, ...counters }: StatisticsBucket, grouped: boolean) {
  const { accepted, delivered, bouncedHard, bouncedSoft, bouncedBlock, ...others } = counters;
  return {
    start: iso(start),
    ...(grouped && { group }),
    accepted,
    delivered,
    bounced: { hard: bouncedHard, soft: bouncedSoft, block: bouncedBlock },
    ...others,
    deliverySeconds: { p50: secondsOf(p50), p95: secondsOf(p95) },
  };
}
