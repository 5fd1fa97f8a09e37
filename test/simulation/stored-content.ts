/**
 * Failures of content that the node stores outside its database, and their oracle: bit flips, a disk that is full for a while, an S3 store
 * with failures. In scenarios with such failures, more messages are large enough to be stored there.
 */
import { createHash } from 'node:crypto';
import type { Choices } from './choices.ts';
import { planInboundFlips } from './damaged-mail.ts';
import type { Disk } from './disk.ts';
import type { Rows, SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import { drawStoreFaults, type StoreFaults } from './s3-store.ts';
import type { Timeline } from './timeline.ts';

export interface ContentFaults {
  flips: boolean;
  /** Also in inbound mail, before it is read. */
  inboundFlips: boolean;
  /** The share of disk operations that fail with EIO. */
  errors: number;
  /** When the disk is full, virtual ms. */
  full: { fromMs: number; untilMs: number } | undefined;
  /** Failures of the S3 store, if it has the content instead of the disk. */
  store: StoreFaults | undefined;
  /** The share of messages whose text is a blob, and of inbound ones. */
  largeShare: number;
  largeReportShare: number;
}

/** For scenarios without such failures. */
export const SAFE: ContentFaults = {
  flips: false,
  inboundFlips: false,
  errors: 0,
  full: undefined,
  store: undefined,
  largeShare: 0.1,
  largeReportShare: 0.1,
};

export function drawContentFaults(random: Random): ContentFaults {
  const stores = random.stream('store');
  if (stores.chance(0.04)) return { ...SAFE, store: drawStoreFaults(stores), largeShare: 0.5, largeReportShare: 0.5 };
  const flips = random.stream('flips').chance(0.06);
  const space = random.stream('space');
  const isFull = space.chance(0.07);
  const fromMs = space.between(0, space.chance(0.5) ? 3_000 : 600_000);
  const untilMs = fromMs + space.between(1_000, space.chance(0.7) ? 60_000 : 3_600_000);
  const draw = random.stream('errors');
  const errors = draw.chance(0.06) ? draw.between(0.002, 0.05) : 0;
  const largeShare = flips || isFull || errors > 0 ? 0.5 : 0.1;
  const inboundFlips = random.stream('inbound').chance(0.5);
  const largeReportShare = inboundFlips ? 0.7 : largeShare;
  return {
    ...SAFE,
    flips,
    inboundFlips,
    errors,
    full: isFull ? { fromMs, untilMs } : undefined,
    largeShare,
    largeReportShare,
  };
}

interface Endangered {
  contentFaults: ContentFaults;
  choices: Choices;
  timeline: Timeline;
  random: Random;
  disk: Disk;
  node: SimulatedNode;
  count(what: string): void;
}

export function planContentFaults(world: Endangered): void {
  const { contentFaults, choices, timeline, disk, count } = world;
  if (contentFaults.flips && choices.has('flip')) planFlips(world);
  if (contentFaults.inboundFlips && choices.has('inbound-flip')) planInboundFlips(world);
  if (contentFaults.errors > 0 && choices.has('errors')) disk.errorShare = contentFaults.errors;
  const { full } = contentFaults;
  if (!full || !choices.has('full')) return;
  const set = (isFull: boolean) => (): void => {
    disk.isFull = isFull;
  };
  count('full disk');
  timeline.after(full.fromMs, 'disk full', set(true), timeline.world);
  timeline.after(full.untilMs, 'disk has room', set(false), timeline.world);
}

/** Flips a bit of stored content, as soon as there is some. */
function planFlips({ random, timeline, disk, count }: Endangered): void {
  const draw = random.stream('flip');
  let tries = 20;
  const flip = (): void => {
    tries -= 1;
    if (disk.flip()) count('bit flip in content');
    else if (tries > 0) timeline.after(draw.between(10, 20_000), 'flip', flip, timeline.world);
  };
  timeline.after(draw.between(0, 30_000), 'flip', flip, timeline.world);
}

export interface StoredEvidence {
  database: Rows;
  /** By key. */
  stored: ReadonlyMap<string, Buffer>;
  /** Files of failed writes that were not removed. */
  left: readonly string[];
  /** No process died, and nothing was refused while it was recorded. */
  isUndisturbed: boolean;
  /** The disk returned other bytes than it got. */
  isFlipped: boolean;
}

/**
 * Checks that content with a reference is complete, and that files of failed writes are removed, as well as content without a reference if
 * nothing else failed.
 */
export function storedFaults({ database, stored, left, isUndisturbed, isFlipped }: StoredEvidence): string[] {
  const rows = database.all<{ key: string }>(
    ['email', 'attachment_file', 'inbound_mail']
      .map((table) => `SELECT blob_key AS key FROM ${table} WHERE blob_key IS NOT NULL`)
      .join(' UNION '),
  );
  const faults = rows.flatMap(({ key }) => {
    const content = stored.get(key);
    if (content === undefined) return [`content ${key} is named by a row, and gone`];
    const [, digest] = /-([\w-]{43})$/.exec(key) ?? [];
    const isWhole = digest === undefined || createHash('sha256').update(content).digest('base64url') === digest;
    return isWhole || isFlipped ? [] : [`content ${key} is not what was accepted`];
  });
  faults.push(...left.map((name) => `${name} of a write that failed is still there`));
  if (!isUndisturbed) return faults;
  const named = new Set(rows.map(({ key }) => key));
  const orphans = [...stored.keys()].filter((key) => !named.has(key));
  return [...faults, ...orphans.map((key) => `content ${key} is named by no row, though nothing failed`)];
}
