/** A delivery by MX on loopback: its own DNS, and a sink for each MX host. */
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { deliveryRig, type Rig, type RigOptions } from './delivery-rig.ts';
import { type FakeDns, fakeDns } from './fake-dns.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from './smtp-sink.ts';

export interface MxRig {
  rig: Rig;
  dns: FakeDns;
  /** By name, in the given order. */
  sinks: Record<string, SmtpSink>;
  /** Points the MX records of these domains to the sink with that name. */
  serve(name: string, domains: string[]): void;
  /** Adds this MX host to the domains, with a preference (default 10), served by the sink with that name. */
  exchange(name: string, exchanger: string, domains: string[], preference?: number): void;
  close(): Promise<void>;
}

/** Starts sinks by name; each has its own address, all have the same port. */
export async function mxRig(sinks: Record<string, SinkOptions>, options: RigOptions = {}): Promise<MxRig> {
  const dns = await fakeDns({});
  const resolver = openDns({ servers: [dns.server], timeoutMs: 30_000, tries: 1 });
  const allowed = parseCidrs('127.0.0.0/8');
  if (!allowed.ok) throw new Error('invalid loopback range');
  const started: Record<string, SmtpSink> = {};
  let port = 0;
  for (const [index, [name, sink]] of Object.entries(sinks).entries()) {
    started[name] = await smtpSink({ host: `127.0.0.${index + 2}`, port, ...sink });
    port = started[name].port;
  }
  const rig = await deliveryRig({
    ...options,
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: port, mxAllow: allowed.cidrs, ...options.routing },
  });
  return {
    rig,
    dns,
    sinks: started,
    serve: (name, domains) => {
      for (const domain of domains) dns.zone[domain] = { A: [started[name]!.host] };
    },
    exchange: (name, exchanger, domains, preference = 10) => {
      dns.zone[exchanger] = { A: [started[name]!.host] };
      for (const domain of domains) {
        const known = dns.zone[domain]?.MX ?? [];
        dns.zone[domain] = { MX: [...known, [preference, exchanger]] };
      }
    },
    close: async () => {
      await rig.close();
      resolver.close();
      await Promise.all([dns.close(), ...Object.values(started).map((sink) => sink.close())]);
    },
  };
}
