/**
 * Row "search": `GET /messages` with filters at a million messages of one account, page after page to the last; and the effect of ten
 * accounts that search without a pause on the requests of an eleventh. With BENCH_SEARCH=FOLDER (and its POSTRIDER_DATABASE_URL) it
 * measures existing data.
 *
 * node bench/search.ts [--messages 1000000] [--seconds 10] [--postgres 1]
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { fillPostgres, fillSqlite } from './fill-messages.ts';
import { median, onEnd, pause, readArguments, row, shown, table, WORK } from './lib.ts';
import { type BenchService, startService } from './service.ts';
import { addTenant, type Tenant } from './tenants.ts';

const options = readArguments({ messages: 1_000_000, seconds: 10, postgres: 0 });
const SEARCHERS = 10;

interface Ready {
  service: BenchService;
  tenants: Tenant[];
}

async function prepare(): Promise<Ready> {
  const kept = process.env.BENCH_SEARCH;
  const folder = kept ?? mkdtempSync(path.join(WORK, 'search-'));
  if (kept === undefined) onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const given = process.env.POSTRIDER_DATABASE_URL;
  const url = options.postgres ? (given ?? (await tempPostgres()).url) : undefined;
  const settings = { POSTRIDER_ROLES: 'api', ...(url !== undefined && { POSTRIDER_DATABASE_URL: url }) };
  const note = path.join(folder, 'tenants.json');
  if (!existsSync(note)) {
    const first = await startService(settings, folder);
    const tenants: Tenant[] = [];
    for (let i = 0; i < SEARCHERS; i += 1) tenants.push(await addTenant(first, `tenant${i}.example`, settings));
    const whole = { domain: 'bench.example', headers: first.headers };
    await first.stop();
    let seq = 1;
    for (const { headers } of [whole, ...tenants]) {
      const messages = headers === whole.headers ? options.messages : options.messages / 20;
      if (url === undefined) fillSqlite(folder, headers['x-id']!, messages, seq);
      else await fillPostgres(url, headers['x-id']!, messages, seq);
      seq += url === undefined ? messages : 10_000;
    }
    writeFileSync(note, JSON.stringify(tenants));
  }
  const service = await startService(settings, folder);
  return { service, tenants: JSON.parse(readFileSync(note, 'utf8')) as Tenant[] };
}

const QUERIES: [name: string, query: string][] = [
  ['no filter', ''],
  ['to: one address, the oldest', 'to=needle%40example.org'],
  ['to: a part, one in a thousand', 'to=777%40'],
  ['subject: a word, the oldest', 'subject=needle'],
  ['tag: one in 10,000', 'tag=rare'],
  ['metadata: one pair', 'metadata.order=17'],
  ['status: one in 50', 'status=bounced'],
  ['subject within the last week', `subject=needle&since=${new Date(Date.now() - 7 * 86_400_000).toISOString()}`],
  ['q: a part of either, the oldest', 'q=needle'],
];

interface Walk {
  firstMs: number;
  worstMs: number;
  wholeMs: number;
  calls: number;
  found: number;
}

/** Reads all pages of a list, or a hundred of them. */
async function walk({ url, headers }: BenchService, query: string): Promise<Walk> {
  const times: number[] = [];
  let found = 0;
  for (let next: string | undefined = `/messages?limit=100&${query}`; next && times.length < 100; ) {
    const began = performance.now();
    const response = await fetch(`${url}${next}`, { headers });
    const body = (await response.json()) as unknown[];
    times.push(performance.now() - began);
    if (response.status !== 200) throw new Error(JSON.stringify(body));
    found += body.length;
    next = /<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  }
  const wholeMs = times.reduce((sum, one) => sum + one, 0);
  return { firstMs: times[0]!, worstMs: Math.max(...times), wholeMs, calls: times.length, found };
}

function percentile(times: number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))]!;
}

/** Requests of one account, one every 20 ms; each queries the database. */
async function requests(service: BenchService, seconds: number): Promise<number[]> {
  const times: number[] = [];
  const untilMs = performance.now() + seconds * 1_000;
  while (performance.now() < untilMs) {
    const began = performance.now();
    const response = await fetch(`${service.url}/account`, { headers: service.headers });
    await response.arrayBuffer();
    times.push(performance.now() - began);
    await pause(20);
  }
  return times;
}

async function amidSearches(
  { service, tenants }: Ready,
  seconds: number,
): Promise<{ times: number[]; searches: number[] }> {
  let isOver = false;
  const searches: number[] = [];
  const all = tenants.map(async ({ headers }) => {
    while (!isOver) {
      const began = performance.now();
      await (await fetch(`${service.url}/messages?subject=nowhere`, { headers })).arrayBuffer();
      searches.push(performance.now() - began);
    }
  });
  const times = await requests(service, seconds);
  isOver = true;
  await Promise.all(all);
  return { times, searches };
}

await row('search', 3_600, async () => {
  const ready = await prepare();
  const rows: (string | number)[][] = [];
  for (const [name, query] of QUERIES) {
    const { firstMs, worstMs, wholeMs, calls, found } = await walk(ready.service, query);
    rows.push([name, shown(firstMs), shown(worstMs), calls, found, shown(wholeMs / 1_000)]);
  }
  table(['page of 100', 'first, ms', 'worst, ms', 'pages', 'found', 'whole, s'], rows);
  const p99: Record<'alone' | 'amid', number[]> = { alone: [], amid: [] };
  const worst: number[] = [];
  for (let round = -1; round < 3; round += 1) {
    const alone = await requests(ready.service, options.seconds);
    const { times, searches } = await amidSearches(ready, options.seconds);
    if (round < 0) continue;
    p99.alone.push(percentile(alone, 0.99));
    p99.amid.push(percentile(times, 0.99));
    worst.push(percentile(searches, 0.99));
  }
  console.log(
    `\nGET /account, p99: alone ${shown(median(p99.alone))} ms, while ten accounts search ${shown(median(p99.amid))} ms;`,
  );
  console.log(`a search of theirs, p99: ${shown(median(worst))} ms`);
});
