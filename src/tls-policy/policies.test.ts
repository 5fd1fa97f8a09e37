/** Connections while DNS answers are suppressed: messages are deferred and never sent without the policy. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../base/clock.ts';
import { silentLog } from '../base/log.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import { openTlsPolicies } from './policies.ts';

test('a failed MX lookup defers messages because DANE may apply', async () => {
  const database = { execute: async () => null } as unknown as Database;
  let mx: object = { status: 'temporary', cause: 'ESERVFAIL' };
  const dns = {
    resolveMx: async () => mx,
    resolveTxt: async () => ({ status: 'no-data', secure: false }),
    resolveAddresses: async () => ({ status: 'no-data', secure: false }),
  } as unknown as Dns;
  const policies = openTlsPolicies({ database, dns, clock: systemClock, log: silentLog, allow: [] });
  const held = await policies.ofDomain('shop.example');
  assert.equal(held.isAsking, true);
  assert.equal((await held.ofHost('mx.shop.example', 25)).ok, false);
  mx = { status: 'found', value: { nullMx: false, hosts: [] }, secure: false, ttlMs: 60_000 };
  const known = await policies.ofDomain('shop.example');
  assert.deepEqual([known.isAsking, await known.ofHost('mx.shop.example', 25)], [false, { ok: true }]);
  await policies.stop();
});
