/** Sizes with units, for settings and options: `40MB`, `1.5 GiB`, `500,000,000`. */

const UNITS: Record<string, number> = {
  '': 1,
  b: 1,
  k: 1e3,
  kb: 1e3,
  m: 1e6,
  mb: 1e6,
  g: 1e9,
  gb: 1e9,
  t: 1e12,
  tb: 1e12,
  ki: 2 ** 10,
  kib: 2 ** 10,
  mi: 2 ** 20,
  mib: 2 ** 20,
  gi: 2 ** 30,
  gib: 2 ** 30,
  ti: 2 ** 40,
  tib: 2 ** 40,
};

/** What parseBytes accepts, for error messages. */
export const BYTES_ALLOWED = 'bytes such as 40000000, or a size such as 40MB, 500KB, 64MiB, 1.5GB';

/**
 * Returns the number of bytes; undefined if the text is not a size. KB, MB, GB, and TB are powers of 1000; KiB, MiB, GiB, and TiB of 1024.
 */
export function parseBytes(text: string): number | undefined {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+) ?([a-z]*)$/i.exec(text.trim()) ?? [];
  const factor = Object.hasOwn(UNITS, unit.toLowerCase()) ? UNITS[unit.toLowerCase()] : undefined;
  if (number === undefined || factor === undefined) return undefined;
  if (factor === 1 && number.includes('.')) return undefined;
  const bytes = Math.round(Number(number.replaceAll(',', '')) * factor);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
