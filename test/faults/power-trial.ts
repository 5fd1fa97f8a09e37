/**
 * Cuts the power of the disk again and again under load and examines what is left after each start.
 *
 *   frozen    the service is stopped, then the file system is shut down: as a real cut, which stops the processor too
 *   running   the file system is shut down under a service that runs on until it notices, or for a moment longer
 *
 * Frozen: whatever was answered holds, whenever the answer was read. Running: whatever was answered before the file system was
 * shut down holds. What is answered after that is counted and shown, and not demanded: a sync that straddles the shutdown may
 * be answered by the kernel as done, and is not (docs/decisions/0014-power-cuts.md).
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { JsonObject } from '../kit/api.ts';
import { type Cut, type CutDisk, cutDisk } from '../kit/cut-disk.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';
import { allMessages, copiesByKey, keyOf, type Ledger, openLedger } from './ledger.ts';
import { type Fact, isMailOf, type PowerLoad, startPowerLoad } from './power-load.ts';

/** A service that does not notice within this time is killed. */
const RUN_ON_MS = 1_500;
/** Leases of a process that exited end within 60 s; its messages are then delivered. */
const DRAIN_TIMEOUT_MS = 180_000;
const DOT_DELAY_MS = 30;
const CUTS_ON_A_DISK = 10;

type Kind = 'frozen' | 'running';

interface PowerOptions {
  cuts: number;
  workers: number;
  /** Minimum and maximum number of acknowledgements between a start and its cut. */
  between: [least: number, most: number];
  kinds?: Kind[];
  /** Program and arguments in front of the service, such as strace. */
  wrapper?: string[];
  /** Called with each cut after its check. */
  onCut?: (one: CutReport) => void;
}

interface CutReport extends Cut {
  kind: Kind;
  /** When the service had exited. */
  endedAt: number;
  /** When the next one served. A dot in transit at the end may be answered a moment after that, and before this. */
  servedAt: number;
  /** It exited on its own. */
  noticed: boolean;
  /** Responses read before and after the shutdown was called. */
  before: number;
  after: number;
  /** Later syncs that do not hold: kind, and milliseconds since the call. */
  lost: { what: string; key: string | undefined; afterMs: number }[];
}

interface PowerReport {
  cuts: Record<Kind, number>;
  accepted: number;
  facts: number;
  /** For cuts under a running service: responses after the shutdown, and those of them that do not hold. */
  after: number;
  lostAfter: number;
  noticed: number;
  duplicates: number;
  events: number;
}

const random = (least: number, most: number): number => least + Math.floor(Math.random() * (most - least + 1));

interface Trial {
  disk: CutDisk;
  sink: SmtpSink;
  hook: WebhookCatcher;
  service: Service;
  ledger: Ledger;
  load: PowerLoad;
  cuts: CutReport[];
  /** Keys whose acceptance a running cut may have lost: acknowledged after it, or unanswered at it. */
  uncertain: Set<string>;
}

/** Runs the trial and throws at the first broken promise. */
export async function powerTrial(options: PowerOptions): Promise<PowerReport> {
  const kinds = options.kinds ?? ['frozen', 'running'];
  const disk = cutDisk();
  const sink = await smtpSink({ script: { dot: () => ({ delayMs: random(0, DOT_DELAY_MS) }) } });
  const hook = await webhookCatcher();
  const ledger = openLedger();
  const cuts: CutReport[] = [];
  /** Nothing is sent while a cut is checked: a slow machine would never finish. */
  let examining: Promise<void> = Promise.resolve();
  let service: Service | undefined;
  let load: PowerLoad | undefined;
  try {
    const env = { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8' };
    const { wrapper } = options;
    service = await startService({ dataDir: disk.folder, env, ...(wrapper && { wrapper }) });
    await service.cli('domain', 'add', service.live.accountId, 'load.example', '--verified');
    const events = ['Send', 'Delivery', 'DeliveryDelay', 'Bounce'];
    assert.equal((await service.api.post('/webhooks', { url: hook.url, events })).status, 201);
    const { api } = service;
    const from = 'load@load.example';
    load = await startPowerLoad({
      api,
      ledger,
      from,
      workers: options.workers,
      cuts: () => cuts.length,
      ready: () => examining,
    });
    const trial: Trial = { disk, sink, hook, service, ledger, load, cuts, uncertain: new Set() };
    for (let number = 0; number < options.cuts; number += 1) {
      const target = ledger.acknowledged.size + random(...options.between);
      await waitUntil(`${target} acknowledgements`, () => ledger.acknowledged.size >= target, 120_000);
      await cutOnce(trial, kinds[number % kinds.length]!);
      examining = examine(trial);
      await examining;
      options.onCut?.(cuts.at(-1)!);
    }
    await load.finish();
    return await conclude(trial);
  } catch (error) {
    throw new Error(`${(error as Error).message}\nlog of the service, its end:\n${service?.log.slice(-3000)}`, {
      cause: error,
    });
  } finally {
    load?.abandon();
    await service?.close();
    await disk.remove();
    await Promise.all([sink.close(), hook.close()]);
    ledger.close();
  }
}

async function cutOnce(trial: Trial, kind: Kind): Promise<void> {
  const { disk, service, ledger, cuts, uncertain } = trial;
  const cutter = await disk.prepare();
  const logged = service.log.length;
  await new Promise((resolve) => setTimeout(resolve, random(0, 40)));
  if (kind === 'frozen') await freeze(service.pid);
  const cut = await cutter.cut();
  const ended = service.exited();
  let noticed = false;
  if (kind === 'running') {
    const pause = new Promise((resolve) => setTimeout(resolve, random(0, RUN_ON_MS)));
    noticed = await Promise.race([ended.then(() => true), pause.then(() => false)]);
  }
  await service.kill('SIGKILL');
  if (kind === 'running') {
    for (const key of ledger.attempted) {
      const answered = ledger.acknowledged.get(key);
      if (!answered || answered.at >= cut.calledAt) uncertain.add(key);
    }
    if (noticed) assertDiskNamed(await ended, service.log.slice(logged));
  }
  cuts.push({ ...cut, kind, noticed, endedAt: Date.now(), servedAt: 0, before: 0, after: 0, lost: [] });
  await disk.remount();
  await service.restart();
  cuts.at(-1)!.servedAt = Date.now();
}

/** A process that exits on its own logs in one line that the disk failed, and does not blame the database's content. */
function assertDiskNamed(exit: { code: number | null }, log: string): void {
  assert.notEqual(exit.code, 0, 'a process that lost its disk exits with an error');
  const fatal = log.split('\n').filter((line) => line.includes('"level":"fatal"'));
  assert.equal(fatal.length, 1, log.slice(-3_000));
  assert.match(fatal[0]!, /the disk stopped responding: /);
  assert.doesNotMatch(log, /malformed/);
}

/** Resolves when no thread of the process runs: each is stopped, or stops when it leaves the kernel. */
async function freeze(pid: number): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  await waitUntil('every thread to be stopped', () =>
    readdirSync(`/proc/${pid}/task`).every((thread) => {
      const [state] = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1').split(') ')[1]!;
      return state === 'T' || state === 't' || state === 'D';
    }),
  );
}

/** Checks each fact that the last cut may have undone, and the database. */
async function examine({ load, cuts, disk }: Trial): Promise<void> {
  const due = load.facts.filter((fact) => fact.cutsBefore < cuts.length);
  load.facts.splice(0, load.facts.length, ...load.facts.filter((fact) => fact.cutsBefore === cuts.length));
  const broken: string[] = [];
  const look = async (fact: Fact): Promise<void> => {
    const cut = cuts[fact.cutsBefore]!;
    const afterMs = Math.round(fact.at - cut.calledAt);
    cut[afterMs < 0 ? 'before' : 'after'] += 1;
    if (await fact.holds()) return;
    const { what, key } = fact;
    if (cut.kind === 'running' && afterMs >= 0) cut.lost.push({ what, key, afterMs });
    else broken.push(`${what} ${key ?? ''}, answered ${-afterMs} ms before a cut (${cut.kind})`);
  };
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let fact = due.shift(); fact; fact = due.shift()) await look(fact);
    }),
  );
  assert.deepEqual(broken, [], 'responses given before a cut still hold after it');
  const database = new DatabaseSync(path.join(disk.folder, 'postrider.db'), { readOnly: true, timeout: 30_000 });
  try {
    assert.deepEqual(
      database
        .prepare('PRAGMA integrity_check')
        .all()
        .map((row) => ({ ...row })),
      [{ integrity_check: 'ok' }],
    );
  } finally {
    database.close();
  }
}

/** Every accepted message arrives, once unless a cut explains a duplicate, and every event is posted. */
async function conclude(trial: Trial): Promise<PowerReport> {
  const { sink, service, ledger, cuts, uncertain } = trial;
  const lost = new Set(cuts.flatMap((cut) => cut.lost.map(({ key }) => key)));
  const standing = [...ledger.acknowledged.values()].filter(({ key }) => !lost.has(key));
  const settled = await waitUntil(
    'every message to be delivered',
    async () => {
      const all = await allMessages(service.api);
      return all.every((one) => one.status === 'delivered') && all;
    },
    DRAIN_TIMEOUT_MS,
  );
  assert.deepEqual(ledger.strange, [], 'every rejection can be retried');
  const stored = settled.map((one) => one.messageId).sort();
  assert.deepEqual(stored, standing.map((one) => one.messageId).sort(), 'exactly one message per key');
  const copies = copiesByKey(sink.messages);
  const phantoms = [...copies.keys()].filter((key) => !ledger.attempted.has(key));
  assert.deepEqual(phantoms, [], 'nothing was invented');
  let duplicates = 0;
  for (const { key } of standing) {
    const list = copies.get(key) ?? [];
    assert.notEqual(list.length, 0, `${key} did not arrive`);
    duplicates += list.length - 1;
    if (uncertain.has(key)) continue;
    assert.equal(new Set(list.map((one) => one.headerMessageId)).size, 1, `${key} has one Message-ID`);
    list.slice(1).forEach((copy, index) => {
      const explained = cuts.some((cut) => cut.servedAt > list[index]!.at && cut.calledAt < copy.at);
      assert.ok(explained, `${key}: a duplicate not explained by a power cut: ${JSON.stringify({ list, cuts })}`);
    });
  }
  const spoiled = sink.messages.filter(({ to, content }) => !isMailOf(keyOf(to[0]!), content.toString('latin1')));
  assert.deepEqual(
    spoiled.map(({ to }) => to),
    [],
    'every message arrived unchanged',
  );
  assert.deepEqual(sink.violations, []);
  const events = await concludeEvents(trial);
  const running = cuts.filter((cut) => cut.kind === 'running');
  const sum = (of: CutReport[], value: (one: CutReport) => number) => of.reduce((all, one) => all + value(one), 0);
  return {
    cuts: { frozen: cuts.length - running.length, running: running.length },
    accepted: ledger.acknowledged.size,
    facts: sum(cuts, (cut) => cut.before + cut.after),
    after: sum(running, (cut) => cut.after),
    lostAfter: sum(running, (cut) => cut.lost.length),
    noticed: sum(running, (cut) => Number(cut.noticed)),
    duplicates,
    events,
  };
}

/** Every event of the log was posted, and nothing else, except by a service that kept running without its disk. */
async function concludeEvents({ service, hook, cuts }: Trial): Promise<number> {
  const log = await waitUntil(
    'every event to be posted',
    async () => {
      const ids: string[] = [];
      for (let cursor = ''; ; ) {
        const page = await service.api.get(`/events?order=asc&limit=100${cursor}`);
        assert.equal(page.status, 200, page.text);
        ids.push(...(page.body as unknown as JsonObject[]).map((one) => String(one.eventId)));
        cursor = `&cursor=${page.headers['x-next-cursor']}`;
        if (!page.headers.link) break;
      }
      const told = new Set(hook.requests.map((one) => String(one.headers['webhook-id'])));
      return ids.every((id) => told.has(id)) && new Set(ids);
    },
    DRAIN_TIMEOUT_MS,
  );
  const invented = hook.requests.filter((one) => !log.has(String(one.headers['webhook-id'])));
  const unexplained = invented.filter(
    ({ at }) => !cuts.some((cut) => cut.kind === 'running' && at >= cut.calledAt && at <= cut.endedAt),
  );
  assert.deepEqual(
    unexplained.map((one) => one.body),
    [],
    'every posted event is in the log',
  );
  return log.size;
}

/** Many cuts, a few per disk, because the accepted mail would fill one. Returns the sums. */
export async function powerCuts(cuts: number, onCut: (one: CutReport) => void): Promise<PowerReport> {
  const sums: PowerReport[] = [];
  for (let left = cuts; left > 0; left -= CUTS_ON_A_DISK) {
    sums.push(await powerTrial({ cuts: Math.min(left, CUTS_ON_A_DISK), workers: 8, between: [20, 120], onCut }));
  }
  const sum = (value: (one: PowerReport) => number): number => sums.reduce((all, one) => all + value(one), 0);
  return {
    cuts: { frozen: sum((one) => one.cuts.frozen), running: sum((one) => one.cuts.running) },
    accepted: sum((one) => one.accepted),
    facts: sum((one) => one.facts),
    after: sum((one) => one.after),
    lostAfter: sum((one) => one.lostAfter),
    noticed: sum((one) => one.noticed),
    duplicates: sum((one) => one.duplicates),
    events: sum((one) => one.events),
  };
}
