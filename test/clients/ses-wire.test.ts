/**
 * The SES interface at the HTTP level: signatures that must be rejected, error formats, hosts and paths behind proxies, and keys of every
 * account, mode, and scope. Requests are signed by another implementation (aws4fetch), without X-Amz-Content-Sha256 unless given.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AwsV4Signer } from 'aws4fetch';
import { apiClient } from '../kit/api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';

interface AccessKey {
  keyId: string;
  accessKeyId: string;
  secretAccessKey: string;
}

let sink: SmtpSink;
let service: Service;
let live: AccessKey;

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: {
      POSTRIDER_DOORS: 'ses,resend',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_BASE_URL: 'https://tools.example/mail',
      POSTRIDER_TRUSTED_PROXIES: '127.0.0.1',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  live = await accessKey();
});
after(async () => {
  await service.close();
  await sink.close();
});

async function accessKey(wish: object = {}, api = service.api): Promise<AccessKey> {
  const { status, body } = await api.post('/api-keys', { kind: 'sigv4', ...wish });
  assert.equal(status, 201, JSON.stringify(body));
  return body as unknown as AccessKey;
}

interface Call {
  key?: AccessKey;
  method?: string;
  path?: string;
  body?: string;
  headers?: Record<string, string>;
  service?: string;
  /** Seconds from now. */
  skew?: number;
  /** This is sent instead of the signed request. */
  sent?: { path?: string; body?: string; method?: string; headers?: Record<string, string> };
  /** The origin that the client signs. */
  origin?: string;
}

const SEND = '/v2/email/outbound-emails';

const email = (to: string, from = 'hello@shop.example') =>
  JSON.stringify({
    FromEmailAddress: from,
    Destination: { ToAddresses: [to] },
    Content: { Simple: { Subject: { Data: 's' }, Body: { Text: { Data: 't' } } } },
  });

const amzDate = (skew: number): string => new Date(Date.now() + skew * 1000).toISOString().replace(/[-:]|\.\d{3}/g, '');

async function call(options: Call) {
  const { key = live, method = 'POST', path = SEND, headers = {}, skew = 0, sent = {}, origin = service.url } = options;
  const body = options.body ?? (method === 'GET' ? undefined : email('refused@example.com'));
  const signed = await new AwsV4Signer({
    accessKeyId: key.accessKeyId,
    secretAccessKey: key.secretAccessKey,
    service: options.service ?? 'ses',
    region: 'us-west-2',
    url: `${origin}${path}`,
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body }),
    datetime: amzDate(skew),
    allHeaders: true,
  }).sign();
  const written = Object.fromEntries(new Headers(signed.headers));
  const content = sent.body ?? body;
  const answer = await fetch(`${service.url}${sent.path ?? path}`, {
    method: sent.method ?? method,
    headers: { ...written, ...sent.headers },
    ...(content !== undefined && { body: content }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    type: answer.headers.get('x-amzn-errortype'),
    requestId: answer.headers.get('x-amzn-requestid'),
    contentType: answer.headers.get('content-type') ?? '',
    text,
  };
}

const messageIn = (text: string): string => (JSON.parse(text) as { message: string }).message;

test('accepts a signed request with and without the body hash in a header', async () => {
  assert.equal((await call({ body: email('signed@example.com') })).status, 200);
  const body = email('hashed@example.com');
  const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(body))).toString('hex');
  const hashed = await call({ body, headers: { 'x-amz-content-sha256': digest } });
  assert.equal(hashed.status, 200, hashed.text);
  assert.match(hashed.requestId ?? '', /^req_/);
});

test('attempts with the same invocation id create one email, under both names of its header', async () => {
  for (const name of ['amz-sdk-invocation-id', 'aws-sdk-invocation-id']) {
    const attempt = (id: string) => call({ body: email(`${name}@example.com`), headers: { [name]: id } });
    const [first, second, other] = [await attempt('call-1'), await attempt('call-1'), await attempt('call-2')];
    assert.equal(first.status, 200, first.text);
    assert.equal(second.text, first.text, name);
    assert.notEqual(other.text, first.text, name);
  }
});

test('rejects a request that differs from the signed one, and sends nothing', async () => {
  const body = email('refused@example.com');
  const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(body))).toString('hex');
  const wrongSecret = { ...live, secretAccessKey: `${live.secretAccessKey.slice(0, -1)}!` };
  const unknownKey = { ...live, accessKeyId: `${live.accessKeyId.slice(0, -1)}0` };
  const mismatch = 'InvalidSignatureException';
  const cases: [name: string, type: string, given: Call][] = [
    ['another body', mismatch, { sent: { body: email('other@example.com') } }],
    [
      'a body that does not match its hash',
      mismatch,
      { body, headers: { 'x-amz-content-sha256': digest }, sent: { body: email('other@example.com') } },
    ],
    [
      'another hash',
      mismatch,
      { headers: { 'x-amz-content-sha256': digest }, sent: { headers: { 'x-amz-content-sha256': '0'.repeat(64) } } },
    ],
    ['an unsigned payload', mismatch, { headers: { 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' } }],
    ['a streaming payload', mismatch, { headers: { 'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' } }],
    ['another path', mismatch, { sent: { path: '/v2/email/outbound-bulk-emails' } }],
    ['another query', mismatch, { sent: { path: `${SEND}?a=1` } }],
    ['another date', mismatch, { sent: { headers: { 'x-amz-date': amzDate(60) } } }],
    ['another signed header', mismatch, { headers: { 'x-own': '1' }, sent: { headers: { 'x-own': '2' } } }],
    ['a wrong secret', mismatch, { key: wrongSecret }],
    ['an unknown key', 'UnrecognizedClientException', { key: unknownKey }],
    ['a session token', 'UnrecognizedClientException', { headers: { 'x-amz-security-token': 'token' } }],
    ['another service', mismatch, { service: 'email' }],
    ['another host', mismatch, { origin: 'https://email.us-west-2.amazonaws.com' }],
    ['a date 6 minutes ago', mismatch, { skew: -360 }],
    ['a date in 6 minutes', mismatch, { skew: 360 }],
    [
      'an unknown algorithm',
      'IncompleteSignatureException',
      { sent: { headers: { authorization: 'AWS4-ECDSA-P256-SHA256 Credential=x' } } },
    ],
    ['no Authorization', 'MissingAuthenticationTokenException', { sent: { headers: { authorization: '' } } }],
  ];
  for (const [name, type, given] of cases) {
    const { status, type: answered, text, contentType } = await call(given);
    assert.deepEqual([status, answered], [403, name === 'no Authorization' ? answered : type], `${name}: ${text}`);
    assert.match(contentType, /^application\/json/);
    assert.deepEqual(Object.keys(JSON.parse(text)), ['message'], name);
  }
  const bare = await fetch(`${service.url}${SEND}`, { method: 'POST', body: '{}' });
  assert.deepEqual([bare.status, bare.headers.get('x-amzn-errortype')], [403, 'MissingAuthenticationTokenException']);
  // Within five minutes, and again with the same signature, both are accepted.
  assert.equal((await call({ body: email('early@example.com'), skew: -290 })).status, 200);
  const { body: messages } = await service.api.get('/messages?to=refused%40example.com');
  assert.equal((messages as unknown as unknown[]).length, 0);
});

test('requires Host and X-Amz-Date to be signed', async () => {
  for (const missing of ['host', 'x-amz-date']) {
    const answer = await call({
      sent: {
        headers: {
          authorization: `AWS4-HMAC-SHA256 Credential=${live.accessKeyId}/${amzDate(0).slice(0, 8)}/x/ses/aws4_request, SignedHeaders=${missing === 'host' ? 'x-amz-date' : 'host'}, Signature=${'0'.repeat(64)}`,
        },
      },
    });
    assert.equal(answer.type, 'InvalidSignatureException');
    assert.match(messageIn(answer.text), new RegExp(`'${missing}' must be in SignedHeaders`));
  }
});

test('a proxy can replace the host and strip part of the path', async () => {
  const to = () => ({ body: email('proxied@example.com') });
  const cases: [origin: string, signed: string, sent: string, headers?: Record<string, string>][] = [
    [service.url, `/ses${SEND}`, `/ses${SEND}`],
    [service.url, `/ses${SEND}`, SEND],
    ['https://tools.example', `/mail${SEND}`, SEND],
    ['https://tools.example', `/mail${SEND}`, `/mail${SEND}`],
    ['https://tools.example', `/mail/ses${SEND}`, `/ses${SEND}`],
    ['https://other.example', SEND, SEND, { 'x-forwarded-for': '192.0.2.1', 'x-forwarded-host': 'other.example' }],
  ];
  for (const [origin, path, sent, headers = {}] of cases) {
    const answer = await call({ ...to(), origin, path, sent: { path: sent, headers } });
    assert.equal(answer.status, 200, `${origin}${path} as ${sent}: ${answer.text}`);
  }
});

test('errors have the types of SES version 2', async () => {
  const cases: [type: string, status: number, given: Call, message: RegExp][] = [
    [
      'MessageRejected',
      400,
      { body: email('a@example.com', 'a@other.example') },
      /Email address is not verified.*other\.example/,
    ],
    ['BadRequestException', 400, { body: email('nobody') }, /Destination\.ToAddresses/],
    ['BadRequestException', 400, { body: email('a@example.com', 'nobody') }, /FromEmailAddress/],
    ['BadRequestException', 400, { body: '{' }, /JSON/],
    ['BadRequestException', 400, { body: '{"Content":{}}' }, /Content needs exactly one of Simple, Raw, and Template/],
    [
      'BadRequestException',
      400,
      { body: '{"Content":{"Raw":{"Data":"%"}}}' },
      /Content\.Raw\.Data must be a MIME message in Base64/,
    ],
    [
      'BadRequestException',
      400,
      { body: JSON.stringify({ ListManagementOptions: {}, Content: { Raw: { Data: 'YQ==' } } }) },
      /no contact lists/,
    ],
    [
      'MailFromDomainNotVerifiedException',
      400,
      {
        body: JSON.stringify({
          FromEmailAddress: 'a@other.example',
          Content: {
            Raw: { Data: Buffer.from('From: hello@shop.example\r\nTo: a@example.com\r\n\r\nx\r\n').toString('base64') },
          },
        }),
      },
      /other\.example/,
    ],
    [
      'NotFoundException',
      404,
      { method: 'GET', path: '/v2/email/identities/none.example' },
      /none\.example" does not exist/,
    ],
    [
      'UnknownOperationException',
      404,
      { method: 'GET', path: '/v2/email/contact-lists' },
      /no operation GET \/v2\/email\/contact-lists/,
    ],
    ['UnknownOperationException', 404, { method: 'DELETE', path: SEND }, /no operation DELETE/],
  ];
  for (const [type, status, given, message] of cases) {
    const answer = await call(given);
    assert.deepEqual([answer.type, answer.status], [type, status], answer.text);
    assert.match(messageIn(answer.text), message);
  }
});

test('errors of SES version 1 are XML documents', async () => {
  const form = (fields: Record<string, string>): Call => ({
    path: '/',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
  });
  const mail = { Action: 'SendEmail', 'Message.Subject.Data': 's', 'Message.Body.Text.Data': 't' };
  const cases: [code: string, status: number, given: Call][] = [
    [
      'MessageRejected',
      400,
      form({ ...mail, Source: 'a@other.example', 'Destination.ToAddresses.member.1': 'a@example.com' }),
    ],
    [
      'InvalidParameterValue',
      400,
      form({ ...mail, Source: 'hello@shop.example', 'Destination.ToAddresses.member.1': '<x>' }),
    ],
    ['InvalidParameterValue', 400, form({ Action: 'SendRawEmail' })],
    ['InvalidParameterValue', 400, form({ Action: 'SendRawEmail', 'Tags.member.1.Value': 'a\0' })],
    ['InvalidAction', 404, form({ Action: 'VerifyDomainDkim' })],
    ['SignatureDoesNotMatch', 403, { ...form(mail), sent: { body: 'Action=SendEmail' } }],
    ['InvalidClientTokenId', 403, { ...form(mail), key: { ...live, accessKeyId: 'AKIAIOSFODNN7EXAMPLE' } }],
  ];
  for (const [code, status, given] of cases) {
    const { status: answered, text, contentType, requestId } = await call(given);
    assert.equal(answered, status, text);
    assert.match(contentType, /^text\/xml/);
    assert.match(
      text,
      new RegExp(
        `^<ErrorResponse xmlns="http://ses\\.amazonaws\\.com/doc/2010-12-01/"><Error><Type>Sender</Type><Code>${code}</Code><Message>[^<]+</Message></Error><RequestId>${requestId}</RequestId></ErrorResponse>`,
      ),
    );
  }
});

test('a key is limited to its account, mode, scope, and senders, and stops working when revoked', async () => {
  const sending = await accessKey({ scope: 'send' });
  assert.equal((await call({ key: sending, body: email('scope@example.com') })).status, 200);
  assert.equal((await call({ key: sending, method: 'GET', path: '/v2/email/account' })).type, 'AccessDeniedException');

  const restricted = await accessKey({ allowedSenders: ['billing@shop.example'] });
  assert.equal((await call({ key: restricted, body: email('r@example.com', 'billing@shop.example') })).status, 200);
  const refused = await call({ key: restricted, body: email('r@example.com') });
  assert.equal(refused.type, 'MessageRejected');

  const sandbox = await accessKey({ mode: 'sandbox' });
  assert.equal((await call({ key: sandbox, body: email('sandbox@example.com', 'a@any.example') })).status, 200);
  assert.ok(!sink.messages.some((one) => one.to.includes('sandbox@example.com')));

  const made = await service.cli('account', 'create', '--name', 'Two', '--plan', 'free');
  const other = apiClient(() => service.url, { accountId: String(made.accountId), apiKey: String(made.apiKey) });
  const foreign = await accessKey({}, other);
  assert.equal((await call({ key: foreign, body: email('foreign@example.com') })).type, 'MessageRejected');
  const identities = await call({ key: foreign, method: 'GET', path: '/v2/email/identities' });
  assert.deepEqual(JSON.parse(identities.text), { EmailIdentities: [] });

  await service.cli('account', 'set', String(made.accountId), '--status', 'suspended');
  const suspended = async (): Promise<string | null> =>
    (await call({ key: foreign, method: 'GET', path: '/v2/email/account' })).type;
  // Another process changed the account, so the cached one is used for up to 0.7 s.
  for (let tries = 0; (await suspended()) !== 'AccountSuspendedException'; tries += 1) assert.ok(tries < 500);

  await service.api.delete(`/api-keys/${sending.keyId}`);
  assert.equal((await call({ key: sending })).type, 'UnrecognizedClientException');
});

test('the command line creates access keys, and other requests are unaffected', async () => {
  const made = await service.cli('key', 'create', service.live.accountId, '--kind', 'sigv4', '--scope', 'send');
  assert.deepEqual(Object.keys(made), ['keyId', 'accessKeyId', 'secretAccessKey']);
  assert.equal((await call({ key: made as unknown as AccessKey, body: email('cli@example.com') })).status, 200);
  assert.equal((await service.api.get('/account')).status, 200);
  const resend = await fetch(`${service.url}/emails`, { headers: { authorization: `Bearer ${service.live.apiKey}` } });
  assert.equal(resend.status, 200);
});

test('the OpenAPI document lists the operations of SES version 2', async () => {
  const answer = await fetch(`${service.url}/openapi/ses.json`);
  assert.equal(answer.status, 200);
  const document = (await answer.json()) as { info: { title: string }; paths: Record<string, object> };
  assert.match(document.info.title, /Amazon SES/);
  assert.ok('/v2/email/outbound-emails' in document.paths);
  assert.ok(!('/' in document.paths));
});
