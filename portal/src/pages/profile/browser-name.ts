/** Returns the browser and operating system of a User-Agent for display; undefined if unknown. */

// Other browsers also identify as Chrome or Safari, so these come last.
const BROWSERS = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
  ['curl/', 'curl'],
] as const;
const SYSTEMS = [
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Android', 'Android'],
  ['Windows', 'Windows'],
  ['Mac OS X', 'macOS'],
  ['Linux', 'Linux'],
] as const;

export function browserName(userAgent: string | null): string | undefined {
  const named = (names: readonly (readonly [string, string])[]): string | undefined =>
    names.find(([mark]) => userAgent?.includes(mark))?.[1];
  const [browser, system] = [named(BROWSERS), named(SYSTEMS)];
  return browser !== undefined && system !== undefined ? `${browser}, ${system}` : (browser ?? system);
}
