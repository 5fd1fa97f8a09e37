/**
 * Orders and renews TLS certificates from a certificate authority (ACME, RFC 8555). Each name has its own order, so a name that cannot be
 * validated does not affect the others. The state is in the database: the node that finds a name due claims it, all nodes respond to the
 * challenge (src/api/acme.ts), and all use a new certificate within seconds, without a restart.
 *
 *     due ─claim─▶ ordering ─┬─▶ issued: due again when about a third of its lifetime is left
 *                            └─▶ failed: due again after 15 min, 30 min, 1, 2, 4, 8, 24 h; sooner if the authority is unreachable
 *
 * After a failure the current certificate stays in use. The delays stay below the limits of authorities, such as Let's Encrypt's five
 * failed validations of a name per hour; Retry-After is respected, and a restart does not shorten a delay.
 */
import { createPrivateKey } from 'node:crypto';
import { jitter } from '../base/backoff.ts';
import { type Clock, iso } from '../base/clock.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import { open, seal } from '../base/seal.ts';
import type { Database } from '../storage/database.ts';
import { AcmeError } from './client.ts';
import { type Issued, newKey, orderCertificate } from './order.ts';
import {
  accountKeyOperation,
  type CertificateRow,
  type Claimed,
  certificatesOperation,
  claimOrderOperation,
  issuedOperation,
  orderFailedOperation,
  publishChallengeOperation,
} from './store.ts';

export { type CertificateRow, certificatesOperation } from './store.ts';

const CHECK_MS = 5_000;
/** Time limit of one order; below the shortest delay, so that no other node claims the name in the meantime. */
const ORDER_MS = 300_000;
const MINUTE = 60_000;
const DELAYS_MS = [15, 30, 60, 120, 240, 480, 1440].map((minutes) => minutes * MINUTE);
/** Maximum Retry-After that is respected. */
const LONGEST_DELAY_MS = 7 * 86_400_000;
/** Minimum part of a certificate's lifetime that is left at its renewal; up to a twentieth more, at random. */
const LEFT_AT_RENEWAL = 1 / 3;
const RENEWAL_SPREAD = 1 / 20;

export interface AcmeOptions {
  database: Database;
  clock: Clock;
  log: Log;
  secretKey: Uint8Array;
  directory: string;
  /** Contact address for the authority. */
  email: string;
  /** Host names that this process needs certificates for, at present. */
  names(): readonly string[];
  userAgent: string;
  /** Called with a certificate to use for a name: stored ones on load(), and each new one. */
  onCertificate(name: string, certificate: { key: string; cert: string }): void;
  fetch?: typeof fetch;
}

export interface Acme extends Running {
  /** Loads the stored certificates; call it before ports are opened. */
  load(): Promise<void>;
  /** Starts to order and renew; call it when the port that answers challenges is open. */
  start(): void;
  /** Failed orders of each name since its last certificate, as of the last check. */
  failures(): { name: string; failures: number }[];
}

const accountContext = (directory: string): string => `acme account:${directory}`;
const keyContext = (directory: string, name: string): string => `acme certificate:${directory}:${name}`;

/** Returns when a certificate issued now is renewed: never before a third of its lifetime, even if the local clock is wrong. */
export function renewalAt(
  nowMs: number,
  { expiresAtMs, lifetimeMs }: Omit<Issued, 'key' | 'cert'>,
  random: number,
): number {
  const leftMs = Math.min(expiresAtMs - nowMs, lifetimeMs);
  const atMs = leftMs - lifetimeMs * (LEFT_AT_RENEWAL + RENEWAL_SPREAD * random);
  return Math.round(nowMs + Math.max(lifetimeMs / 3, atMs));
}

/**
 * Returns the time of the next order after this many consecutive failures. An unreachable authority is retried soon, because it does not
 * count such attempts.
 */
export function retryAt(nowMs: number, failures: number, error: Pick<AcmeError, 'isAway' | 'retryAfterMs'>): number {
  const scheduled = DELAYS_MS[Math.min(failures, DELAYS_MS.length) - 1]!;
  const delayMs = error.isAway ? Math.min(scheduled, MINUTE * 2 ** Math.min(failures - 1, 10)) : scheduled;
  return nowMs + Math.max(jitter(delayMs, Math.random()), Math.min(error.retryAfterMs ?? 0, LONGEST_DELAY_MS));
}

/** Makes no requests before load() and start(). */
export function createAcme(options: AcmeOptions): Acme {
  const { database, clock, log, directory, names } = options;
  const stopping = new AbortController();
  /** PEM in use, by name. */
  const inUse = new Map<string, string>();
  let rows: CertificateRow[] = [];
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let lastError: string | undefined;

  const load = async (): Promise<void> => {
    const wanted = new Set(names());
    rows = await database.execute(certificatesOperation, directory);
    for (const { name, certificate, keySealed } of rows) {
      if (!certificate || !keySealed || !wanted.has(name) || inUse.get(name) === certificate) continue;
      inUse.set(name, certificate);
      try {
        const key = open(options.secretKey, keySealed, keyContext(directory, name)).toString('utf8');
        options.onCertificate(name, { key, cert: certificate });
      } catch (error) {
        log.error({ err: error, name }, 'stored certificate ignored');
      }
    }
  };

  const look = async (): Promise<void> => {
    await load();
    const due = names().filter((name) => (rows.find((row) => row.name === name)?.nextAt ?? 0) <= clock.now());
    await Promise.all(due.map((name) => tryOrder(options, name, stopping.signal)));
    if (due.length > 0) await load();
  };

  const checkOnce = (): void => {
    looking ??= look()
      .then(() => {
        lastError = undefined;
      })
      .catch((error: Error) => {
        if (error.message !== lastError) log.warn({ error: error.message }, 'certificate check failed');
        lastError = error.message;
      })
      .finally(() => {
        looking = undefined;
      });
  };

  return {
    load,
    start: () => {
      checkOnce();
      timer = setInterval(checkOnce, CHECK_MS).unref();
    },
    failures: () => names().map((name) => ({ name, failures: rows.find((row) => row.name === name)?.failures ?? 0 })),
    stop: async () => {
      clearInterval(timer);
      stopping.abort();
      await looking;
    },
  };
}

/** Orders the certificate of a name unless another node does, and records the result. */
async function tryOrder(options: AcmeOptions, name: string, stopping: AbortSignal): Promise<void> {
  const { database, clock, log, directory } = options;
  const delaysMs = DELAYS_MS.map((ms) => jitter(ms, Math.random()));
  const claimed = await database.execute(claimOrderOperation, { directory, name, delaysMs, nowMs: clock.now() });
  if (claimed === null) return;
  const claim = { directory, name, fence: claimed.fence };
  try {
    const issued = await order(options, claim, stopping);
    const nextAt = renewalAt(clock.now(), issued, Math.random());
    const keySealed = seal(options.secretKey, issued.key, keyContext(directory, name));
    const { cert: certificate, expiresAtMs: expiresAt } = issued;
    if (await database.execute(issuedOperation, { ...claim, certificate, keySealed, expiresAt, nextAt })) {
      log.info({ name, expiresAt: iso(expiresAt), renewal: iso(nextAt) }, 'certificate issued');
    }
  } catch (error) {
    await recordFailure(
      options,
      { ...claim, failures: claimed.failures },
      stopping.aborted ? STOPPED : (error as Error),
    );
  }
}

const STOPPED = new AcmeError('the service was stopped during the order', { isAway: true });

interface Claim extends Claimed {
  directory: string;
  name: string;
}

async function recordFailure({ database, clock, log }: AcmeOptions, claim: Claim, error: Error): Promise<void> {
  const { failures, ...fenced } = claim;
  // Any other error is a bug or a database error; the authority may already have counted an order.
  const known = error instanceof AcmeError ? error : new AcmeError(error.message);
  const nextAt = retryAt(clock.now(), failures, known);
  await database.execute(orderFailedOperation, { ...fenced, error: known.message, nextAt });
  const facts = { name: claim.name, error: known.message, failures, nextTry: iso(nextAt) };
  log.warn(facts, 'certificate order failed; keeping the current certificate');
}

async function order(options: AcmeOptions, claim: Omit<Claim, 'failures'>, stopping: AbortSignal): Promise<Issued> {
  const { database, secretKey, directory, email, userAgent } = options;
  const context = accountContext(directory);
  const keySealed = seal(secretKey, newKey(), context);
  const kept = await database.execute(accountKeyOperation, { directory, keySealed });
  return orderCertificate({
    directory,
    email,
    userAgent,
    name: claim.name,
    fetch: options.fetch ?? fetch,
    accountKey: createPrivateKey(open(secretKey, kept, context)),
    signal: AbortSignal.any([stopping, AbortSignal.timeout(ORDER_MS)]),
    publish: async (token, answer) => {
      const holds = await database.execute(publishChallengeOperation, { ...claim, token, answer });
      if (!holds) throw new AcmeError('another node has taken over this order');
    },
  });
}
