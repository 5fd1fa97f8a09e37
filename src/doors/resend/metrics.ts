/** GET /emails/metrics: counts and rates by period, from Postrider's statistics. */
import type { Caller } from '../../accounts/accounts.ts';
import type { RouteDefinition } from '../../http/route.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { timeMs } from './scheduled.ts';

interface Bucket {
  start: string;
  accepted: number;
  delivered: number;
  bounced: { hard: number; soft: number; block: number };
  delayed: number;
  suppressed: number;
  complained: number;
  opened: number;
  clicked: number;
  unsubscribed: number;
}

type Counts = Record<string, number>;

function countsOf({ bounced, accepted, delayed, suppressed, ...rest }: Bucket): Counts {
  return {
    received: accepted,
    sent: accepted - suppressed,
    suppressed,
    bounced: bounced.hard + bounced.soft + bounced.block,
    bounced_permanent: bounced.hard,
    bounced_transient: bounced.soft,
    bounced_undetermined: bounced.block,
    delivery_delayed: delayed,
    failed: 0,
    delivered: rest.delivered,
    complained: rest.complained,
    opened: rest.opened,
    clicked: rest.clicked,
    unsubscribed: rest.unsubscribed,
  };
}

/** Numerator and denominator of each rate. */
const RATES: Readonly<Record<string, readonly [part: string, whole: string]>> = {
  delivery_rate: ['delivered', 'sent'],
  bounce_rate: ['bounced', 'sent'],
  open_rate: ['opened', 'delivered'],
  click_rate: ['clicked', 'delivered'],
  complaint_rate: ['complained', 'delivered'],
  unsubscribe_rate: ['unsubscribed', 'delivered'],
};

const COUNTED = Object.keys(
  countsOf({
    start: '',
    accepted: 0,
    delivered: 0,
    bounced: { hard: 0, soft: 0, block: 0 },
    delayed: 0,
    suppressed: 0,
    complained: 0,
    opened: 0,
    clicked: 0,
    unsubscribed: 0,
  }),
);
const KNOWN = [...COUNTED, ...Object.keys(RATES)];

function add(sum: Counts, counts: Counts): Counts {
  return Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count + (sum[name] ?? 0)]));
}

function chosen(counts: Counts, metrics: readonly string[]): Counts {
  const measure = (name: string): number => {
    const [part, whole] = RATES[name] ?? [];
    if (part === undefined || whole === undefined) return counts[name] ?? 0;
    return counts[whole] === 0 ? 0 : Number((counts[part]! / counts[whole]!).toFixed(4));
  };
  return Object.fromEntries(metrics.map((name) => [name, measure(name)]));
}

const GRANULARITIES = ['hourly', 'daily', 'weekly', 'monthly'];
const DAY_MS = 86_400_000;

/** Returns the start of the period of a bucket; weeks start on Monday (ISO 8601). */
function periodOf(start: string, granularity: string): string {
  if (granularity === 'monthly') return `${start.slice(0, 7)}-01T00:00:00.000Z`;
  if (granularity !== 'weekly') return start;
  const ms = Date.parse(start);
  return new Date(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS).toISOString();
}

const listOf = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

interface ListQuery {
  granularity: string;
  metrics: string[];
  dimensions: string[];
  since: string | undefined;
  until: string | undefined;
}

function readListQuery(
  { query }: EndpointContext,
  nowMs: number,
): { ok: true; value: ListQuery } | ReturnType<typeof invalidField> {
  const granularity = query.get('granularity') ?? 'daily';
  if (!GRANULARITIES.includes(granularity))
    return invalidField('granularity', `must be one of ${GRANULARITIES.join(', ')}`);
  const metrics = listOf(query.get('metrics'));
  const unknown = metrics.find((name) => !KNOWN.includes(name));
  if (unknown !== undefined) return invalidField('metrics', `must be some of ${KNOWN.join(', ')}`);
  const dimensions = listOf(query.get('dimensions'));
  if (dimensions.some((name) => name !== 'period')) return invalidField('dimensions', 'must be period');
  for (const field of ['domain_id', 'email_id', 'broadcast_id'])
    if (query.has(field)) return invalidField(field, 'is not supported: metrics are counted for the account');
  const timezone = query.get('timezone');
  if (timezone !== null && !/^(?:UTC|Etc\/UTC|GMT|Z)$/i.test(timezone)) return invalidField('timezone', 'must be UTC');
  const times: (string | undefined)[] = [];
  for (const field of ['start_date', 'end_date']) {
    const text = query.get(field);
    const ms = text === null ? undefined : timeMs(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00Z` : text, nowMs);
    if (text !== null && ms === undefined)
      return invalidField(field, 'must be a date such as 2026-12-01, or an ISO 8601 time');
    times.push(ms === undefined ? undefined : new Date(ms).toISOString());
  }
  const [since, until] = times;
  return {
    ok: true,
    value: { granularity, metrics: metrics.length === 0 ? COUNTED : metrics, dimensions, since, until },
  };
}

async function metricsOf({ clock }: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const wanted = readListQuery(context, clock.now());
  if (!wanted.ok) return wanted;
  const { granularity, metrics, dimensions, since, until } = wanted.value;
  const interval = granularity === 'hourly' ? 'hour' : 'day';
  const found = await context.call('GET', '/statistics', { query: { since, until, interval } });
  if (!found.ok) return found;
  const buckets = found.body.buckets as Bucket[];
  const periods = new Map<string, Counts>();
  let totals: Counts = Object.fromEntries(COUNTED.map((name) => [name, 0]));
  for (const bucket of buckets) {
    const counts = countsOf(bucket);
    const period = periodOf(bucket.start, granularity);
    periods.set(period, add(periods.get(period) ?? {}, counts));
    totals = add(totals, counts);
  }
  const rows = [...periods].map(([period, counts]) => ({ period, ...chosen(counts, metrics) }));
  return success({
    object: 'metrics',
    metrics,
    dimensions,
    granularity,
    start_date: since ?? buckets[0]?.start ?? '',
    end_date: until ?? new Date(clock.now()).toISOString(),
    totals: chosen(totals, metrics),
    ...(dimensions.includes('period') && { data: rows }),
  });
}

export function metricsEndpoint(deps: ResendDoorDeps): RouteDefinition<Caller> {
  return endpoint(deps, {
    method: 'GET',
    path: '/emails/metrics',
    summary: 'Count emails by what happened to them',
    handle: (context) => metricsOf(deps, context),
  });
}
