/** Checks settings against each other. Each error is one line for the operator. */
import {
  type BlobStoreAddress,
  ConfigError,
  type Role,
  type Route,
  shownValue,
  type WarmUpStart,
} from './config-values.ts';

interface Settings {
  roles: readonly Role[];
  inboundPort: number | undefined;
  smtpTlsCert: string | undefined;
  smtpTlsKey: string | undefined;
  oidcIssuer: string | undefined;
  oidcClientId: string | undefined;
  blobs: BlobStoreAddress;
  awsAccessKeyId: string | undefined;
  awsSecretAccessKey: string | undefined;
  route: Route;
  sourceAddresses: readonly string[];
  warmUp: readonly WarmUpStart[];
  bounceDomain: string | undefined;
  postmaster: string | undefined;
}

export function notValid(name: string, text: string, allowed: string): ConfigError {
  return new ConfigError(`${name}=${shownValue(name, text)} is not valid; allowed: ${allowed}`);
}

/** Throws a ConfigError for the first settings that conflict. */
export function assertTogether(config: Settings, environment: Record<string, string | undefined>): void {
  if (Boolean(config.smtpTlsCert) !== Boolean(config.smtpTlsKey)) {
    const [one, other] = config.smtpTlsCert ? ['CERT', 'KEY'] : ['KEY', 'CERT'];
    const given = `POSTRIDER_SMTP_TLS_${one}=${JSON.stringify(config.smtpTlsCert ?? config.smtpTlsKey)}`;
    throw new ConfigError(`${given} is set and POSTRIDER_SMTP_TLS_${other} is not; allowed: both or neither`);
  }
  if (config.oidcIssuer !== undefined && config.oidcClientId === undefined) {
    throw new ConfigError(
      'POSTRIDER_OIDC_CLIENT_ID is not set, but POSTRIDER_OIDC_ISSUER requires it; set both or neither',
    );
  }
  if (config.blobs.kind === 's3' && !(config.awsAccessKeyId && config.awsSecretAccessKey)) {
    const name = config.awsAccessKeyId ? 'AWS_SECRET_ACCESS_KEY' : 'AWS_ACCESS_KEY_ID';
    throw new ConfigError(`${name} is not set, but POSTRIDER_BLOB_URL=s3://… requires it; set both AWS variables`);
  }
  if (config.roles.includes('inbound') && config.inboundPort === undefined) {
    throw new ConfigError(
      'POSTRIDER_INBOUND_PORT is not set, but the role inbound in POSTRIDER_ROLES requires it; set it (25 in production), or remove the role',
    );
  }
  if (config.bounceDomain !== undefined && domainOf(config.postmaster) === config.bounceDomain) {
    throw notValid(
      'POSTRIDER_POSTMASTER',
      config.postmaster ?? '',
      `an address outside ${config.bounceDomain}: Postrider receives the mail of that domain, so forwarding it there would create a loop`,
    );
  }
  assertWarmUp(config, environment.POSTRIDER_WARMUP ?? '');
}

const domainOf = (address: string | undefined): string | undefined => address?.split('@').at(-1);

function assertWarmUp({ warmUp, sourceAddresses, route: { kind } }: Settings, given: string): void {
  if (warmUp.length > 0 && kind === 'relay') {
    throw new ConfigError(
      `POSTRIDER_WARMUP=${JSON.stringify(given)} has no effect with a relay, because the relay's source addresses are used; remove it, or set POSTRIDER_ROUTE to mx`,
    );
  }
  const unknown = warmUp.find(({ address }) => address !== null && !sourceAddresses.includes(address));
  if (!unknown) return;
  throw notValid(
    'POSTRIDER_WARMUP',
    given,
    `addresses in POSTRIDER_SOURCE_ADDRESSES; ${unknown.address} is not one of them`,
  );
}
