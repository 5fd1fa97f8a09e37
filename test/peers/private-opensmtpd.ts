/**
 * A private OpenSMTPD for a test, listening on one loopback port, which relays the mail of one domain. Its paths are fixed at compile time,
 * so it runs in its own mount namespace, in which they are empty in-memory directories.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../kit/free-ports.ts';
import { missing, notAllowed } from '../kit/requirements.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { peerFolder, startPeer } from './peer-process.ts';
import { missingUnpacked, unpacked } from './unpacked-peers.ts';

const PROGRAM = 'usr/sbin/smtpd';

const needs = { programs: [PROGRAM], users: ['opensmtpd', 'opensmtpq'] };

export const noOpenSmtpd = (): string | false =>
  missingUnpacked(needs) ||
  missing('unshare') ||
  notAllowed('mount file systems', () => void execFileSync('unshare', ['--mount', 'true'], { stdio: 'pipe' }));

export interface PrivateOpenSmtpd {
  port: number;
  log(): string;
  stop(): Promise<void>;
}

export async function startOpenSmtpd(options: {
  domain: string;
  /** The port of its relay. */
  relayPort: number;
  /** The port for its bounces to addresses of a domain. */
  bounces?: { domain: string; port: number };
  /** It offers STARTTLS. */
  tls?: boolean;
  /** Lines of `filter …`, and the names of the active ones. */
  filters?: { lines: string[]; chain: string[] };
}): Promise<PrivateOpenSmtpd> {
  const { domain, relayPort, bounces, tls = false, filters } = options;
  const folder = peerFolder('opensmtpd');
  const at = (name: string): string => path.join(folder, name);
  const port = await freePort();
  const { key, cert } = testCertificate([`mx1.${domain}`]);
  writeFileSync(at('key.pem'), key, { mode: 0o600 });
  writeFileSync(at('cert.pem'), cert);
  const chain = filters ? ` filter { ${filters.chain.map((name) => `"${name}"`).join(', ')} }` : '';
  const lines = [
    ...(tls ? [`pki "peer" cert "${at('cert.pem')}"`, `pki "peer" key "${at('key.pem')}"`] : []),
    ...(filters?.lines ?? []),
    `listen on 127.0.0.1 port ${port}${tls ? ' tls pki "peer"' : ''} hostname mx1.${domain}${chain}`,
    `action "on" relay host smtp://127.0.0.1:${relayPort}`,
    ...(bounces ? [`action "back" relay host smtp://127.0.0.1:${bounces.port}`] : []),
    `match from any for domain "${domain}" action "on"`,
    ...(bounces ? [`match from any for domain "${bounces.domain}" action "back"`] : []),
    '',
  ];
  writeFileSync(at('smtpd.conf'), lines.join('\n'));
  const script = [
    'set -e',
    'for folder in /var/spool /var/lib /run; do mount -t tmpfs -o mode=755 tmpfs $folder; done',
    'mkdir -p -m 711 /var/spool/smtpd',
    'mkdir -p /var/lib/opensmtpd/empty',
    'exec "$0" -d -f "$1"',
  ].join('\n');
  const command = ['unshare', '--mount', 'sh', '-c', script, unpacked(PROGRAM), at('smtpd.conf')] as const;
  const { output, stop } = await startPeer([...command], { folder, port });
  return { port, log: output, stop };
}
