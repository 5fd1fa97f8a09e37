/**
 * Opens the configured blob store and verifies before the start that it works and belongs to the database: writes, reads, finds, and
 * removes a probe, and compares the store's mark. A store that refuses (wrong bucket, key, region, or permissions) stops the start with one
 * line. One that does not respond does not: small mail works without it, large content is refused, and queued mail waits.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Running } from '../base/lifecycle.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { MARK_NAME, type MarkMismatch, matchMark } from '../storage/blobs/mark.ts';
import { describeS3Location, type S3Credentials, type S3Location } from '../storage/blobs/s3-location.ts';
import type { DataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';

interface BlobStore extends Running {
  blobs: Blobs;
}

/** The settings of credentials for S3. */
export type AwsConfig = Pick<Config, Extract<keyof Config, `aws${string}`>>;

/** The address at which Amazon ECS serves AWS_CONTAINER_CREDENTIALS_RELATIVE_URI. */
const ECS = 'http://169.254.170.2';
const METADATA_SERVICE = 'http://169.254.169.254';

/** Returns the configured keys, or a function that gets temporary ones, in the order of the AWS SDKs. */
export async function credentialsOf(
  config: AwsConfig,
  location: S3Location,
): Promise<S3Credentials | (() => Promise<S3Credentials>)> {
  const { awsAccessKeyId, awsSecretAccessKey = '', awsSessionToken: sessionToken } = config;
  if (awsAccessKeyId !== undefined && location.credentials === undefined) {
    const keys = { accessKeyId: awsAccessKeyId, secretAccessKey: awsSecretAccessKey };
    return { ...keys, ...(sessionToken !== undefined && { sessionToken }) };
  }
  const { createAwsCredentials } = await import('../storage/blobs/aws-credentials.ts');
  const { awsWebIdentityTokenFile: tokenFile, awsRoleArn: roleArn, awsRoleSessionName, awsStsEndpoint } = config;
  const { awsContainerFullUri, awsContainerRelativeUri, awsContainerToken, awsContainerTokenFile } = config;
  const { awsMetadataEndpoint: endpoint = METADATA_SERVICE } = config;
  if (location.credentials === 'instance') return createAwsCredentials({ instance: { endpoint } });
  if (tokenFile !== undefined && roleArn !== undefined) {
    const stsEndpoint = awsStsEndpoint ?? `https://sts.${location.region}.amazonaws.com`;
    const sessionName = awsRoleSessionName ?? 'postrider';
    return createAwsCredentials({ webIdentity: { tokenFile, roleArn, sessionName, stsEndpoint } });
  }
  const url = awsContainerRelativeUri === undefined ? awsContainerFullUri : `${ECS}${awsContainerRelativeUri}`;
  if (url === undefined) throw new Error(`no credentials are configured for ${describeS3Location(location)}`);
  return createAwsCredentials({ container: { url, token: awsContainerToken, tokenFile: awsContainerTokenFile } });
}

/** Makes no call yet. */
export async function openBlobStore(
  config: Pick<Config, 'blobs'> & AwsConfig,
  options: { directory: DataDirectory; clock: Clock; onBroken?: (reason: string) => void },
): Promise<BlobStore> {
  if (config.blobs.kind === 'disk') {
    const { directory, onBroken } = options;
    return { blobs: openDiskBlobs(directory.blobsFolder, onBroken && { onBroken }), stop: () => Promise.resolve() };
  }
  // Loaded on demand: its HTTP client takes 15 MB of memory.
  const { openS3Blobs } = await import('../storage/blobs/s3.ts');
  const credentials = await credentialsOf(config, config.blobs.location);
  const blobs = openS3Blobs({ location: config.blobs.location, credentials, clock: options.clock });
  return { blobs, stop: () => blobs.close() };
}

interface BlobStoreCheck {
  blobs: Blobs;
  database: Database;
  log: Log;
}

/**
 * Throws an error for the operator if the store refuses or belongs to another database; logs if it does not respond. SQLite with files in
 * its own data directory needs no check.
 */
export async function checkBlobStore(
  config: Pick<Config, 'blobs' | 'databaseUrl'>,
  { blobs, database, log }: BlobStoreCheck,
): Promise<void> {
  const { blobs: address } = config;
  const isS3 = address.kind === 's3';
  if (!isS3 && address.folder === undefined && config.databaseUrl === undefined) return;
  const where = isS3 ? describeS3Location(address.location) : 'the folder for content';
  try {
    if (isS3) await probeBlobStore(blobs);
    const fault = blobs.mark && (await matchMark(database, blobs.mark));
    if (fault) {
      const line = `POSTRIDER_BLOB_URL: ${where} ${MARK_FAULTS[fault]}`;
      // Without a configured location there may only be small mail, which needs no store.
      if (!isS3 && address.folder === undefined) log.error({}, line);
      else throw new Error(line);
    }
    if (isS3) log.info({ where }, 'content is stored in S3');
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    const { message, refused } = error as Unavailable & { refused?: boolean };
    if (!isS3)
      throw new Error(`POSTRIDER_BLOB_URL: ${where} cannot be used: ${message}; mount it and make it writable`);
    if (refused) {
      throw new Error(
        `POSTRIDER_BLOB_URL: ${where}, cannot be used: ${message}; check the address, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and that the key may get, put, delete and list there`,
      );
    }
    log.error(
      { where, error: message },
      'POSTRIDER_BLOB_URL: the store does not answer; until it does, large content is rejected and mail that needs it is deferred',
    );
  }
}

const SAME = `all nodes of a database need the same POSTRIDER_BLOB_URL, and content that was moved needs ${MARK_NAME} moved with it`;

const MARK_FAULTS: Readonly<Record<MarkMismatch, string>> = {
  'store has none': `is not where the content of this database is kept (${MARK_NAME} is missing there); ${SAME}`,
  'store has another': `is not where the content of this database is kept (${MARK_NAME} there names another store); ${SAME}`,
  'database has none': `belongs to another installation (it has a ${MARK_NAME} that the database does not know); use another prefix or folder, or, if the database is a copy that replaces that installation, remove ${MARK_NAME} and start again`,
};

/** Writes, reads, finds, and removes a probe; throws the store's error. */
export async function probeBlobStore(blobs: Blobs): Promise<void> {
  const content = randomBytes(64);
  const key = await blobs.put(content);
  const found = await blobs.get(key);
  await blobs.remove(key);
  if (!found?.equals(content)) throw new Unavailable('what was written is not what is read back');
  // Without the permission to list, a key gets "forbidden" for a missing object.
  await blobs.sizeOf(blobs.newKey());
  await blobs.storeNowMs();
}
