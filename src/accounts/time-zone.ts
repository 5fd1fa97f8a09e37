/** The time zone of an account: a name of the IANA time zone database. */

export const DEFAULT_TIME_ZONE = 'UTC';

export const TIME_ZONE_RULE = 'must be a name of the IANA time zone database, such as Europe/Berlin or UTC';

/**
 * Returns the name with its usual capital letters, or undefined if there is no such time zone. Other names of a zone, such as Europe/Kyiv,
 * stay as they are. Offsets such as +01:00 are not names.
 */
export function timeZoneName(text: string): string | undefined {
  if (!/^[A-Za-z]/.test(text)) return undefined;
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: text }).resolvedOptions();
    return timeZone.toLowerCase() === text.toLowerCase() ? timeZone : text;
  } catch {
    return undefined;
  }
}
