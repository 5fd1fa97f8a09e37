/** Days in the user's time zone, as in the date fields of filters. */

/** Returns the day of a time, as YYYY-MM-DD. */
export function dayOf(atMs: number): string {
  const offsetMs = new Date(atMs).getTimezoneOffset() * 60_000;
  return new Date(atMs - offsetMs).toISOString().slice(0, 10);
}

/** Converts a day to the time at which it begins or ends, of filters for the API. */
export function timeOfDay(day: string | undefined, clock: '00:00:00' | '23:59:59.999'): string | undefined {
  const at = new Date(`${day}T${clock}`);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}
