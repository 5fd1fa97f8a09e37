/** The quotas of an account with respect to a strict batch, which is sent completely or not at all. */
import { type Caller, ownerOf } from '../../accounts/accounts.ts';
import type { Failure } from '../../base/failure.ts';
import { storedAnswerOperation } from '../../idempotency/idempotency.ts';
import { quotaExceeded, quotaUsageOperation } from '../../limits/limits.ts';
import { parseAddressList, sameAddressKey } from '../../mail/address.ts';
import type { EndpointContext, ResendDoorDeps } from './endpoint.ts';

const DAY_MS = 86_400_000;

type Quota = Parameters<typeof quotaExceeded>[0]['quota'];

/** Returns the time until the quota's period ends. */
function resetsInMs(quota: Quota, nowMs: number): number {
  if (quota === 'messagesPerDay') return DAY_MS - (nowMs % DAY_MS);
  const now = new Date(nowMs);
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - nowMs;
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
 * Returns the failure of a batch whose emails do not all fit into the quotas of a live account. The sends themselves decide: other sends can
 * use up a quota after this check. Sandbox messages have counts of their own, which only the sends check.
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
  for (const quota of ['messagesPerDay', 'messagesPerMonth'] as const) {
    const most = account.limits[quota];
    const used = usage[quota] ?? 0;
    if (most === undefined || used + asked <= most) continue;
    refusal = quotaExceeded({ quota, most, used, asked, resetsInMs: resetsInMs(quota, nowMs) });
  }
  return refusal && { ...refusal, message: refusal.message.replace('this email needs', 'this batch needs') };
}

/** Returns the seconds after which a message that was refused by a quota can be repeated. */
export function quotaRetrySeconds({ clock }: ResendDoorDeps, message: string): number {
  const quota: Quota = /messagesPerMonth/.test(message) ? 'messagesPerMonth' : 'messagesPerDay';
  return Math.ceil(resetsInMs(quota, clock.now()) / 1000);
}
