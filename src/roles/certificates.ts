/**
 * The certificates of the TLS ports (SMTP, HTTPS): the configured files, which serve both; else one per name that the service orders and
 * renews (ACME); until there is one, self-signed. Also reports the certificates in use and their problems.
 */
import { type Acme, type AcmeOptions, type CertificateRow, certificatesOperation, createAcme } from '../acme/acme.ts';
import { iso } from '../base/clock.ts';
import { type Running, stopAll } from '../base/lifecycle.ts';
import { type Config, VERSION } from '../config.ts';
import type { Check } from '../doctor/doctor.ts';
import type { TrackingHosts } from '../domains/domains.ts';
import { openTlsIdentity, type TlsFiles, type TlsIdentity } from '../smtp/smtp.ts';
import type { Database } from '../storage/database.ts';
import { certificateNames } from './certificate-names.ts';
import type { Parts } from './parts.ts';

export interface Certificates extends Running {
  /** Undefined if this process does not open the port. */
  smtp: TlsIdentity | undefined;
  https: TlsIdentity | undefined;
  /** Rereads the certificate files now instead of within two seconds. */
  reload(): void;
  /** Starts ordering and renewing, once the port for the authority's requests is open. */
  start(): void;
}

type Port = 'smtp' | 'https';

/** Loads the certificates in the database. Files are already checked. */
export async function openCertificates(
  parts: Parts,
  { files, trackingHosts }: { files: TlsFiles | undefined; trackingHosts: Pick<TrackingHosts, 'names'> },
): Promise<Certificates> {
  const { config, clock, log, directory } = parts;
  const identities = new Map<Port, { hostname: string; identity: TlsIdentity }>();
  const opened: Running[] = [];
  const add = (port: Port, hostname: string): void => {
    const identity = openTlsIdentity({ files, folder: directory.path, port, hostname, clock, log });
    identities.set(port, { hostname, identity });
    opened.push(identity);
  };
  try {
    if (config.roles.includes('smtp') || config.roles.includes('inbound')) add('smtp', config.smtpHostname);
    if (config.roles.includes('api') && config.httpsPort !== undefined) add('https', httpsName(config));
    const acme = createOrders(parts, {
      // Tracked links only use the HTTP port.
      further: () => (identities.has('https') ? trackingHosts.names() : []),
      onCertificate: (name, certificate) => {
        const bearers = [...identities.values()].filter(({ hostname }) => hostname === name);
        for (const { identity } of bearers) identity.use(certificate);
        if (bearers.length === 0) identities.get('https')?.identity.useFor(name, certificate);
      },
    });
    if (acme) opened.push(acme);
    await acme?.load();
    measure(parts, identities, acme);
    return {
      smtp: identities.get('smtp')?.identity,
      https: identities.get('https')?.identity,
      start: () => acme?.start(),
      reload: () => {
        for (const { identity } of identities.values()) identity.reload();
      },
      stop: () => stopAll(opened),
    };
  } catch (error) {
    await stopAll(opened);
    throw error;
  }
}

function httpsName({ baseUrl, smtpHostname }: Config): string {
  return baseUrl === undefined ? smtpHostname : new URL(baseUrl).hostname;
}

/** Returns undefined if no certificate is to be ordered. */
function createOrders(
  parts: Parts,
  { further, onCertificate }: { further(): string[]; onCertificate: AcmeOptions['onCertificate'] },
): Acme | undefined {
  const { config, database, clock, log, secretKey } = parts;
  const names = certificateNames(config);
  if (config.acmeEmail === undefined) return undefined;
  if (names.length === 0) {
    if (config.smtpTlsCert !== undefined) log.warn('POSTRIDER_ACME_EMAIL is ignored because PEM files are set');
    return undefined;
  }
  return createAcme({
    database,
    clock,
    log,
    secretKey,
    onCertificate,
    names: () => [...new Set([...names, ...further()])],
    directory: config.acmeDirectory,
    email: config.acmeEmail,
    userAgent: `postrider/${VERSION}`,
  });
}

function measure(
  { metrics, clock }: Parts,
  identities: ReadonlyMap<Port, { hostname: string; identity: TlsIdentity }>,
  acme: Acme | undefined,
): void {
  const expiry = {
    name: 'postrider_certificate_expiry_seconds',
    help: 'Time until the certificate of a port expires.',
  };
  metrics.readGaugeFrom(expiry, () =>
    [...identities].map(([port, { hostname, identity }]) => {
      const { source, expiresAtMs } = identity.shown();
      return { labels: { port, name: hostname, source }, value: (expiresAtMs - clock.now()) / 1_000 };
    }),
  );
  const failed = {
    name: 'postrider_certificate_failed_orders',
    help: 'Certificate orders that failed since the last successful one.',
  };
  metrics.readGaugeFrom(failed, () =>
    (acme?.failures() ?? []).map(({ name, failures }) => ({ labels: { name }, value: failures })),
  );
}

/** Reports the ordered certificates to the operator; returns no checks without any. */
export async function checkCertificates(config: Config, database: Database, nowMs: number): Promise<Check[]> {
  const names = certificateNames(config);
  if (names.length === 0) return [];
  const rows = await database.execute(certificatesOperation, config.acmeDirectory);
  return names.map((name) =>
    checkCertificate(
      name,
      rows.find((row) => row.name === name),
      nowMs,
    ),
  );
}

function checkCertificate(host: string, row: CertificateRow | undefined, nowMs: number): Check {
  const name = `certificate ${host}`;
  const expiresAt = row?.expiresAt ?? undefined;
  const isGood = expiresAt !== undefined && expiresAt > nowMs;
  const state = expiresAt === undefined ? 'none yet' : `${isGood ? 'valid until' : 'expired at'} ${iso(expiresAt)}`;
  if (row === undefined || row.error === null || row.error === undefined) {
    if (isGood) return { name, status: 'ok', message: `${state}, renewed from ${iso(row!.nextAt)}` };
    return {
      name,
      status: 'warn',
      message: `${state}; the first order is in progress`,
      remedy: 'Check again in a minute.',
    };
  }
  return {
    name,
    status: isGood ? 'warn' : 'fail',
    message: `${state}; the last order failed: ${row.error}. The next order is at ${iso(row.nextAt)}`,
    remedy: `http://${host}/.well-known/acme-challenge/ on port 80 must reach the HTTP port of this service; see docs/guides/certificates.md.`,
  };
}
