/** boto3, the AWS SDK for Python, with only the endpoint and the access key changed. Messages are counted at the receiving server. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

/** The Python of the system, which has Debian's packages. */
const PYTHON = '/usr/bin/python3';
const run = promisify(execFile);

const skip = await run(PYTHON, ['-c', 'import boto3']).then(
  () => false as const,
  () => {
    if (process.env.CI) throw new Error('python3-boto3 is not installed, and CI skips nothing');
    return 'python3-boto3 is not installed';
  },
);

const PROGRAM = `
import json, sys, boto3
from botocore.config import Config
from botocore.exceptions import ClientError
given = json.load(sys.stdin)
def client(name, **more):
    return boto3.client(name, region_name='eu-central-1', endpoint_url=given['url'],
        aws_access_key_id=given['id'], aws_secret_access_key=more.get('secret', given['secret']),
        config=Config(retries={'max_attempts': 0}))
def refusal(call):
    try:
        call()
    except ClientError as error:
        return [error.response['Error']['Code'], error.response['ResponseMetadata']['HTTPStatusCode']]
sender = 'Shop <hello@shop.example>'
text = lambda value: {'Subject': {'Data': 'Gr\\u00fc\\u00dfe'}, 'Body': {'Text': {'Data': value}}}
raw = lambda to: b'From: hello@shop.example\\r\\nTo: ' + to.encode() + b'\\r\\nSubject: Raw\\r\\nX-Own: kept\\r\\n\\r\\nRaw text.\\r\\n'
v2, v1 = client('sesv2'), client('ses')
sends = {
    'v2-simple': lambda to: v2.send_email(FromEmailAddress=sender, Destination={'ToAddresses': [to]}, Content={'Simple': text('Simple text.')}),
    'v2-raw': lambda to: v2.send_email(Content={'Raw': {'Data': raw(to)}}),
    'v2-template': lambda to: v2.send_email(FromEmailAddress=sender, Destination={'ToAddresses': [to]},
        Content={'Template': {'TemplateName': 'greeting', 'TemplateData': json.dumps({'name': 'Ann'})}}),
    'v1': lambda to: v1.send_email(Source=sender, Destination={'ToAddresses': [to]}, Message=text('Version 1 text.')),
    'v1-raw': lambda to: v1.send_raw_email(RawMessage={'Data': raw(to)}),
}
result = {'failed': {}, 'ids': {}}
for name, send in sends.items():
    try:
        result['ids'][name] = send(name + '@example.com')['MessageId']
    except Exception as error:
        result['failed'][name] = str(error)
result['account'] = v2.get_account()['SendingEnabled']
result['forged'] = [refusal(lambda: client(name, secret='x' * 40).get_account() if name == 'sesv2' else client(name, secret='x' * 40).get_send_quota()) for name in ('sesv2', 'ses')]
result['stranger'] = refusal(lambda: v2.send_email(FromEmailAddress='a@stranger.example', Destination={'ToAddresses': ['no@example.com']}, Content={'Simple': text('x')}))
print(json.dumps(result))
`;

let sink: SmtpSink;
let service: Service;

before(async () => {
  if (skip) return;
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_DOORS: 'ses', POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  if (skip) return;
  await service.close();
  await sink.close();
});

test('boto3 sends with both SES API versions and raises rejections as exceptions', { skip }, async () => {
  await service.api.post('/templates', { name: 'greeting', subject: 'Hi {{ name }}', text: 'Dear {{ name }}' });
  const { body: key } = await service.api.post('/api-keys', { kind: 'sigv4' });
  const python = run(PYTHON, ['-c', PROGRAM], { timeout: 60_000 });
  python.child.stdin!.end(JSON.stringify({ url: service.url, id: key.accessKeyId, secret: key.secretAccessKey }));
  const { ids, failed, account, forged, stranger } = JSON.parse((await python).stdout);
  assert.deepEqual(failed, {});
  assert.equal(account, true);
  assert.deepEqual(forged, [
    ['InvalidSignatureException', 403],
    ['SignatureDoesNotMatch', 403],
  ]);
  assert.deepEqual(stranger, ['MessageRejected', 400]);

  const texts = {
    'v2-simple': 'Simple text.',
    'v2-raw': 'Raw text.',
    'v2-template': 'Dear Ann',
    v1: 'Version 1 text.',
    'v1-raw': 'Raw text.',
  };
  assert.deepEqual(Object.keys(ids), Object.keys(texts));
  for (const [name, text] of Object.entries(texts)) {
    const to = `${name}@example.com`;
    const mail = await waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to)));
    assert.ok(mail.content.includes(text), mail.content.toString());
    assert.equal(mail.content.includes('X-Own: kept'), name.endsWith('raw'));
  }
  assert.equal(sink.messages.length, Object.keys(texts).length);
});
