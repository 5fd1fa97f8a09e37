/**
 * Self-signed certificates created on demand by the openssl command line; each set of names once per process, valid for two days by
 * default.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export interface TestCertificate {
  /** PEM. */
  key: string;
  /** PEM; clients must trust it. */
  cert: string;
}

const made = new Map<string, TestCertificate>();

function subjectAltName(name: string): string {
  return /^[\d.]+$/.test(name) || name.includes(':') ? `IP:${name}` : `DNS:${name}`;
}

function openssl(args: string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' });
}

type Files = Record<'key' | 'cert' | 'request', string>;

function inFolder(id: string, make: (files: Files) => void): TestCertificate {
  const known = made.get(id);
  if (known) return known;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-cert-'));
  try {
    const at = (name: string): string => path.join(folder, name);
    const files = { key: at('key.pem'), cert: at('cert.pem'), request: at('request.pem') };
    make(files);
    const certificate = { key: readFileSync(files.key, 'utf8'), cert: readFileSync(files.cert, 'utf8') };
    made.set(id, certificate);
    return certificate;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns an expired certificate for this name. */
export function expiredCertificate(name: string): TestCertificate {
  return inFolder(`expired ${name}`, ({ key, cert, request }) => {
    const asked = [
      'req',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-subj',
      `/CN=${name}`,
    ];
    openssl([...asked, '-addext', `subjectAltName=${subjectAltName(name)}`, '-keyout', key, '-out', request]);
    openssl(['x509', '-req', '-in', request, '-signkey', key, '-days', '-1', '-copy_extensions', 'copy', '-out', cert]);
  });
}

export interface IssuedCertificate extends TestCertificate {
  /** PEM of the issuer, which also follows the certificate in `cert`. */
  issuer: string;
}

/** Returns a certificate for this name from its own authority; with `expired`, an expired one. */
export function issuedCertificate(name: string, options: { expired?: boolean } = {}): IssuedCertificate {
  const { expired = false } = options;
  const authority = inFolder(`authority of ${name} ${expired}`, ({ key, cert }) => {
    const asked = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    openssl([...asked, '-subj', `/CN=authority of ${name}`, '-keyout', key, '-out', cert]);
  });
  const made = inFolder(`issued ${name} ${expired}`, ({ key, cert, request }) => {
    const [caKey, caCert] = [`${key}.ca`, `${cert}.ca`];
    writeFileSync(caKey, authority.key);
    writeFileSync(caCert, authority.cert);
    const asked = [
      'req',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-subj',
      `/CN=${name}`,
    ];
    openssl([...asked, '-addext', `subjectAltName=${subjectAltName(name)}`, '-keyout', key, '-out', request]);
    const signing = ['x509', '-req', '-in', request, '-CA', caCert, '-CAkey', caKey, '-copy_extensions', 'copy'];
    openssl([...signing, '-days', expired ? '-1' : '2', '-out', cert]);
  });
  return { key: made.key, cert: made.cert + authority.cert, issuer: authority.cert };
}

/** Returns a certificate for these DNS names and IP addresses. Throws if openssl is not installed. */
export function testCertificate(names: string[] = ['localhost', '127.0.0.1', '::1'], days = 2): TestCertificate {
  return inFolder(`${names} ${days}`, ({ key, cert }) => {
    const asked = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
    asked.push('-days', String(days));
    const subject = ['-subj', `/CN=${names[0]}`, '-addext', `subjectAltName=${names.map(subjectAltName).join(',')}`];
    openssl([...asked, ...subject, '-keyout', key, '-out', cert]);
  });
}
