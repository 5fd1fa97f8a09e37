/**
 * Self-signed certificates made when a test asks, by the openssl command line; each set of names once per process, valid for two days.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export interface TestCertificate {
  /** PEM. */
  key: string;
  /** PEM; also what a client must trust. */
  cert: string;
}

const made = new Map<string, TestCertificate>();

function subjectAltName(name: string): string {
  return /^[\d.]+$/.test(name) || name.includes(':') ? `IP:${name}` : `DNS:${name}`;
}

/** A certificate for these DNS names and IP addresses. Throws when openssl is not installed. */
export function testCertificate(names: string[] = ['localhost', '127.0.0.1', '::1']): TestCertificate {
  const known = made.get(names.join());
  if (known) return known;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-cert-'));
  try {
    const key = path.join(folder, 'key.pem');
    const cert = path.join(folder, 'cert.pem');
    const request = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ];
    const subject = ['-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${names.map(subjectAltName).join(',')}`];
    execFileSync('openssl', [...request, ...subject, '-keyout', key, '-out', cert], { stdio: 'pipe' });
    const certificate = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') };
    made.set(names.join(), certificate);
    return certificate;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
