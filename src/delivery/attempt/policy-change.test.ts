/** A session opened under a TLS policy is no longer used after the domain's policy has changed. */
import assert from 'node:assert/strict';
import test from 'node:test';
import type { TempDatabase } from '../../../test/kit/temp-database.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import type { Dns } from '../../net/dns.ts';
import { openTlsPolicies } from '../../tls-policy/tls-policy.ts';
import { type ConnectionOptions, openConnections } from './connections.ts';
import { isFit, type PooledSession } from './pooled-session.ts';

const DOMAIN = 'shop.example';
const DAY_MS = 86_400_000;

/** Returns the TLS requirements of a session if the domain has this MTA-STS policy. */
async function asksUnder(mode: 'testing' | 'enforce'): Promise<string> {
  const now = systemClock.now();
  const times = { checkedAt: now, usedAt: now, expiresAt: now + DAY_MS };
  const row = { domain: DOMAIN, policyId: '1', mode, mx: '["mx.shop.example"]', maxAge: 86_400, ...times };
  const database = { execute: async () => row } as unknown as TempDatabase['database'];
  const dns = {
    resolveMx: async () => ({ status: 'no-data', secure: false }),
    resolveTxt: async () => ({ status: 'no-data', secure: false }),
  } as unknown as Dns;
  const policies = openTlsPolicies({ database, dns, clock: systemClock, log: silentLog, allow: [] });
  const connections = openConnections({ routing: { policies } } as unknown as ConnectionOptions);
  const asks = await connections.asksOf(DOMAIN, false);
  await policies.stop();
  return asks;
}

test('an unencrypted session opened before a policy was enforced is not reused', async () => {
  const testing = await asksUnder('testing');
  const session = { tls: undefined, verified: false, remoteHost: 'mx.shop.example' };
  const pooled = { asks: testing, session } as unknown as PooledSession;
  const need = { domain: DOMAIN, tls: false as const, avoid: new Set<string>(), attempts: 0, emailSeq: 1 };
  assert.equal(isFit(pooled, { ...need, asks: await asksUnder('testing') }), true);
  assert.equal(isFit(pooled, { ...need, asks: await asksUnder('enforce') }), false);
});
