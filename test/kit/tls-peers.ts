/**
 * Fourteen receivers with good and bad TLS, each with its own domain, MX host and address, all on one port: the receivers of TLS tests, of
 * Postrider and of other servers as sender. A peer defines the expected result of a message without TLS requirements, with required
 * encryption, and with a required valid certificate.
 */
import { freePort } from './free-ports.ts';
import { type SinkOptions, type SmtpSink, smtpSink } from './smtp-sink.ts';
import { expiredCertificate, type TestCertificate, testCertificate } from './test-certificate.ts';

/** Delivered encrypted, delivered unencrypted, or not sent. */
export type Fate = 'encrypted' | 'clear' | 'waits';

export interface TlsPeer {
  name: string;
  /** The recipients' domain. */
  domain: string;
  exchanger: string;
  address: string;
  /** By requireTls. */
  fates: { false: Fate; true: Fate; verified: Fate };
  /** Why a message was sent unencrypted although TLS was offered. */
  fallback: RegExp | undefined;
  /** Its certificate if TLS works; undefined if it offers none. */
  certificate: TestCertificate | undefined;
  sink: SmtpSink;
}

const exchangerOf = (name: string): string => `mx.${name}.example`;
const GOOD = { false: 'encrypted', true: 'encrypted', verified: 'encrypted' } as const;
const UNPROVEN = { false: 'encrypted', true: 'encrypted', verified: 'waits' } as const;
const BROKEN = { false: 'clear', true: 'waits', verified: 'waits' } as const;
const NEVER = { false: 'waits', true: 'waits', verified: 'waits' } as const;

/** Returns what a client of these receivers must trust, so that only names and dates can be wrong. */
export function trustedCertificates(): string[] {
  return [testCertificate([exchangerOf('valid')]), expiredCertificate(exchangerOf('expired')), wrongName()].map(
    (one) => one.cert,
  );
}

function wrongName() {
  return testCertificate(['mx.somewhere-else.example']);
}

function peersToStart(): [name: string, fates: TlsPeer['fates'], options: SinkOptions, fallback?: RegExp][] {
  const starttls = { tls: 'starttls' } as const;
  return [
    ['valid', GOOD, { ...starttls, certificate: testCertificate([exchangerOf('valid')]) }],
    ['self-signed', UNPROVEN, { ...starttls, certificate: testCertificate([exchangerOf('self-signed')]) }],
    ['wrong-name', UNPROVEN, { ...starttls, certificate: wrongName() }],
    ['expired', UNPROVEN, { ...starttls, certificate: expiredCertificate(exchangerOf('expired')) }],
    ['without', BROKEN, {}],
    ['old', BROKEN, { ...starttls, oldTls: true }, /outdated TLS versions/],
    ['alert', BROKEN, { ...starttls, script: { starttls: { handshake: 'alert' } } }, /no TLS cipher/],
    ['reset', BROKEN, { ...starttls, script: { starttls: { handshake: 'reset' } } }, /closed/],
    ['stalled', BROKEN, { ...starttls, script: { starttls: { handshake: 'stalled' } } }, /no TLS handshake within/],
    ['garbage', BROKEN, { ...starttls, script: { starttls: { handshake: 'garbage' } } }, /not TLS/],
    ['s454', BROKEN, { ...starttls, script: { starttls: '454 4.7.0 TLS not available' } }, /rejects it: 454 4\.7\.0/],
    ['s502', BROKEN, { ...starttls, script: { starttls: '502 5.5.1 no such command' } }, /rejects it: 502 5\.5\.1/],
    ['s554', BROKEN, { ...starttls, script: { starttls: '554 5.7.3 not here' } }, /rejects it: 554 5\.7\.3/],
    ['injected', NEVER, { ...starttls, script: { starttls: { inject: '250 injected\r\n' } } }],
  ];
}

export async function startTlsPeers(): Promise<{ port: number; peers: TlsPeer[]; close(): Promise<void> }> {
  const port = await freePort();
  const peers: TlsPeer[] = [];
  for (const [name, fates, options, fallback] of peersToStart()) {
    const address = `127.0.1.${peers.length + 1}`;
    const sink = await smtpSink({ ...options, host: address, port });
    const certificate = options.tls && (options.certificate ?? testCertificate());
    const named = { name, domain: `${name}.example`, exchanger: exchangerOf(name), address };
    peers.push({ ...named, fates, fallback, certificate, sink });
  }
  const close = async (): Promise<void> => {
    for (const { sink } of peers) await sink.close();
  };
  return { port, peers, close };
}

/** Returns what the receiver saw of the message to this address. */
export function fateAt(peer: TlsPeer, recipient: string): Fate {
  const arrived = peer.sink.messages.filter((one) => one.to.includes(recipient));
  if (arrived.length > 1) throw new Error(`${recipient} arrived ${arrived.length} times`);
  if (arrived.length === 0) return 'waits';
  return arrived[0]!.tls === undefined ? 'clear' : 'encrypted';
}
