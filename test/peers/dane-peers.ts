/**
 * Servers with each kind of certificate and TLSA records (RFC 7672), in zones signed by Knot and validated by Unbound: the receivers of the
 * DANE tests, for Postrider and for other senders. Each has its own domain, MX host, address, and records.
 */
import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { silentLog } from '../../src/base/log.ts';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { openTlsPolicies } from '../../src/tls-policy/tls-policy.ts';
import { deliveryRig } from '../kit/delivery-rig.ts';
import { freePort } from '../kit/free-ports.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import {
  expiredCertificate,
  issuedCertificate,
  type TestCertificate,
  testCertificate,
} from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PrivateDns, startPrivateDns } from './private-dns.ts';

export type Fate = 'encrypted' | 'clear' | 'waits';
type Record = [usage: number, selector: number, matching: number, pem: string];

interface DanePeer {
  name: string;
  fate: Fate;
  /** Undefined if it offers no STARTTLS. */
  certificate?: TestCertificate;
  records?: Record[];
  /** Additional lines of the zone. */
  lines?: (port: number) => string[];
  exchanger?: string;
  reply?: RegExp;
  policy?: string;
}

const mx = (name: string): string => `mx-${name}.good.test`;
const own = (name: string): TestCertificate => testCertificate([mx(name)]);
const another = testCertificate(['other.example']);
const issued = (name: string) => issuedCertificate(mx(name));

function peers(): DanePeer[] {
  const policy = 'dane';
  const fits = (name: string, record: [number, number, number], certificate = own(name)): DanePeer => ({
    name,
    fate: 'encrypted',
    policy,
    certificate,
    records: [[...record, certificate.cert]],
  });
  const byIssuer = (name: string, record: [number, number, number]): DanePeer => ({
    name,
    fate: 'encrypted',
    policy,
    certificate: issued(name),
    records: [[...record, issued(name).issuer]],
  });
  return [
    fits('key256', [3, 1, 1]),
    fits('key512', [3, 1, 2]),
    fits('cert256', [3, 0, 1]),
    fits('cert512', [3, 0, 2]),
    fits('cert', [3, 0, 0]),
    fits('old', [3, 1, 1], expiredCertificate(mx('old'))),
    fits('name', [3, 1, 1], another),
    byIssuer('issuer-key', [2, 1, 1]),
    byIssuer('issuer-cert', [2, 0, 1]),
    byIssuer('issuer-512', [2, 0, 2]),
    {
      ...fits('rollover', [3, 1, 1]),
      records: [
        [3, 1, 1, another.cert],
        [3, 1, 1, own('rollover').cert],
      ],
    },
    {
      ...fits('other-key', [3, 1, 1]),
      fate: 'waits',
      records: [[3, 1, 1, another.cert]],
      reply: /do not match the certificate of mx-other-key\.good\.test/,
    },
    {
      ...fits('other-issuer', [2, 0, 1], issued('other-issuer')),
      fate: 'waits',
      records: [[2, 1, 1, another.cert]],
      reply: /do not match the certificate of /,
    },
    {
      ...byIssuer('issuer-name', [2, 0, 1]),
      fate: 'waits',
      certificate: issuedCertificate('other.example'),
      records: [[2, 0, 1, issuedCertificate('other.example').issuer]],
      reply: /require a certificate for mx-issuer-name\.good\.test, but the certificate is for other\.example/,
    },
    {
      ...byIssuer('issuer-old', [2, 0, 1]),
      fate: 'waits',
      certificate: issuedCertificate(mx('issuer-old'), { expired: true }),
      records: [[2, 0, 1, issuedCertificate(mx('issuer-old'), { expired: true }).issuer]],
      reply: /has expired/,
    },
    {
      name: 'stripped',
      fate: 'waits',
      policy,
      records: [[3, 1, 1, another.cert]],
      reply: /DANE policy of mx-stripped\.good\.test requires TLS; .*STARTTLS/,
    },
    { name: 'unusable', fate: 'encrypted', policy, certificate: another, records: [[1, 1, 1, own('unusable').cert]] },
    { name: 'unusable-clear', fate: 'waits', policy, records: [[0, 0, 1, another.cert]], reply: /requires TLS/ },
    { name: 'no-records', fate: 'clear', policy: 'opportunistic' },
    {
      name: 'alias',
      fate: 'encrypted',
      policy,
      certificate: own('behind'),
      exchanger: 'alias-of.good.test',
      lines: (port) => ['alias-of CNAME mx-alias', `_${port}._tcp.mx-alias ${tlsa([3, 1, 1, own('behind').cert])}`],
    },
    {
      name: 'withheld',
      fate: 'waits',
      certificate: own('withheld'),
      // The zone has invalid signatures: someone may be withholding the records.
      lines: (port) => [`_${port}._tcp.mx-withheld CNAME records.bogus.test.`],
      reply: /cannot tell whether DANE requires TLS for mx-withheld\.good\.test/,
    },
  ];
}

/** A record of a zone file. */
export function tlsa([usage, selector, matching, pem]: Record): string {
  const { raw, publicKey } = new X509Certificate(pem);
  const selected = selector === 0 ? raw : publicKey.export({ type: 'spki', format: 'der' });
  const digest = [undefined, 'sha256', 'sha512'][matching];
  const data = digest ? createHash(digest).update(selected).digest() : selected;
  return `TLSA ${usage} ${selector} ${matching} ${data.toString('hex')}`;
}

export interface DanePeers {
  port: number;
  peers: (DanePeer & { sink: SmtpSink })[];
  zones: PrivateDns;
  close(): Promise<void>;
}

/** Starts the servers and the DNS; at `resolverAddress` the resolver also listens on port 53. */
export async function startDanePeers(options: { resolverAddress?: string } = {}): Promise<DanePeers> {
  const port = await freePort();
  const records: string[] = [];
  const started: DanePeers['peers'] = [];
  for (const [index, peer] of peers().entries()) {
    const { name, certificate, records: tlsas = [], lines, exchanger } = peer;
    const address = `127.0.3.${index + 1}`;
    const host = `mx-${name}`;
    records.push(`${name} MX 10 ${exchanger ? `${exchanger}.` : host}`, `${host} A ${address}`);
    records.push(...tlsas.map((one) => `_${port}._tcp.${host} ${tlsa(one)}`), ...(lines?.(port) ?? []));
    const tls = certificate ? ({ tls: 'starttls', certificate } as const) : {};
    started.push({ ...peer, sink: await smtpSink({ ...tls, host: address, port }) });
  }
  // An unsigned zone can claim anything.
  const unsigned = ['@ MX 10 mx', 'mx A 127.0.3.1', `_${port}._tcp.mx ${tlsa([3, 1, 1, another.cert])}`];
  const bogus = ['@ MX 10 mx', 'mx A 127.0.3.1', `records TLSA 3 1 1 ${'0'.repeat(64)}`];
  const zones = await startPrivateDns(
    {
      'good.test': { signed: 'nsec3', records },
      'bogus.test': { signed: 'nsec', records: bogus, bogus: true },
      'plain.test': { records: unsigned },
    },
    options,
  );
  const close = async (): Promise<void> => {
    await zones.close();
    for (const { sink } of started) await sink.close();
  };
  return { port, peers: started, zones, close };
}

/** A Postrider delivery that uses this resolver. */
export async function daneRig(server: string, port: number) {
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const allow = allowed.cidrs;
  const dns = openDns({ servers: [server] });
  let policies: ReturnType<typeof openTlsPolicies>;
  const rig = await deliveryRig({
    deps: { timeouts: { tlsMs: 5_000 } },
    routing: {
      route: { kind: 'mx' },
      dns,
      mxPort: port,
      mxAllow: allow,
      policies: { ofDomain: (domain) => policies.ofDomain(domain) },
    },
  });
  policies = openTlsPolicies({ database: rig.storage.database, dns, clock: { now: Date.now }, log: silentLog, allow });
  return {
    rig,
    outcomeOf: async (to: string, requireTls: boolean | 'verified' = false) => {
      const [id] = await rig.send({ to: [to], options: { requireTls } });
      const event = await waitUntil(`an outcome for ${to}`, () => rig.events(id!).find((one) => one.type !== 'Send'));
      const attempt = rig.attempts(id!).at(-1) as unknown as { [field: string]: string | null };
      return { type: event.type, attempt, detail: Object.values(event.detail)[0]! };
    },
    close: async () => {
      await rig.close();
      await policies.stop();
      dns.close();
    },
  };
}

export const mailAt = (sink: SmtpSink): number => sink.commands.filter((line) => line.startsWith('MAIL')).length;

export function fateAt(sink: SmtpSink, recipient: string): Fate {
  const arrived = sink.messages.filter((one) => one.to.includes(recipient));
  assert.ok(arrived.length <= 1, `${recipient} arrived ${arrived.length} times`);
  return arrived.length === 0 ? 'waits' : arrived[0]!.tls === undefined ? 'clear' : 'encrypted';
}
