/** The events of a scenario by seed: what customers send and when, when nodes die, and failures of the clock, the disk and its content. */
import type { Choices } from './choices.ts';
import type { Cluster } from './cluster.ts';
import { planClusterDeaths } from './cluster-deaths.ts';
import { type CustomerActions, drawCustomerActions } from './customer-actions.ts';
import {
  apiCall,
  batchUntilAcknowledged,
  type Entry,
  newEntry,
  sendUntilAcknowledged,
  type WantedMail,
} from './customers.ts';
import { planDeaths } from './deaths.ts';
import type { Disk } from './disk.ts';
import type { DnsFaults } from './dns.ts';
import { AWAKE_MS, type Flood } from './flood.ts';
import { here } from './globals.ts';
import type { Network } from './network.ts';
import type { SimulatedNode } from './node.ts';
import { OverlappingServer } from './overlapping-server.ts';
import type { Peer } from './peers.ts';
import { domainOf, NOWHERE, PEERS, type Policies } from './policies.ts';
import { FIRST_ID, MAX_AGE_SECONDS, type PolicyHost } from './policy-hosts.ts';
import type { ProcessLifetimes } from './process-lifetimes.ts';
import type { Random } from './random.ts';
import { Reader } from './readers.ts';
import type { Receiver } from './receivers.ts';
import { type Reporters, ROUTE_ADDRESS } from './reporters.ts';
import type { ObjectStore } from './s3-store.ts';
import type { ScenarioSize } from './scenario-size.ts';
import type { Signing } from './signing.ts';
import { type ContentFaults, planContentFaults } from './stored-content.ts';
import { SENDER_DOMAIN, type Template, type Tenant } from './template.ts';
import type { SimulatedThreads } from './threads.ts';
import type { Process, Timeline } from './timeline.ts';

export const START_MS = Date.parse('2026-11-23T09:00:00Z');
export const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
/** The period in which half of the messages of a long scenario are sent. */
const EARLY_MS = HOUR_MS / 3;

export interface World {
  choices: Choices;
  random: Random;
  timeline: Timeline;
  network: Network;
  /** Shares of DNS queries. */
  lookups: DnsFaults;
  threads: SimulatedThreads;
  /** Whether the storage fails occasionally. */
  isFailing: boolean;
  disk: Disk;
  /** The service; several nodes appear as one to the rest of the scenario. */
  node: SimulatedNode;
  cluster: Cluster | undefined;
  peers: Peer[];
  receiver: Receiver;
  extent: ScenarioSize;
  contentFaults: ContentFaults;
  /** Whether content is kept for only a day. */
  isContentShort: boolean;
  /** Stores content instead of the disk. */
  store: ObjectStore | undefined;
  policies: Policies;
  policyHosts: readonly PolicyHost[];
  /** Set if the node accepts inbound mail. */
  reporters: Reporters | undefined;
  ledger: Entry[];
  signing: Signing;
  /** What customers did after their messages were accepted. */
  deeds: CustomerActions;
  /** The client that follows the log and reads the API; undefined if there is none. */
  reader: Reader | undefined;
  /** The two tenants and a slow server, in scenarios of that kind. */
  flood: Flood | undefined;
  deathsMs: number[];
  lives: ProcessLifetimes;
  /** Whether the message was in progress at enough deaths to be dead-lettered. */
  isDeadly(messageId: string): boolean;
  faults: string[];
  /** Wall clock after it was set. */
  clockSetAtMs: number[];
  /** Called with each message whose content a mail server requests, and its client, and with each dot that the server receives. */
  dots: { begun: (remoteProcess: Process | undefined) => void; came: () => void };
  count(what: string): void;
  counts: Record<string, number>;
  /** Customers that are not done. */
  busy: number;
}

function drawMail(random: Random, at: number, { choices, extent, contentFaults, policies }: World): WantedMail {
  const recipients = random.chance(extent.single) ? 1 : Math.min(extent.recipients, 2 + random.below(3));
  // Some send to the same people again.
  const number = random.chance(0.35) ? 0 : at;
  // To one domain in one transaction, or to one after another.
  const step = extent.isDay && random.stream('domains').chance(0.7) ? 0 : 1;
  const to = Array.from({ length: recipients }, (_, one) => {
    const domain = domainOf((number + one * step) % PEERS);
    return `r${number}.${one}@${domain}`;
  });
  // SMTP submissions live for three days, which is expensive if no server may accept them.
  const isOverHttp =
    random.chance(extent.isDay ? 0.85 : 0.7) || (extent.isSmall && policies.enforced.size + policies.signed.size > 0);
  const via = isOverHttp ? 'http' : 'smtp';
  const further = random.stream('further');
  const kept = random.stream('retention');
  const isOdd = (name: string, share: number): boolean =>
    further.chance(share) && via === 'http' && choices.has(`customers-${name}`);
  return {
    key: `mail-${at}`,
    to,
    by: 'shop',
    via,
    expiresAfterSeconds: random.chance(0.6) ? 600 + random.below(extent.usualSeconds) : extent.longestSeconds,
    requireTls: via === 'http' && random.chance(0.15) && (isOdd('verified', 0.5) ? 'verified' : true),
    length: random.chance(contentFaults.largeShare) ? 200_000 : 20 + random.below(500),
    sendAtMs: via === 'http' && random.chance(0.15) ? START_MS + random.below(extent.longestWaitMs) : undefined,
    cancelAfterMs: random.chance(0.15) ? random.between(0, random.chance(0.5) ? 3_000 : 600_000) : undefined,
    isDoubled: random.chance(0.15),
    fileBytes: 0,
    isImpatient: isOdd('impatient', 0.5),
    isReused: isOdd('reused', 0.1),
    ...(kept.chance(0.2) && via === 'http' && { retain: kept.pick(['none', '7d'] as const) }),
    hasUnsubscribe: via === 'http' && random.stream('unsubscribe').chance(0.15),
  };
}

/** Schedules the events of the seed: customers, deaths and starts of the node. */
export function live(world: World, template: Template): void {
  const { timeline, node, random, ledger, choices } = world;
  const draw = random.stream('customers');
  keepPolicies(world);
  if (world.signing.isChecked) proveDomain(world);
  node.start();
  const { extent } = world;
  // Each lasts for an hour.
  const moreMails = world.flood ? 0 : extent.moreMails;
  const mails = moreMails + Math.ceil(extent.mails * (1 + draw.below(draw.chance(0.8) ? 5 : 14)));
  const spanMs = spanOf(draw, world);
  world.busy += 1;
  void (async () => {
    const { shop } = template.tenants;
    for (const { url, types, maxBatch } of world.receiver.endpoints)
      await create(shop, '/webhooks', { url, events: types, ...(maxBatch > 1 && { maxBatch }) });
    if (world.reporters) await create(shop, '/inbound-routes', { match: ROUTE_ADDRESS, events: true });
    for (let at = 0; at < mails; at += 1) {
      const entry = newEntry(drawMail(draw.stream(`mail ${at}`), at, world));
      if (!choices.has(entry.mail.key)) continue;
      ledger.push(entry);
      const time = draw.stream(`time ${at}`);
      const isLast = at === mails - 1;
      const isEarly = extent.isDay && time.chance(0.5);
      const afterMs = isLast ? spanMs : time.between(0, isEarly ? Math.min(spanMs, EARLY_MS) : spanMs);
      for (let copy = 0; copy < (entry.mail.isDoubled ? 2 : 1); copy += 1) {
        const own = draw.stream(`mail ${at} ${copy}`);
        world.busy += 1;
        timeline.after(afterMs, 'customer', () => {
          void sendUntilAcknowledged(template, entry, own).then(() => {
            world.busy -= 1;
          });
        });
      }
    }
    if (world.flood) world.count('two tenants at a slow server');
    for (const run of furtherMail(world, template)) begin(world, draw.between(0, spanMs), run);
    for (const run of world.flood ? [] : habitsOf(world, template)) begin(world, draw.between(0, spanMs), run);
    if (world.flood) pour(world, template, world.flood);
    world.busy -= 1;
  })();
  planReading(world, template);
  if (world.flood) return;
  const { cluster } = world;
  const deaths = { ...world, random: random.stream('deaths') };
  planContentFaults(world);
  if (cluster) planClusterDeaths({ ...deaths, cluster });
  else planDeaths(deaths);
  // Leases of several nodes use the clock of the database: their clocks are set individually.
  if (!cluster) planClock(world);
}

/** A key lasts 24 hours, and a customer may need hours until a batch is acknowledged. */
const REPEATED_WITHIN_MS = 16 * HOUR_MS;

/** Returns the period in which customers send, ms. */
function spanOf(draw: Random, { extent, flood }: World): number {
  if (extent.isDay && !flood) return draw.between(1.01 * DAY_MS, extent.longestSpanMs);
  return draw.chance(0.5) ? 2_000 : draw.between(10_000, Math.min(extent.longestSpanMs, HOUR_MS));
}

/** Schedules an action; the scenario is not over before it is done. */
function begin(world: World, afterMs: number, run: () => Promise<unknown>): void {
  world.busy += 1;
  world.timeline.after(afterMs, 'customer', () => {
    void run().then(() => {
      world.busy -= 1;
    });
  });
}

/** In some scenarios: a batch, messages with an uploaded file, and sandbox messages. */
function furtherMail(world: World, template: Template): (() => Promise<unknown>)[] {
  const { random, ledger, choices, extent, count } = world;
  const draw = random.stream('further mail');
  const entryOf = (key: string, more: Partial<WantedMail>): Entry => {
    const mail: WantedMail = { ...drawMail(draw.stream(`${key} drawn`), 100, world), key, via: 'http', ...more };
    const entry = newEntry({
      ...mail,
      isDoubled: false,
      isImpatient: false,
      isReused: false,
      cancelAfterMs: undefined,
    });
    ledger.push(entry);
    return entry;
  };
  const one = (key: string, more: Partial<WantedMail>) => (): Promise<unknown> => {
    count(`mail that is ${key}`);
    return sendUntilAcknowledged(template, entryOf(key, more), draw.stream(key));
  };
  const runs: (() => Promise<unknown>)[] = [];
  if (draw.chance(extent.batches) && choices.has('batch')) {
    count('batch');
    const entries = Array.from({ length: 2 + draw.below(3) }, (_, at) => entryOf(`batched-${at}`, {}));
    const again = draw.chance(0.3) ? 2 : 1;
    let firstMs: number | undefined;
    for (let copy = 0; copy < again; copy += 1) {
      const own = draw.stream(`batch ${copy}`);
      runs.push(async () => {
        firstMs ??= world.timeline.nowMs;
        // A batch that is repeated after the lifetime of its key is accepted again.
        if (world.timeline.nowMs - firstMs > REPEATED_WITHIN_MS) return;
        await batchUntilAcknowledged(template, entries, { key: 'batch', random: own });
      });
    }
  }
  const fileBytes = 1_000 + draw.below(60_000);
  if (draw.chance(0.1) && choices.has('upload')) runs.push(one('uploaded', { to: [`up@${domainOf(0)}`], fileBytes }));
  if (draw.chance(0.12) && choices.has('sandbox')) {
    // Simulated by the local part.
    const to = random.stream('simulated').chance(0.4) ? { to: [`bounced@${domainOf(0)}`] } : {};
    runs.push(one('sandboxed', { by: 'sandbox', sendAtMs: undefined, ...to }));
  }
  const nowhere = random.stream('nowhere');
  const to = [`x@${nowhere.pick(Object.values(NOWHERE))}`];
  if (nowhere.chance(0.08) && choices.has('nowhere')) runs.push(one('to-nobody', { to, sendAtMs: undefined }));
  return runs;
}

function habitsOf(world: World, template: Template): (() => Promise<unknown>)[] {
  const { random, ledger, deeds, choices, clockSetAtMs, extent, count } = world;
  const draw = random.stream('habits');
  const drawn = (key: string): WantedMail => drawMail(draw.stream(`${key} drawn`), 100, world);
  const isSteady = (): boolean => clockSetAtMs.length === 0;
  const { rotate } = world.signing;
  return drawCustomerActions(
    {
      template,
      random: draw,
      ledger,
      deeds,
      startMs: START_MS,
      share: extent.habits,
      rotate,
      isSteady,
      isShared: world.cluster !== undefined,
      drawn,
      count,
    },
    choices,
  );
}

/** One tenant floods a server, and the other one also sends to it. */
function pour(world: World, template: Template, { fromMs, flood, victims }: Flood): void {
  const { ledger, choices } = world;
  const random = world.random.stream('pour');
  const { timeline, cluster } = world;
  for (let ms = 0; cluster && ms < AWAKE_MS; ms += 2_000) timeline.after(ms, 'awake', () => undefined, timeline.world);
  const entries = flood.filter(({ key }) => choices.has(key)).map(newEntry);
  ledger.push(...entries);
  if (entries.length > 0)
    begin(world, fromMs, () => batchUntilAcknowledged(template, entries, { key: 'flood', random }));
  for (const { mail, afterMs } of victims) {
    const entry = newEntry(mail);
    ledger.push(entry);
    begin(world, fromMs + afterMs, () => sendUntilAcknowledged(template, entry, random));
  }
}

/** In most scenarios a client follows the log, returns after minutes or hours, and reads everything at the end. */
function planReading(world: World, template: Template): void {
  const draw = world.random.stream('reader');
  if (!draw.chance(world.extent.readers) || !world.choices.has('reader')) return;
  const reader = new Reader(template, draw.stream('pages'), START_MS);
  world.reader = reader;
  world.count('reading client');
  const longestMs = draw.pick([5_000, 600_000, 3 * 3_600_000]);
  for (let polls = draw.below(4); polls > 0; polls -= 1)
    begin(world, draw.between(0, longestMs), () => followOnce(reader));
  if (world.cluster?.server instanceof OverlappingServer) begin(world, 0, () => followClosely(world, reader, draw));
}

/** Polls of a follower that is close to the end of the log, where transactions are in progress. */
const CLOSE_POLLS = 120;

async function followClosely({ timeline }: World, reader: Reader, draw: Random): Promise<void> {
  for (let polls = draw.below(CLOSE_POLLS); polls > 0; polls -= 1) {
    await timeline.wait(draw.chance(0.8) ? draw.between(1, 150) : draw.between(150, 5_000));
    await followOnce(reader);
  }
}

/** One read of new events, which may fail: the next one continues from the same cursor. */
const followOnce = (reader: Reader): Promise<unknown> => reader.follow().catch(() => false);

/** As if it had been fetched earlier. */
function keepPolicies({ policies: { enforced, publishing }, threads, node, cluster }: World): void {
  const known = [...enforced].filter((domain) => publishing.get(domain)?.isKept !== false);
  if (known.length === 0) return;
  const database = cluster?.rows ?? threads.connection(node.file, 'write');
  for (const domain of known) {
    database.all(
      `INSERT INTO mta_sts_policy (domain, policy_id, mode, mx, max_age, checked_at, used_at, expires_at)
       VALUES (?, ?, 'enforce', ?, ?, ?, ?, ?)`,
      domain,
      FIRST_ID,
      JSON.stringify([`*.${domain}`]),
      MAX_AGE_SECONDS,
      START_MS,
      START_MS,
      START_MS + 1_000 * MAX_AGE_SECONDS,
    );
  }
}

/** The record of the RSA key is in the DNS when the scenario starts: the domain is checked every hour from then on. */
function proveDomain({ threads, node, cluster }: World): void {
  const database = cluster?.rows ?? threads.connection(node.file, 'write');
  const [domain] = database.all<{ id: string }>('SELECT id FROM domain WHERE domain = ?', SENDER_DOMAIN);
  database.all('UPDATE domain SET checked_at = ? WHERE id = ?', START_MS, domain!.id);
  database.all(
    `UPDATE dkim_key SET published_at = ? WHERE domain_id = ? AND algorithm = 'rsa' AND state = 'active'`,
    START_MS,
    domain!.id,
  );
}

/** Sets the wall clock forward or back. */
function planClock(world: World): void {
  const draw = world.random.stream('clock');
  if (!draw.chance(0.15) || !world.choices.has('clock')) return;
  const longestMs = draw.pick([20_000, 3_600_000, DAY_MS]);
  world.timeline.after(draw.between(0, draw.chance(0.5) ? 20_000 : 3_600_000), 'clock', () => {
    world.count('clock change');
    here().setMs += Math.round(draw.between(-longestMs, longestMs));
    world.clockSetAtMs.push(Date.now());
  });
}

/** Retries until the resource exists, since a response may be lost; with growing delays. */
async function create(tenant: Tenant, path: string, body: object): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const answer = await apiCall(tenant, 'POST', path, body).catch(() => undefined);
    if (answer?.status === 201 || answer?.status === 409) return;
    if (answer && answer.status < 500) throw new Error(`${path} was refused: ${answer.body}`);
    await here().timeline.wait(Math.min(60_000, 1_000 * 2 ** attempt));
  }
}
