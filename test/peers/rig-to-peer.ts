/** A delivery by MX to a server on loopback that is not part of the test kit: it is the MX host of every requested domain. */
import type { TestContext } from 'node:test';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { deliveryRig, type Rig, type RigOptions } from '../kit/delivery-rig.ts';
import { fakeDns } from '../kit/fake-dns.ts';

/** Closed at the end of the test. */
export async function rigToPeer(
  t: TestContext,
  peer: { port: number; domains: Record<string, string[]> },
  options: RigOptions = {},
): Promise<Rig> {
  const zone = Object.entries(peer.domains).flatMap(([domain, addresses]) => [
    [domain, { MX: addresses.map((_, index) => [10 * (index + 1), `mx${index + 1}.${domain}`]) }],
    ...addresses.map((address, index) => [`mx${index + 1}.${domain}`, { A: [address] }]),
  ]);
  const dns = await fakeDns(Object.fromEntries(zone));
  const resolver = openDns({ servers: [dns.server] });
  const allowed = parseCidrs('127.0.0.0/8');
  if (!allowed.ok) throw new Error('invalid loopback range');
  const rig = await deliveryRig({
    ...options,
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: peer.port, mxAllow: allowed.cidrs },
  });
  t.after(async () => {
    await rig.close();
    resolver.close();
    await dns.close();
  });
  return rig;
}

/** Stores this many messages, each to a different user, and lets them be claimed. */
export async function fillWith(rig: Rig, mails: number, domain: string): Promise<void> {
  await Promise.all(Array.from({ length: mails }, (_, user) => rig.store({ to: [`${user}@${domain}`] })));
  rig.delivery.nudge();
}

export const countRows = (rig: Rig, sql: string): number =>
  rig.rows<{ n: number }>(`SELECT count(*) AS n FROM ${sql}`)[0]!.n;
