/** Which host names certificates are ordered for, by the settings. */
import { isIP } from 'node:net';
import { type Config, ConfigError, settings } from '../config.ts';

/** Host names that certificates are ordered for: what clients verify at the ports of this process that speak TLS. */
export function certificateNames(config: CertificateSettings): string[] {
  return [...new Set(namesBySetting(config).map(([, name]) => name))];
}

type CertificateSettings = Pick<
  Config,
  'acmeEmail' | 'smtpTlsCert' | 'roles' | 'smtpHostname' | 'httpsPort' | 'baseUrl'
>;

type NamedBySetting = [setting: { name: string }, name: string];

function namesBySetting(config: CertificateSettings): NamedBySetting[] {
  const { acmeEmail, smtpTlsCert, roles, smtpHostname, httpsPort, baseUrl } = config;
  const found: NamedBySetting[] = [];
  if (acmeEmail === undefined || smtpTlsCert !== undefined) return found;
  if (roles.includes('smtp')) found.push([settings.smtpHostname, smtpHostname]);
  if (roles.includes('api') && httpsPort !== undefined) {
    found.push([settings.baseUrl, baseUrl === undefined ? '' : new URL(baseUrl).hostname]);
  }
  return found;
}

/** Throws the line for the operator when a name is one that no authority would ever issue a certificate for. */
export function assertPublicNames(config: CertificateSettings): void {
  for (const [{ name }, host] of namesBySetting(config)) {
    if (isPublicName(host)) continue;
    const given = host === '' ? `${name} is not set` : `${name} names ${JSON.stringify(host)}`;
    throw new ConfigError(
      `${given}, and POSTRIDER_ACME_EMAIL needs a public name there to order a certificate for; allowed: a host name such as mail.example.com`,
    );
  }
}

/** A name that a public authority can issue a certificate for. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host.replace(/^\[|\]$/g, '')) === 0 && /[a-z]/i.test(host.split('.').at(-1)!);
}
