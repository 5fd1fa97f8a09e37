/** The longest wait that Retry-After can request. */
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** Returns the milliseconds that a Retry-After header (RFC 9110 §10.2.3: seconds or a date) asks for; 0 if it has no valid value. */
export function retryAfterMs(header: string | undefined, nowMs: number): number {
  if (header === undefined) return 0;
  const text = header.trim();
  const waitMs = /^\d{1,12}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS) : 0;
}
