/**
 * The S3-compatible store of tests: the one that TEST_S3_URL names (an s3:// URL as in POSTRIDER_BLOB_URL, with the AWS variables),
 * otherwise OpenStack Swift, started for the test. A test uses its own prefix, whose objects are removed at the end. Without either, tests
 * are skipped with a message; an error in CI.
 */
import assert from 'node:assert/strict';
import { AwsV4Signer } from 'aws4fetch';
import type { Clock } from '../../src/base/clock.ts';
import { systemClock } from '../../src/base/clock.ts';
import { randomText } from '../../src/base/ids.ts';
import { openS3Blobs, type S3Blobs } from '../../src/storage/blobs/s3.ts';
import {
  bucketUrl,
  objectName,
  parseS3Url,
  type S3Credentials,
  type S3Location,
} from '../../src/storage/blobs/s3-location.ts';
import { missing } from './requirements.ts';
import { SWIFT_PROGRAMS, type Swift, startSwift } from './swift.ts';

export interface S3Peer {
  /** Swift does not check `x-amz-checksum-sha256`. */
  kind: 'swift' | 'other';
  /** The log of the store; empty if it was not started here. */
  log(): string;
  location: S3Location;
  credentials: S3Credentials;
  /** Opens the store, optionally with another location, credentials or clock; closed with the peer. */
  open(changes?: { location?: Partial<S3Location>; credentials?: Partial<S3Credentials>; clock?: Clock }): S3Blobs;
  /** Settings of a service that stores its blobs there, optionally through another endpoint. */
  environment(endpoint?: string): Record<string, string>;
  /** A signed call to the bucket or an object, for changes without the store's code. */
  call(method: string, key?: string, options?: { query?: string; body?: Uint8Array }): Promise<Response>;
  close(): Promise<void>;
}

const external = process.env.TEST_S3_URL;

/** False if a store is available, otherwise the reason for `{ skip }`; throws in CI. */
export const noS3: string | false = external ? false : missing(...SWIFT_PROGRAMS);

/** Opens the store of TEST_S3_URL, or a Swift with an empty bucket. */
export async function startS3(): Promise<S3Peer> {
  return external ? peerOf(undefined) : startLocalS3();
}

/** False if startLocalS3() works here, otherwise the reason for `{ skip }`; throws in CI. */
export const noLocalS3: string | false = external === undefined ? noS3 : missing(...SWIFT_PROGRAMS);

/** Starts a Swift whatever TEST_S3_URL is: for tests with a proxy between the service and its store. */
export async function startLocalS3(): Promise<S3Peer> {
  return peerOf(await startSwift());
}

/** One per peer, since files may share a store. */
const newBucket = (): string => `postrider-${randomText(8).toLowerCase()}`;

async function peerOf(swift: Swift | undefined): Promise<S3Peer> {
  const base: S3Location = swift
    ? { endpoint: swift.endpoint, region: 'us-east-1', bucket: newBucket(), prefix: 'mail', style: 'path' }
    : parseS3Url(external!);
  const location = { ...base, prefix: [base.prefix, `test-${randomText(10)}`].filter(Boolean).join('/') };
  const credentials: S3Credentials = swift ?? credentialsFromEnvironment();
  const opened: S3Blobs[] = [];

  const call: S3Peer['call'] = async (method, key, { query = '', body } = {}) => {
    const url = key === undefined ? bucketUrl(location) : `${bucketUrl(location)}/${objectName(location, key)}`;
    const { region } = location;
    const signer = new AwsV4Signer({ method, url: url + query, service: 's3', region, ...credentials });
    const signed = await signer.sign();
    return fetch(signed.url, { method, headers: signed.headers, ...(body ? { body: Buffer.from(body) } : {}) });
  };

  const open: S3Peer['open'] = (changes = {}) => {
    const blobs = openS3Blobs({
      location: { ...location, ...changes.location },
      credentials: { ...credentials, ...changes.credentials },
      clock: changes.clock ?? systemClock,
    });
    opened.push(blobs);
    return blobs;
  };

  const close = async (): Promise<void> => {
    if (!swift) {
      const blobs = open();
      for await (const { key } of blobs.list()) await blobs.remove(key);
    }
    for (const blobs of opened) await blobs.close();
    await swift?.close();
  };

  if (swift) {
    const made = await call('PUT');
    const said = await made.text();
    if (made.status !== 200) await close();
    assert.equal(made.status, 200, said);
  }
  return {
    kind: swift ? 'swift' : 'other',
    log: () => swift?.log() ?? '',
    location,
    credentials,
    open,
    call,
    close,
    environment: (endpoint = location.endpoint) => {
      const options = new URLSearchParams({ endpoint, region: location.region, style: location.style });
      return {
        POSTRIDER_BLOB_URL: `s3://${location.bucket}/${location.prefix}?${options}`,
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
        ...(credentials.sessionToken ? { AWS_SESSION_TOKEN: credentials.sessionToken } : {}),
      };
    },
  };
}

function credentialsFromEnvironment(): S3Credentials {
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = process.env;
  assert.ok(
    AWS_ACCESS_KEY_ID && AWS_SECRET_ACCESS_KEY,
    'TEST_S3_URL needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
  );
  return {
    accessKeyId: AWS_ACCESS_KEY_ID,
    secretAccessKey: AWS_SECRET_ACCESS_KEY,
    ...(AWS_SESSION_TOKEN ? { sessionToken: AWS_SESSION_TOKEN } : {}),
  };
}
