/** Checks settings against each other. Each error is one line for the operator. */
import {
  type BlobStoreAddress,
  ConfigError,
  containerCredentialsUrl,
  type Role,
  type Route,
  serviceUrl,
  shownValue,
  type WarmUpStart,
} from './config-values.ts';

type Environment = Record<string, string | undefined>;

interface Settings {
  roles: readonly Role[];
  inboundPort: number | undefined;
  smtpTlsCert: string | undefined;
  smtpTlsKey: string | undefined;
  oidcIssuer: string | undefined;
  oidcClientId: string | undefined;
  blobs: BlobStoreAddress;
  backupUrl: BlobStoreAddress | undefined;
  backupBeforeUpgrade: 'on' | 'off';
  databaseUrl: object | undefined;
  awsAccessKeyId: string | undefined;
  awsSecretAccessKey: string | undefined;
  awsWebIdentityTokenFile: string | undefined;
  awsRoleArn: string | undefined;
  awsContainerRelativeUri: string | undefined;
  awsContainerFullUri: string | undefined;
  awsStsEndpoint: string | undefined;
  route: Route;
  sourceAddresses: readonly string[];
  warmUp: readonly WarmUpStart[];
  bounceDomain: string | undefined;
  postmaster: string | undefined;
}

export function notValid(name: string, text: string, allowed: string): ConfigError {
  return new ConfigError(`${name}=${shownValue(name, text)} is not valid; allowed: ${allowed}`);
}

/** Settings that restrict each other. */
interface Rule {
  reads: readonly (keyof Settings)[];
  problem(config: Settings, environment: Environment): ConfigError | undefined;
}

const RULES: readonly Rule[] = [
  {
    reads: ['smtpTlsCert', 'smtpTlsKey'],
    problem: ({ smtpTlsCert, smtpTlsKey }) => {
      if (Boolean(smtpTlsCert) === Boolean(smtpTlsKey)) return undefined;
      const [one, other] = smtpTlsCert ? ['CERT', 'KEY'] : ['KEY', 'CERT'];
      const given = `POSTRIDER_SMTP_TLS_${one}=${JSON.stringify(smtpTlsCert ?? smtpTlsKey)}`;
      return new ConfigError(`${given} is set and POSTRIDER_SMTP_TLS_${other} is not; allowed: both or neither`);
    },
  },
  {
    reads: ['oidcIssuer', 'oidcClientId'],
    problem: ({ oidcIssuer, oidcClientId }) => {
      if (oidcIssuer === undefined || oidcClientId !== undefined) return undefined;
      return new ConfigError(
        'POSTRIDER_OIDC_CLIENT_ID is not set, but POSTRIDER_OIDC_ISSUER requires it; set both or neither',
      );
    },
  },
  {
    reads: [
      ...(['blobs', 'backupUrl', 'awsAccessKeyId', 'awsSecretAccessKey', 'awsWebIdentityTokenFile'] as const),
      ...(['awsRoleArn', 'awsContainerRelativeUri', 'awsContainerFullUri', 'awsStsEndpoint'] as const),
    ],
    problem: ({ blobs, backupUrl, awsAccessKeyId, awsSecretAccessKey, ...sources }) => {
      const needsKeys = needsCredentials(blobs) ? 'BLOB' : needsCredentials(backupUrl) ? 'BACKUP' : undefined;
      if (needsKeys === undefined || (awsAccessKeyId && awsSecretAccessKey)) return undefined;
      const { awsWebIdentityTokenFile, awsRoleArn, awsContainerRelativeUri, awsContainerFullUri } = sources;
      if (!awsAccessKeyId && awsWebIdentityTokenFile && !awsRoleArn)
        return new ConfigError('AWS_ROLE_ARN is not set, but AWS_WEB_IDENTITY_TOKEN_FILE requires it; set both');
      const hasSource = awsWebIdentityTokenFile ?? awsContainerRelativeUri ?? awsContainerFullUri;
      if (!awsAccessKeyId && hasSource) return credentialSourceProblem(sources);
      const name = awsAccessKeyId ? 'AWS_SECRET_ACCESS_KEY' : 'AWS_ACCESS_KEY_ID';
      return new ConfigError(
        `${name} is not set, but POSTRIDER_${needsKeys}_URL=s3://… requires it; set both AWS variables, or use a role (docs/guides/s3.md)`,
      );
    },
  },
  {
    reads: ['backupUrl', 'databaseUrl'],
    problem: ({ backupUrl, databaseUrl }) => {
      if (backupUrl === undefined || databaseUrl === undefined) return undefined;
      return new ConfigError(
        'POSTRIDER_BACKUP_URL backs up the embedded database, but POSTRIDER_DATABASE_URL names a server; unset it, and back up the server with its own tools',
      );
    },
  },
  {
    reads: ['backupBeforeUpgrade', 'databaseUrl'],
    problem: ({ backupBeforeUpgrade, databaseUrl }) => {
      if (backupBeforeUpgrade === 'off' || databaseUrl === undefined) return undefined;
      return new ConfigError(
        'POSTRIDER_BACKUP_BEFORE_UPGRADE=on backs up the embedded database, but POSTRIDER_DATABASE_URL names a server; unset it, and back up the server with its own tools',
      );
    },
  },
  {
    reads: ['roles', 'inboundPort'],
    problem: ({ roles, inboundPort }) => {
      if (!roles.includes('inbound') || inboundPort !== undefined) return undefined;
      return new ConfigError(
        'POSTRIDER_INBOUND_PORT is not set, but the role inbound in POSTRIDER_ROLES requires it; set it (25 in production), or remove the role',
      );
    },
  },
  {
    reads: ['bounceDomain', 'postmaster'],
    problem: ({ bounceDomain, postmaster }) => {
      if (bounceDomain === undefined || postmaster?.split('@').at(-1) !== bounceDomain) return undefined;
      return notValid(
        'POSTRIDER_POSTMASTER',
        postmaster,
        `an address outside ${bounceDomain}: Postrider receives the mail of that domain, so forwarding it there would create a loop`,
      );
    },
  },
  { reads: ['warmUp', 'sourceAddresses', 'route'], problem: warmUpProblem },
];

/** Returns the conflicts between settings, without those that involve a setting of `wrong`, whose value is unknown. */
export function conflicts(
  config: Settings,
  { environment, wrong }: { environment: Environment; wrong: ReadonlySet<string> },
): ConfigError[] {
  return RULES.filter(({ reads }) => !reads.some((key) => wrong.has(key))).flatMap(
    ({ problem }) => problem(config, environment) ?? [],
  );
}

/** Checks the variables of the source of temporary credentials that is used. */
function credentialSourceProblem(sources: Partial<Settings>): ConfigError | undefined {
  const { awsWebIdentityTokenFile, awsStsEndpoint, awsContainerRelativeUri, awsContainerFullUri } = sources;
  const [name, value, check] = awsWebIdentityTokenFile
    ? (['AWS_ENDPOINT_URL_STS', awsStsEndpoint, serviceUrl] as const)
    : (['AWS_CONTAINER_CREDENTIALS_FULL_URI', awsContainerFullUri, containerCredentialsUrl] as const);
  if (value === undefined || (awsContainerRelativeUri !== undefined && !awsWebIdentityTokenFile)) return undefined;
  try {
    check(value);
    return undefined;
  } catch (error) {
    return notValid(name, value, (error as Error).message);
  }
}

/** Whether the content is in S3, with credentials from the settings. */
function needsCredentials(address: BlobStoreAddress | undefined): boolean {
  return address?.kind === 's3' && address.location.credentials === undefined;
}

function warmUpProblem(
  { warmUp, sourceAddresses, route: { kind } }: Settings,
  { POSTRIDER_WARMUP: given = '' }: Environment,
): ConfigError | undefined {
  if (warmUp.length > 0 && kind === 'relay') {
    return new ConfigError(
      `POSTRIDER_WARMUP=${JSON.stringify(given)} has no effect with a relay, because the relay's source addresses are used; remove it, or set POSTRIDER_ROUTE to mx`,
    );
  }
  const unknown = warmUp.find(({ address }) => address !== null && !sourceAddresses.includes(address));
  if (!unknown) return undefined;
  return notValid(
    'POSTRIDER_WARMUP',
    given,
    `addresses in POSTRIDER_SOURCE_ADDRESSES; ${unknown.address} is not one of them`,
  );
}
