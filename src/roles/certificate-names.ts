/** The host names to order certificates for, from the settings. */
import { isIP } from 'node:net';
import { type Config, ConfigError, settings } from '../config.ts';

/** Returns the host names that clients verify at this process's TLS ports. */
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

/** Throws an error for the operator if no authority would ever issue a certificate for a name. */
export function assertPublicNames(config: CertificateSettings): void {
  for (const [{ name }, host] of namesBySetting(config)) {
    if (isPublicName(host)) continue;
    const given = host === '' ? `${name} is not set` : `${name} names ${JSON.stringify(host)}`;
    throw new ConfigError(
      `${given}, and POSTRIDER_ACME_EMAIL needs a public name there to order a certificate for; allowed: a host name such as mail.example.com`,
    );
  }
}

/** Returns whether a public authority can issue a certificate for the name. */
function isPublicName(host: string): boolean {
  return host.includes('.') && isIP(host.replace(/^\[|\]$/g, '')) === 0 && /[a-z]/i.test(host.split('.').at(-1)!);
}
