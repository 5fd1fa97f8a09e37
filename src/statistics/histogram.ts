/**
 * Histograms of delivery times: buckets whose bounds grow by a constant factor, so that every percentile is at most 2 % off in any range,
 * and histograms are merged by adding their counts (Masson, Rim, Lee: DDSketch, VLDB 2019). All times from a millisecond to three days fit
 * into 485 buckets; only those in use are stored, as pairs of varints.
 */

const RELATIVE_ERROR = 0.02;
const GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR);
const LOG_GAMMA = Math.log(GAMMA);

/** Counts by bucket number: 0 holds zero, the others `(γ^(n-2), γ^(n-1)]` milliseconds. */
export type Histogram = Map<number, number>;

export function observe(histogram: Histogram, ms: number): void {
  // Negative times of a clock that was set back count as zero.
  const bucket = ms < 1 ? 0 : 1 + Math.ceil(Math.log(ms) / LOG_GAMMA);
  histogram.set(bucket, (histogram.get(bucket) ?? 0) + 1);
}

/** Adds the counts of the second histogram to the first. */
export function merge(into: Histogram, other: Histogram): void {
  for (const [bucket, count] of other) into.set(bucket, (into.get(bucket) ?? 0) + count);
}

/** Nearest rank: returns the time that `share` of all do not exceed; null for an empty histogram. */
export function percentile(histogram: Histogram, share: number): number | null {
  const buckets = [...histogram].sort(([a], [b]) => a - b);
  const rank = Math.ceil(share * buckets.reduce((sum, [, count]) => sum + count, 0));
  let seen = 0;
  for (const [bucket, count] of buckets) {
    seen += count;
    if (seen >= rank) return bucket === 0 ? 0 : (2 * GAMMA ** (bucket - 1)) / (GAMMA + 1);
  }
  return null;
}

/** Packs, for each bucket in use, the distance to the previous one and its count; null for an empty histogram. */
export function packHistogram(histogram: Histogram): Uint8Array | null {
  if (histogram.size === 0) return null;
  const bytes: number[] = [];
  let last = 0;
  for (const [bucket, count] of [...histogram].sort(([a], [b]) => a - b)) {
    pushVarint(bytes, bucket - last);
    pushVarint(bytes, count);
    last = bucket;
  }
  return Uint8Array.from(bytes);
}

export function unpackHistogram(bytes: Uint8Array | null | undefined): Histogram {
  const histogram: Histogram = new Map();
  if (bytes) mergePacked(histogram, bytes);
  return histogram;
}

/** Adds the counts of a packed histogram. */
export function mergePacked(into: Histogram, bytes: Uint8Array): void {
  let bucket = 0;
  let value = 0;
  let scale = 1;
  let isCount = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]!;
    value += (byte & 127) * scale;
    scale *= 128;
    if (byte > 127) continue;
    if (isCount) into.set(bucket, (into.get(bucket) ?? 0) + value);
    else bucket += value;
    isCount = !isCount;
    value = 0;
    scale = 1;
  }
}

function pushVarint(bytes: number[], value: number): void {
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
}
