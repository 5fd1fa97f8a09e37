/**
 * The official AWS SDKs and nodemailer's SES transport against this service, with only the endpoint and the access key changed. Messages
 * are counted at the receiving server.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as v1 from '@aws-sdk/client-ses';
import * as v2 from '@aws-sdk/client-sesv2';
import { createTransport } from 'nodemailer';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;
let live: AccessKey;

interface AccessKey {
  accessKeyId: string;
  secretAccessKey: string;
}

before(async () => {
  sink = await smtpSink();
  service = await startService({
    env: { POSTRIDER_DOORS: 'ses', POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  live = await accessKey();
});
after(async () => {
  await service.close();
  await sink.close();
});

async function accessKey(wish: object = {}): Promise<AccessKey & { keyId: string }> {
  const { status, body } = await service.api.post('/api-keys', { kind: 'sigv4', ...wish });
  assert.equal(status, 201, JSON.stringify(body));
  return body as unknown as AccessKey & { keyId: string };
}

const settings = (credentials: AccessKey = live, path = '') => ({
  region: 'eu-central-1',
  endpoint: `${service.url}${path}`,
  credentials,
});
const sesv2 = (credentials?: AccessKey, path?: string) => new v2.SESv2Client(settings(credentials, path));
const ses = (credentials?: AccessKey, path?: string) => new v1.SESClient(settings(credentials, path));

/** Ids of the messages to a recipient. */
async function messagesTo(to: string): Promise<string[]> {
  const { status, body } = await service.api.get(`/messages?to=${encodeURIComponent(to)}`);
  assert.equal(status, 200, JSON.stringify(body));
  return (body as unknown as { messageId: string }[]).map(({ messageId }) => messageId);
}

/** Returns the message that the receiving server got for a recipient. */
const received = (to: string) =>
  waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to))?.content.toString('latin1'));

const simple = (to: string, more: object = {}): v2.SendEmailCommandInput => ({
  FromEmailAddress: 'Shop <hello@shop.example>',
  Destination: { ToAddresses: [to] },
  Content: { Simple: { Subject: { Data: 'Grüße' }, Body: { Text: { Data: 'Hello {{ literal }}' } } } },
  ...more,
});

test('version 2: Simple content with every field arrives', async () => {
  const { MessageId } = await sesv2().send(
    new v2.SendEmailCommand({
      FromEmailAddress: 'Shop <hello@shop.example>',
      Destination: {
        ToAddresses: ['Ann <a-simple@example.com>'],
        CcAddresses: ['c-simple@example.com'],
        BccAddresses: ['b-simple@example.com'],
      },
      ReplyToAddresses: ['help@shop.example'],
      EmailTags: [{ Name: 'kind', Value: 'welcome' }],
      ConfigurationSetName: 'default',
      Content: {
        Simple: {
          Subject: { Data: 'Grüße', Charset: 'UTF-8' },
          Body: { Text: { Data: 'Hello' }, Html: { Data: '<p>{{ literal }}</p>', Charset: 'UTF-8' } },
          Headers: [{ Name: 'X-Order', Value: '17' }],
          Attachments: [
            { FileName: 'a.txt', RawContent: Buffer.from('bytes of a file') },
            { FileName: 'logo.png', ContentId: 'logo', ContentDisposition: 'INLINE', RawContent: Buffer.from('png') },
            {
              FileName: 'terms.pdf',
              ContentId: 'terms',
              ContentDisposition: 'ATTACHMENT',
              RawContent: Buffer.from('pdf'),
            },
          ],
        },
      },
    }),
  );
  assert.match(MessageId ?? '', /^msg_/);
  const text = await received('a-simple@example.com');
  assert.match(text, /^X-Order: 17\r$/m);
  assert.match(text, /^Reply-To: help@shop\.example\r$/m);
  assert.match(text, /\{\{ literal \}\}/);
  assert.ok(text.includes(Buffer.from('bytes of a file').toString('base64')));
  assert.match(text, /^Content-ID: <logo>\r$/m);
  assert.doesNotMatch(text, /<terms>/);
  assert.match(text, /^Content-Disposition: attachment;\s+filename="?terms\.pdf/m);
  await received('c-simple@example.com');
  await received('b-simple@example.com');
  assert.doesNotMatch(text, /b-simple/);
  const shown = await service.api.get(`/messages/${MessageId}`);
  assert.deepEqual(shown.body.metadata, { kind: 'welcome' });
});

test('version 2: Raw content keeps its bytes except for instruction headers', async () => {
  const body = `--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\nna\xefve  \r\n--b--\r\n`;
  const raw = Buffer.from(
    `From: hello@shop.example\r\nTo: a-raw@example.com\r\nBcc: b-raw@example.com\r\nX-SES-MESSAGE-TAGS: order=17, kind=raw\r\nx-ses-configuration-set: c\r\nSubject:   folded\r\n  subject\r\nDate: Fri, 27 Nov 2026 12:00:00 +0000\r\nMessage-ID: <raw-1@shop.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${body}`,
    'latin1',
  );
  const { MessageId } = await sesv2().send(new v2.SendEmailCommand({ Content: { Raw: { Data: raw } } }));
  const text = await received('a-raw@example.com');
  assert.ok(
    text.endsWith(
      `From: hello@shop.example\r\nTo: a-raw@example.com\r\nSubject:   folded\r\n  subject\r\nDate: Fri, 27 Nov 2026 12:00:00 +0000\r\nMessage-ID: <raw-1@shop.example>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${body}`,
    ),
    text,
  );
  assert.match(text, /with HTTP id msg_/);
  await received('b-raw@example.com');
  const shown = await service.api.get(`/messages/${MessageId}`);
  assert.deepEqual(shown.body.metadata, { order: '17', kind: 'raw' });
});

test('version 2: Destination overrides the recipients of Raw content, and bare LF becomes CRLF', async () => {
  const raw = 'From: hello@shop.example\nTo: shown@example.com\nSubject: lf\n\nline 1\nline 2';
  await sesv2().send(
    new v2.SendEmailCommand({
      Destination: { ToAddresses: ['only@example.com'] },
      Content: { Raw: { Data: Buffer.from(raw) } },
    }),
  );
  const text = await received('only@example.com');
  assert.match(text, /\r\n\r\nline 1\r\nline 2\r\n$/);
  assert.ok(!sink.messages.some((one) => one.to.includes('shown@example.com')));
});

test('version 2: inline and stored templates, single and bulk email', async () => {
  const inline = { Subject: 'Hi {{name}}', Text: 'Hi {{name}}', Html: '<p>{{name}} {{{link}}}</p>' };
  await sesv2().send(
    new v2.SendEmailCommand({
      FromEmailAddress: 'hello@shop.example',
      Destination: { ToAddresses: ['a-template@example.com'] },
      Content: { Template: { TemplateContent: inline, TemplateData: '{"name":"A&B","link":"<b>x</b>"}' } },
    }),
  );
  const text = await received('a-template@example.com');
  assert.match(text, /^Subject: Hi A&B\r$/m);
  assert.match(text, /<p>A&B <b>x<\/b><\/p>/, 'SES escapes nothing');

  const send = (Html: string, to: string, data: object) =>
    sesv2().send(
      new v2.SendEmailCommand({
        FromEmailAddress: 'hello@shop.example',
        Destination: { ToAddresses: [to] },
        Content: {
          Template: { TemplateContent: { Subject: 'List', Html }, TemplateData: JSON.stringify(data) },
        },
      }),
    );
  const list = '<ul>{{#each items}}<li>{{@index}} {{name}} {{../unit}}</li>{{else}}none{{/each}}</ul>';
  await send(list, 'a-list@example.com', { unit: 'kg', items: [{ name: 'Tea' }, { name: '<b>' }] });
  const listed = await received('a-list@example.com');
  assert.match(listed, /<ul><li>0 Tea kg<\/li><li>1 <b> kg<\/li><\/ul>/);
  await send(list, 'no-list@example.com', { unit: 'kg', items: [] });
  assert.match(await received('no-list@example.com'), /<ul>none<\/ul>/);
  for (const [html, message] of [
    ['\n{{> footer}}', /TemplateContent\.Html.*\{\{> footer\}\} in line 2/],
    ['{{#if a}}x', /TemplateContent\.Html.*not closed/],
  ] as const) {
    await assert.rejects(send(html, 'refused@example.com', {}), (error: Error) => {
      assert.equal(error.name, 'BadRequestException');
      assert.match(error.message, message);
      return true;
    });
  }

  const made = await service.api.post('/templates', {
    name: 'welcome',
    subject: 'Welcome {{name}}',
    text: 'Hello {{name}}',
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const bulk = await sesv2().send(
    new v2.SendBulkEmailCommand({
      FromEmailAddress: 'hello@shop.example',
      DefaultContent: { Template: { TemplateName: 'welcome', TemplateData: '{"name":"friend"}' } },
      DefaultEmailTags: [{ Name: 'kind', Value: 'bulk' }],
      BulkEmailEntries: [
        { Destination: { ToAddresses: ['bulk-1@example.com'] } },
        {
          Destination: { ToAddresses: ['bulk-2@example.com'] },
          ReplacementEmailContent: { ReplacementTemplate: { ReplacementTemplateData: '{"name":"Bo"}' } },
          ReplacementHeaders: [{ Name: 'X-Own', Value: 'yes' }],
          ReplacementTags: [{ Name: 'kind', Value: 'own' }],
        },
        { Destination: { ToAddresses: ['not an address'] } },
        {
          Destination: { ToAddresses: ['bulk-3@example.com'] },
          ReplacementEmailContent: { ReplacementTemplate: { ReplacementTemplateData: '{"name":' } },
        },
        { Destination: { ToAddresses: ['bulk-4@example.com'] } },
      ],
    }),
  );
  const results = bulk.BulkEmailEntryResults ?? [];
  assert.deepEqual(
    results.map(({ Status }) => Status),
    ['SUCCESS', 'SUCCESS', 'INVALID_PARAMETER', 'INVALID_PARAMETER', 'SUCCESS'],
  );
  assert.match(results[3]!.Error ?? '', /BulkEmailEntries\[3\]\.ReplacementTemplateData/);
  assert.deepEqual(await messagesTo('bulk-4@example.com'), [results[4]!.MessageId]);
  assert.match(results[2]!.Error ?? '', /Destination\.ToAddresses/);
  assert.match(await received('bulk-1@example.com'), /Welcome friend/);
  const second = await received('bulk-2@example.com');
  assert.match(second, /Welcome Bo/);
  assert.match(second, /^X-Own: yes\r$/m);
  assert.deepEqual((await service.api.get(`/messages/${results[1]!.MessageId}`)).body.metadata, { kind: 'own' });
});

test('version 2: account, identities, and suppression list', async () => {
  const client = sesv2();
  const account = await client.send(new v2.GetAccountCommand({}));
  assert.deepEqual(
    [
      account.ProductionAccessEnabled,
      account.SendingEnabled,
      account.EnforcementStatus,
      account.SendQuota?.Max24HourSend,
    ],
    [true, true, 'HEALTHY', -1],
  );
  const identities = await client.send(new v2.ListEmailIdentitiesCommand({}));
  assert.deepEqual(identities.EmailIdentities, [
    { IdentityType: 'DOMAIN', IdentityName: 'shop.example', SendingEnabled: true, VerificationStatus: 'SUCCESS' },
  ]);
  const identity = await client.send(new v2.GetEmailIdentityCommand({ EmailIdentity: 'shop.example' }));
  assert.equal(identity.VerifiedForSendingStatus, true);
  await assert.rejects(
    client.send(new v2.GetEmailIdentityCommand({ EmailIdentity: 'a@shop.example' })),
    v2.NotFoundException,
  );

  const EmailAddress = 'odd+tag&x@example.com';
  await client.send(new v2.PutSuppressedDestinationCommand({ EmailAddress, Reason: 'COMPLAINT' }));
  const found = await client.send(new v2.GetSuppressedDestinationCommand({ EmailAddress }));
  assert.deepEqual(
    [found.SuppressedDestination?.EmailAddress, found.SuppressedDestination?.Reason],
    [EmailAddress, 'COMPLAINT'],
  );
  await client.send(new v2.PutSuppressedDestinationCommand({ EmailAddress: 'b@example.com', Reason: 'BOUNCE' }));
  const first = await client.send(new v2.ListSuppressedDestinationsCommand({ PageSize: 1 }));
  const next = await client.send(new v2.ListSuppressedDestinationsCommand({ PageSize: 1, NextToken: first.NextToken }));
  const all = [first, next].flatMap((page) => page.SuppressedDestinationSummaries ?? []);
  assert.deepEqual(all.map((one) => one.EmailAddress).sort(), ['b@example.com', EmailAddress]);
  const bounces = await client.send(new v2.ListSuppressedDestinationsCommand({ Reasons: ['BOUNCE'] }));
  assert.deepEqual(
    bounces.SuppressedDestinationSummaries?.map((one) => one.EmailAddress),
    ['b@example.com'],
  );
  // Entries of Postrider's other reasons are in the list of the reason with which they are shown.
  for (const [email, reason] of [
    ['manual-1@example.com', 'manual'],
    ['manual-2@example.com', 'manual'],
    ['left@example.com', 'unsubscribe'],
  ]) {
    const added = await service.api.post('/suppressions', { email, reason });
    assert.equal(added.status, 201, added.text);
  }
  for (const PageSize of [undefined, 1, 2]) {
    const listed: Record<string, (string | undefined)[]> = { BOUNCE: [], COMPLAINT: [] };
    for (const Reason of ['BOUNCE', 'COMPLAINT'] as const) {
      let NextToken: string | undefined;
      do {
        const page = await client.send(
          new v2.ListSuppressedDestinationsCommand({ Reasons: [Reason], PageSize, NextToken }),
        );
        for (const one of page.SuppressedDestinationSummaries ?? []) {
          assert.equal(one.Reason, Reason);
          listed[Reason]!.push(one.EmailAddress);
        }
        NextToken = page.NextToken;
        assert.ok(PageSize !== undefined || NextToken === undefined, 'one page has all entries');
      } while (NextToken !== undefined);
    }
    assert.deepEqual(listed.BOUNCE!.toSorted(), ['b@example.com', 'manual-1@example.com', 'manual-2@example.com']);
    assert.deepEqual(listed.COMPLAINT!.toSorted(), ['left@example.com', EmailAddress]);
  }
  await client.send(new v2.DeleteSuppressedDestinationCommand({ EmailAddress }));
  await assert.rejects(
    client.send(new v2.GetSuppressedDestinationCommand({ EmailAddress })),
    (error: Error) => error instanceof v2.NotFoundException && /does not exist/.test(error.message),
  );
});

test('version 1: composed, raw, and templated email, and the send quota', async () => {
  for (const path of ['', '/ses', '/ses/']) {
    const to = `v1${path.replaceAll('/', '-')}@example.com`;
    const { MessageId } = await ses(live, path).send(
      new v1.SendEmailCommand({
        Source: 'Shop <hello@shop.example>',
        Destination: { ToAddresses: [to], CcAddresses: [`cc-${to}`] },
        ReplyToAddresses: ['help@shop.example'],
        Message: {
          Subject: { Data: 'Grüße & <mehr>' },
          Body: { Text: { Data: 'a+b=c & d' }, Html: { Data: '<p>{{x}}</p>' } },
        },
        Tags: [{ Name: 'kind', Value: 'v1' }],
        ReturnPath: 'bounces@shop.example',
      }),
    );
    assert.match(MessageId ?? '', /^msg_/);
    const text = await received(to);
    assert.match(text, /a\+b=c & d|a\+b=3Dc & d/);
    await received(`cc-${to}`);
    assert.deepEqual((await service.api.get(`/messages/${MessageId}`)).body.metadata, { kind: 'v1' });
  }
  const raw = Buffer.from('From: hello@shop.example\r\nTo: header@example.com\r\nSubject: raw\r\n\r\nv1 raw\r\n');
  await ses().send(
    new v1.SendRawEmailCommand({
      Source: 'hello@shop.example',
      Destinations: ['v1-raw@example.com', 'v1-raw-2@example.com'],
      RawMessage: { Data: raw },
    }),
  );
  assert.match(await received('v1-raw@example.com'), /To: header@example\.com\r\nSubject: raw\r\n[\s\S]*v1 raw\r\n$/);
  await received('v1-raw-2@example.com');
  await service.api.post('/templates', { name: 'v1-template', subject: 'T {{n}}', text: 'T {{n}}' });
  await ses().send(
    new v1.SendTemplatedEmailCommand({
      Source: 'hello@shop.example',
      Destination: { ToAddresses: ['v1-template@example.com'] },
      Template: 'v1-template',
      TemplateData: '{"n":"1"}',
    }),
  );
  assert.match(await received('v1-template@example.com'), /^Subject: T 1\r$/m);
  const bulk = await ses().send(
    new v1.SendBulkTemplatedEmailCommand({
      Source: 'hello@shop.example',
      Template: 'v1-template',
      DefaultTemplateData: '{"n":"2"}',
      Destinations: [
        { Destination: { ToAddresses: ['v1-bulk@example.com'] } },
        { Destination: { ToAddresses: ['v1-bulk-2@example.com'] }, ReplacementTemplateData: '{"n":"3"}' },
      ],
    }),
  );
  assert.deepEqual(
    bulk.Status?.map((one) => one.Status),
    ['Success', 'Success'],
  );
  assert.match(await received('v1-bulk-2@example.com'), /^Subject: T 3\r$/m);
  const quota = await ses().send(new v1.GetSendQuotaCommand({}));
  assert.equal(quota.Max24HourSend, -1);
  assert.ok((quota.SentLast24Hours ?? 0) > 0);
  assert.deepEqual((await ses().send(new v1.ListIdentitiesCommand({}))).Identities, ['shop.example']);
  await assert.rejects(
    ses().send(
      new v1.SendTemplatedEmailCommand({
        Source: 'hello@shop.example',
        Destination: { ToAddresses: ['x@example.com'] },
        Template: 'none',
        TemplateData: '{}',
      }),
    ),
    (error: Error) => error.name === 'TemplateDoesNotExist' || error.name === 'TemplateDoesNotExistException',
  );
});

test("nodemailer's SES transport sends with its own MIME", async () => {
  const transport = createTransport({
    SES: { sesClient: sesv2(), SendEmailCommand: v2.SendEmailCommand },
  } as never);
  await transport.sendMail({
    from: 'Shop <hello@shop.example>',
    to: 'nodemailer@example.com',
    bcc: 'nodemailer-bcc@example.com',
    subject: 'Grüße',
    text: 'Hello',
    html: '<p>Hello</p>',
    attachments: [{ filename: 'a.txt', content: 'file' }],
  });
  const text = await received('nodemailer@example.com');
  assert.match(text, /^Content-Type: multipart\/mixed;/m);
  assert.doesNotMatch(text, /nodemailer-bcc/);
  await received('nodemailer-bcc@example.com');
});

test('retries of one call create one email, for Simple and Raw content in both versions', async () => {
  const raw = Buffer.from('From: hello@shop.example\r\nTo: once-raw@example.com\r\nSubject: once\r\n\r\nonce\r\n');
  let calls = 0;
  /** Delivers the request, and then simulates a lost response, as often as the SDK retries. */
  const unlucky = <T extends v2.SESv2Client | v1.SESClient>(client: T): T => {
    const { requestHandler } = client.config;
    const handle = requestHandler.handle.bind(requestHandler);
    let lost = 2;
    requestHandler.handle = async (...args: Parameters<typeof handle>) => {
      const answer = await handle(...args);
      calls += 1;
      if (lost === 0) return answer;
      lost -= 1;
      throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET', name: 'TimeoutError' });
    };
    return client;
  };
  const first = await unlucky(sesv2()).send(new v2.SendEmailCommand(simple('once@example.com')));
  const second = await unlucky(sesv2()).send(new v2.SendEmailCommand({ Content: { Raw: { Data: raw } } }));
  const third = await unlucky(ses()).send(
    new v1.SendEmailCommand({
      Source: 'hello@shop.example',
      Destination: { ToAddresses: ['once-v1@example.com'] },
      Message: { Subject: { Data: 's' }, Body: { Text: { Data: 't' } } },
    }),
  );
  assert.equal(calls, 9);
  for (const [to, id] of [
    ['once@example.com', first.MessageId],
    ['once-raw@example.com', second.MessageId],
    ['once-v1@example.com', third.MessageId],
  ] as const) {
    await received(to);
    assert.deepEqual(await messagesTo(to), [id], to);
  }
  // Another call is another email.
  await sesv2().send(new v2.SendEmailCommand(simple('once@example.com')));
  assert.equal((await messagesTo('once@example.com')).length, 2);
});
