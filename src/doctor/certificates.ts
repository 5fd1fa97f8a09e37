/**
 * Certificates, with the days that they have left: that of SMTP by its file, that of the public address as those who connect get it,
 * together with whether it is this service that answers there.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import type { Config } from '../config.ts';
import type { Dns } from '../net/dns.ts';
import { dataDirectory } from '../storage/data-directory.ts';
import { type Check, days, fail, ok, warn } from './check.ts';

/** Less than this, and whatever renews it has failed several times. */
const WARN_BEFORE_MS = 14 * 86_400_000;
/** What SMTP makes for itself where no files are named. */
const OWN_FILE = 'smtp-tls.pem';

interface Subject {
  name: string;
  /** What the certificate is for, as it begins the sentence. */
  where: string;
  host: string;
  remedy: string;
}

function checkCertificate(certificate: X509Certificate, { name, where, host, remedy }: Subject, nowMs: number): Check {
  const leftMs = Date.parse(certificate.validTo) - nowMs;
  if (leftMs <= 0) return fail(name, `${where}: expired ${days(-leftMs)} ago`, remedy);
  if (Date.parse(certificate.validFrom) > nowMs) {
    return fail(name, `${where}: not valid before ${certificate.validFrom}`, 'Check the clock of this machine.');
  }
  const fits = isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host);
  if (fits === undefined) return fail(name, `${where}: it is not valid for ${host}, so clients reject it`, remedy);
  const left = `valid for ${days(leftMs)}`;
  return leftMs < WARN_BEFORE_MS ? warn(name, `${where}: ${left}`, remedy) : ok(name, `${where}: ${left}`);
}

/** Of SMTP submission: the file of the setting, or the one that was made where there is none. One that is ordered is looked at elsewhere. */
export function checkSmtpCertificate(config: Config, nowMs: number): Check[] {
  const { roles, smtpTlsCert, smtpHostname, acmeEmail } = config;
  const name = 'SMTP certificate';
  if (!roles.includes('smtp') || (acmeEmail !== undefined && smtpTlsCert === undefined)) return [];
  const remedy =
    'Set POSTRIDER_ACME_EMAIL, or set POSTRIDER_SMTP_TLS_CERT and POSTRIDER_SMTP_TLS_KEY to a certificate of a public authority.';
  const own = path.join(dataDirectory(config.dataDir).path, OWN_FILE);
  try {
    const certificate = new X509Certificate(readFileSync(smtpTlsCert ?? own));
    if (smtpTlsCert === undefined) return [warn(name, 'self-signed: clients cannot verify it', remedy)];
    const where = smtpTlsCert;
    return [checkCertificate(certificate, { name, where, host: smtpHostname, remedy: `Renew ${where}.` }, nowMs)];
  } catch (error) {
    // It is made at the first start.
    if (smtpTlsCert === undefined && (error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    return [fail(name, `${smtpTlsCert ?? own} cannot be read: ${(error as Error).message}`, remedy)];
  }
}

const ANSWER_MS = 5_000;
const MAX_ANSWER_BYTES = 1_000;

interface Answered {
  text: string;
  certificate: X509Certificate | undefined;
  /** Why a client does not trust it. */
  distrust: string | undefined;
}

/** Asks for /health at the public address, whatever its certificate; rejects when nothing answers. */
function askHealth(baseUrl: string, lookup: LookupFunction): Promise<Answered> {
  const send = baseUrl.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const options = { agent: false, lookup, rejectUnauthorized: false, signal: AbortSignal.timeout(ANSWER_MS) };
    const request = send(`${baseUrl}/health`, options, (response) => {
      const socket = response.socket as TLSSocket;
      const certificate = socket.encrypted ? socket.getPeerX509Certificate() : undefined;
      const { authorizationError } = socket;
      const distrust = authorizationError
        ? String((authorizationError as { code?: string }).code ?? authorizationError)
        : undefined;
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
        if (text.length > MAX_ANSWER_BYTES) response.destroy();
      });
      response.once('close', () => resolve({ text, certificate, distrust }));
    });
    request.once('error', reject).end();
  });
}

/** The addresses of a name, as the settings say where names are looked up. */
export function lookupBy(dns: Dns): LookupFunction {
  return (host, { all }, callback) => {
    void dns.lookupHost(host).then((answer) => {
      const addresses = answer.status === 'found' ? answer.value : [];
      const [first] = addresses;
      if (first === undefined) {
        const cause = answer.status === 'temporary' ? answer.cause : 'ENOTFOUND';
        callback(Object.assign(new Error(cause), { code: cause }), '', 0);
      } else if (all) {
        callback(
          null,
          addresses.map((address) => ({ address, family: isIP(address) })),
        );
      } else {
        callback(null, first, isIP(first));
      }
    });
  };
}

/** Whether the public address leads to this service, and how long its certificate is good for. */
export async function checkPublicAddress({ roles, baseUrl }: Config, dns: Dns, nowMs: number): Promise<Check[]> {
  const name = 'public address';
  if (!roles.includes('api') || baseUrl === undefined) return [];
  const remedy = 'Check the reverse proxy, DNS and the firewall; see docs/guides/go-live.md.';
  let answered: Answered;
  try {
    answered = await askHealth(baseUrl, lookupBy(dns));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const cause = (error as Error).name === 'AbortError' ? `no answer within ${ANSWER_MS / 1000} s` : (code ?? message);
    return [warn(name, `${baseUrl} cannot be reached from here: ${cause}`, remedy)];
  }
  const { text, certificate, distrust } = answered;
  const checks = /^\{"status":"ok"\}\s*$/.test(text)
    ? [ok(name, `${baseUrl} points to this service`)]
    : [fail(name, `${baseUrl}/health is answered by another server`, remedy)];
  if (certificate === undefined) return checks;
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, '');
  const renew = 'Renew the certificate where TLS is terminated, most likely at the reverse proxy.';
  const found = checkCertificate(certificate, { name: 'certificate', where: baseUrl, host, remedy: renew }, nowMs);
  const isTrusted = distrust === undefined || found.status === 'fail';
  return [
    ...checks,
    isTrusted ? found : fail('certificate', `${baseUrl}: clients do not trust it (${distrust})`, renew),
  ];
}
