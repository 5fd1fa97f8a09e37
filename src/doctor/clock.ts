/**
 * Compares the clock with the Date header of a remote server (RFC 9110 §6.6.1). With a wrong clock, signatures from the future are refused,
 * codes of authenticator apps do not match, and messages have wrong dates.
 */
import { request as secureRequest } from 'node:https';
import type { Clock } from '../base/clock.ts';
import type { Dns } from '../net/dns.ts';
import { request } from '../net/node-http.ts';
import { lookupBy } from './certificates.ts';
import { type Check, fail, ok, skip, warn } from './check.ts';

const ANSWER_MS = 5_000;
const WARN_MS = 2_000;
const FAIL_MS = 60_000;
/** A Date header has whole seconds. */
const HALF_SECOND_MS = 500;

interface Compared {
  /** The middle of the second that the header names. */
  remoteMs: number;
  localMs: number;
  /** Maximum error because of the network delay. */
  uncertainMs: number;
}

/** Rejects if the server does not respond, or responds without a date. */
function fetchDate(url: string, { dns, clock }: { dns: Dns; clock: Clock }): Promise<Compared> {
  const send = url.startsWith('https:') ? secureRequest : request;
  return new Promise((resolve, reject) => {
    const startedMs = performance.now();
    // A wrong clock can make certificates look invalid, so they are ignored; the request contains no data and only the date is used.
    const options = { method: 'HEAD', agent: false, lookup: lookupBy(dns), rejectUnauthorized: false } as const;
    const sent = send(url, { ...options, signal: AbortSignal.timeout(ANSWER_MS) }, (response) => {
      const roundTripMs = performance.now() - startedMs;
      response.resume();
      const ageMs = 1000 * (Number(response.headers.age) || 0);
      const remoteMs = Date.parse(response.headers.date ?? '') + ageMs + HALF_SECOND_MS;
      if (Number.isNaN(remoteMs)) reject(new Error('the response has no Date header'));
      else resolve({ remoteMs, localMs: clock.now() - roundTripMs / 2, uncertainMs: HALF_SECOND_MS + roundTripMs / 2 });
    });
    sent.once('error', reject).end();
  });
}

export async function checkClock(url: string, from: { dns: Dns; clock: Clock }): Promise<Check[]> {
  const name = 'clock';
  const { host } = new URL(url);
  try {
    const { remoteMs, localMs, uncertainMs } = await fetchDate(url, from);
    const offsetMs = localMs - remoteMs;
    const certainMs = Math.max(0, Math.abs(offsetMs) - uncertainMs);
    if (certainMs <= WARN_MS) return [ok(name, `the clock is within 2 s of ${host}`)];
    const message = `the clock is ${Math.round(Math.abs(offsetMs) / 1000)} s ${offsetMs > 0 ? 'ahead of' : 'behind'} ${host}`;
    const remedy = 'Synchronize the clock with NTP: timedatectl set-ntp true.';
    return [certainMs > FAIL_MS ? fail(name, message, remedy) : warn(name, message, remedy)];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return [
      skip(
        name,
        `skipped: ${host} did not respond (${code ?? message}); set POSTRIDER_DOCTOR_CLOCK_URL to another server`,
      ),
    ];
  }
}
