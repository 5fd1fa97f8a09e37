/** Which credentials the settings choose for S3, as the store sees them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { systemClock } from '../base/clock.ts';
import { readConfig } from '../config.ts';
import { openS3Client } from '../storage/blobs/s3-client.ts';
import { parseS3Url } from '../storage/blobs/s3-location.ts';
import { credentialsOf } from './blob-store.ts';

test('calls are signed with the keys of the settings, or with temporary ones that AWS issued', async (t) => {
  const store = await webhookCatcher({
    script: ({ path }) => (path.startsWith('/credentials') ? ISSUED : { status: 200 }),
  });
  t.after(() => store.close());
  const { origin } = new URL(store.url);
  const url = `s3://mail?endpoint=${origin}`;
  const callWith = async (environment: Record<string, string>): Promise<Record<string, unknown>> => {
    const location = parseS3Url(environment.POSTRIDER_BLOB_URL ?? url);
    const config = readConfig({ POSTRIDER_BLOB_URL: url, ...environment });
    const client = openS3Client({ location, credentials: await credentialsOf(config, location), clock: systemClock });
    t.after(() => client.close());
    await client.run({ name: 'HeadBucket', method: 'HEAD' }, async () => undefined);
    return store.requests.at(-1)!.headers;
  };
  const keys = { AWS_ACCESS_KEY_ID: 'AKIASET', AWS_SECRET_ACCESS_KEY: 'secret' };
  assert.match(String((await callWith(keys)).authorization), /Credential=AKIASET\//);
  const container = { AWS_CONTAINER_CREDENTIALS_FULL_URI: `${origin}/credentials` };
  const temporary = await callWith(container);
  assert.match(String(temporary.authorization), /Credential=ASIATEMP\//);
  assert.equal(temporary['x-amz-security-token'], 'temporary');
  // As in the AWS SDKs, keys come first.
  assert.match(String((await callWith({ ...keys, ...container })).authorization), /Credential=AKIASET\//);
});

const ISSUED = {
  body: JSON.stringify({
    AccessKeyId: 'ASIATEMP',
    SecretAccessKey: 'other',
    Token: 'temporary',
    Expiration: '2099-01-01T00:00:00Z',
  }),
};
