/** GetAccount and GetSendQuota: the account in the form of SES. Postrider has no daily quota and no sending rate of its own. */
import type { Caller } from '../../accounts/accounts.ts';
import { ok, type Result } from '../../base/failure.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { type Operated, operation, type SesContext, type SesDoorDeps } from './endpoint.ts';

/** SES's value for a quota without a limit. */
const UNLIMITED = -1;
/** Sends per second that clients with their own rate limit can make if Postrider has no limit. */
const MAX_SEND_RATE = 1_000;

interface Quota {
  Max24HourSend: number;
  MaxSendRate: number;
  SentLast24Hours: number;
}

/** Sends are counted since midnight UTC. */
export async function sendQuota({ rateLimit }: SesDoorDeps, context: SesContext): Promise<Result<Quota>> {
  const account = await context.call('GET', '/account');
  if (!account.ok) return account;
  return ok({
    Max24HourSend: UNLIMITED,
    MaxSendRate: rateLimit ?? MAX_SEND_RATE,
    SentLast24Hours: account.body.usage.messagesToday as number,
  });
}

const ENFORCEMENT: Readonly<Record<string, string>> = { good: 'HEALTHY', warning: 'PROBATION', critical: 'PROBATION' };

async function getAccount(deps: SesDoorDeps, context: SesContext): Promise<Operated> {
  const quota = await sendQuota(deps, context);
  if (!quota.ok) return quota;
  const health = await context.call('GET', '/account/health');
  if (!health.ok) return health;
  const isHeld = health.body.sendingProtection?.status === 'held';
  return ok({
    DedicatedIpAutoWarmupEnabled: false,
    EnforcementStatus: isHeld ? 'SHUTDOWN' : (ENFORCEMENT[health.body.status] ?? 'HEALTHY'),
    ProductionAccessEnabled: context.caller.mode === 'live',
    SendQuota: quota.value,
    SendingEnabled: !isHeld,
    SuppressionAttributes: { SuppressedReasons: ['BOUNCE', 'COMPLAINT'] },
  });
}

export function accountOperations(deps: SesDoorDeps): RouteDefinition<Caller>[] {
  return [
    operation(deps, {
      method: 'GET',
      path: '/account',
      summary: 'GetAccount',
      handle: (context) => getAccount(deps, context),
    }),
  ];
}
