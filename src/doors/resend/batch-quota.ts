/** The quotas of an account with respect to a strict batch, which is sent completely or not at all. */
import { type Caller, ownerOf } from '../../accounts/accounts.ts';
import type { Failure } from '../../base/failure.ts';
import { storedAnswerOperation } from '../../idempotency/idempotency.ts';
import { periodOf, QUOTA_NAMES, type QuotaName, quotaExceeded, quotaUsageOperation } from '../../limits/limits.ts';
import { parseAddressList, sameAddressKey } from '../../mail/address.ts';
import type { EndpointContext, ResendDoorDeps } from './endpoint.ts';

/** Returns the time until the quota's period ends. */
function resetsInMs(quota: QuotaName, nowMs: number): number {
  return periodOf(quota, nowMs).endMs - nowMs;
}

/** Returns how many messages the body of a POST /send needs: one for each recipient. */
function messagesOf({ to, cc, bcc }: Record<string, unknown>): number {
  const texts = [to, cc, bcc].flat().filter((text) => typeof text === 'string');
  const addresses = texts.flatMap((text) => {
    const list = parseAddressList(text);
    return list.ok ? list.value : [];
  });
  return new Set(addresses.map(sameAddressKey)).size;
}

/** Returns the bodies without those that an earlier attempt with the same Idempotency-Key has sent. */
async function unsent<T>({ database, clock }: ResendDoorDeps, caller: Caller, bodies: readonly T[], key?: string) {
  if (key === undefined) return bodies;
  const record = { ...ownerOf({ caller }), key, nowMs: clock.now() };
  const stored = await Promise.all(
    bodies.map((_, index) => database.execute(storedAnswerOperation, { ...record, endpoint: `/send/batch#${index}` })),
  );
  return bodies.filter((_, index) => stored[index] === null);
}

/**
 * Returns the failure of a batch whose emails do not all fit into the quotas of a live account. The sends themselves decide: other sends
 * can use up a quota after this check. Sandbox messages have counts of their own, which only the sends check.
 */
export async function batchQuotaFailure(
  deps: ResendDoorDeps,
  { caller }: EndpointContext,
  { bodies, key }: { bodies: readonly Record<string, unknown>[]; key: string | undefined },
): Promise<Failure | undefined> {
  const { account, mode } = caller;
  const { messagesPerDay, messagesPerMonth } = account.limits;
  if (mode !== 'live' || (messagesPerDay ?? messagesPerMonth) === undefined) return undefined;
  const nowMs = deps.clock.now();
  const usage = await deps.database.execute(quotaUsageOperation, { accountId: account.id, nowMs });
  const left = await unsent(deps, caller, bodies, key);
  const asked = left.reduce((sum, body) => sum + messagesOf(body), 0);
  let refusal: Failure | undefined;
  for (const quota of QUOTA_NAMES) {
    const most = account.limits[quota];
    const used = usage[quota] ?? 0;
    if (most === undefined || used + asked <= most) continue;
    refusal = quotaExceeded({ quota, most, used, asked, resetsInMs: resetsInMs(quota, nowMs) }, 'batch');
  }
  return refusal;
}

/** Returns the seconds after which an email that a quota refused can be repeated. Results of a batch name the quota in the message. */
export function quotaRetrySeconds({ clock }: Pick<ResendDoorDeps, 'clock'>, message: string): number {
  const quota: QuotaName = /messagesPerMonth/.test(message) ? 'messagesPerMonth' : 'messagesPerDay';
  return Math.ceil(resetsInMs(quota, clock.now()) / 1000);
}
