/** Temporary credentials, with the services of AWS on loopback. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { type CatcherScript, webhookCatcher } from '../../../test/kit/webhook-catcher.ts';
import { createAwsCredentials } from './aws-credentials.ts';

const HOUR = 3_600_000;

async function service(t: TestContext, script: CatcherScript) {
  const server = await webhookCatcher({ script });
  t.after(() => server.close());
  const folder = mkdtempSync(path.join(tmpdir(), 'postrider-aws-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text: string): string => {
    writeFileSync(path.join(folder, name), text);
    return path.join(folder, name);
  };
  return { server, origin: new URL(server.url).origin, file };
}

const answerOf = (number: number, expiresMs: number) => ({
  body: JSON.stringify({
    Code: 'Success',
    AccessKeyId: `AKIA${number}`,
    SecretAccessKey: 'secret',
    Token: `token${number}`,
    Expiration: new Date(expiresMs).toISOString(),
  }),
});

test('web identity: the token of the file is exchanged at STS', async (t) => {
  const { server, origin, file } = await service(t, {
    body: `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
      <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>se/cret+</SecretAccessKey><SessionToken>tok=en</SessionToken>
      <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
  });
  const webIdentity = {
    tokenFile: file('token', 'ey.web.identity\n'),
    roleArn: 'arn:aws:iam::1:role/mail',
    sessionName: 'postrider',
    stsEndpoint: origin,
  };
  const credentials = createAwsCredentials({ webIdentity });
  assert.deepEqual(await credentials(), {
    accessKeyId: 'ASIA1',
    secretAccessKey: 'se/cret+',
    sessionToken: 'tok=en',
  });
  assert.deepEqual(Object.fromEntries(new URLSearchParams(server.requests[0]!.body)), {
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: 'arn:aws:iam::1:role/mail',
    RoleSessionName: 'postrider',
    WebIdentityToken: 'ey.web.identity',
  });
  await Promise.all([credentials(), credentials()]);
  assert.equal(server.requests.length, 1);
});

test('web identity: a refusal of STS is shown', async (t) => {
  const { origin, file } = await service(t, {
    status: 400,
    body: '<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token expired</Message></Error></ErrorResponse>',
  });
  const webIdentity = { tokenFile: file('token', 'x'), roleArn: 'r', sessionName: 's', stsEndpoint: origin };
  await assert.rejects(
    createAwsCredentials({ webIdentity })(),
    /^Unavailable: blob storage: credentials cannot be loaded: 127\.0\.0\.1:\d+ answered 400: ExpiredTokenException Token expired$/,
  );
  const gone = { ...webIdentity, tokenFile: '/nonexistent/token' };
  await assert.rejects(createAwsCredentials({ webIdentity: gone })(), /ENOENT/);
});

test('container: the endpoint gets the token of the file, which may change', async (t) => {
  let nowMs = Date.now();
  const { server, origin, file } = await service(t, () => answerOf(server.requests.length, nowMs + HOUR));
  const tokenFile = file('token', 'first');
  const credentials = createAwsCredentials({ container: { url: `${origin}/v1/credentials`, tokenFile } }, () => nowMs);
  assert.equal((await credentials()).accessKeyId, 'AKIA1');
  assert.equal(server.requests[0]!.headers.authorization, 'first');
  file('token', 'second');
  nowMs += HOUR - 300_001;
  assert.equal((await credentials()).accessKeyId, 'AKIA1');
  nowMs += 2;
  assert.equal((await credentials()).accessKeyId, 'AKIA1', 'no call waits for a renewal');
  await waitUntil('the renewal', async () => (await credentials()).accessKeyId === 'AKIA2');
  assert.deepEqual(await credentials(), { accessKeyId: 'AKIA2', secretAccessKey: 'secret', sessionToken: 'token2' });
  assert.equal(server.requests[1]!.headers.authorization, 'second');
});

test('instance: IMDSv2 with its token', async (t) => {
  const { server, origin } = await service(t, ({ method, path: asked, headers }) => {
    if (method === 'PUT' && asked === '/latest/api/token' && headers['x-aws-ec2-metadata-token-ttl-seconds'])
      return { body: 'imds' };
    if (headers['x-aws-ec2-metadata-token'] !== 'imds') return { status: 401 };
    const folder = '/latest/meta-data/iam/security-credentials/';
    if (asked === folder) return { body: 'mail-role\n' };
    return asked === `${folder}mail-role` ? answerOf(7, Date.now() + HOUR) : { status: 404 };
  });
  assert.equal((await createAwsCredentials({ instance: { endpoint: origin } })()).accessKeyId, 'AKIA7');
  server.answer(({ method }) => (method === 'PUT' ? { body: 'imds' } : { status: 404 }));
  await assert.rejects(createAwsCredentials({ instance: { endpoint: origin } })(), /answered 404/);
});

test('if the renewal fails, the present credentials are used until they expire', async (t) => {
  let nowMs = Date.now();
  const { server, origin } = await service(t, answerOf(1, nowMs + HOUR));
  const credentials = createAwsCredentials({ container: { url: origin } }, () => nowMs);
  await credentials();
  server.answer({ status: 500 });
  nowMs += HOUR - 60_000;
  assert.equal((await credentials()).accessKeyId, 'AKIA1');
  await waitUntil('the failed renewal', () => server.requests.length === 2);
  assert.equal((await credentials()).accessKeyId, 'AKIA1');
  assert.equal(server.requests.length, 2, 'the next try is 30 s later');
  nowMs += 60_001;
  await assert.rejects(credentials(), /answered 500/);
  server.answer(answerOf(2, nowMs + HOUR));
  assert.equal((await credentials()).accessKeyId, 'AKIA2');
});

test('answers without credentials are errors', async (t) => {
  const { server, origin } = await service(t, { body: 'null' });
  for (const body of ['null', '{}', '<html>', '{"AccessKeyId":"a"}', '{"AccessKeyId":1,"SecretAccessKey":2}']) {
    server.answer({ body });
    await assert.rejects(createAwsCredentials({ container: { url: origin } })(), /credentials cannot be loaded/, body);
  }
});
