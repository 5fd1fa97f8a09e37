/** Notes requests that seem to come through an untrusted proxy: in the log, and for the doctor. */
import { recordUntrustedProxy } from '../doctor/doctor.ts';
import { addressRefusal } from '../net/address-guard.ts';
import type { Parts } from './parts.ts';

/** How often the record is updated. */
const RECORD_MS = 3_600_000;

/** Records the address of an untrusted peer that sent X-Forwarded-For. Public addresses are ignored: clients forge the header. */
export function createUntrustedProxyNote({ database, clock, log }: Pick<Parts, 'database' | 'clock' | 'log'>) {
  const logged = new Set<string>();
  let nextMs = Number.NEGATIVE_INFINITY;
  return (address: string): void => {
    const nowMs = clock.now();
    if (nowMs < nextMs || addressRefusal(address, []) === undefined) return;
    nextMs = nowMs + RECORD_MS;
    if (!logged.has(address)) {
      log.warn({ address }, 'X-Forwarded-For ignored: POSTRIDER_TRUSTED_PROXIES does not include this address');
    }
    logged.add(address);
    recordUntrustedProxy(database, { address, atMs: nowMs }).catch((error: Error) => {
      log.debug({ error: error.message }, 'untrusted proxy not recorded');
    });
  };
}
