import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseReply } from '../mail/smtp-reply.ts';
import type { SmtpStage } from '../net/smtp-types.ts';
import { type Category, judge, type Outcome } from './outcome.ts';

type Row = [reply: string, kind: Outcome['kind'], category: Category, suppress?: 'suppress'];

const rcpt: Row[] = [
  // Gmail
  [
    "550-5.1.1 The email account that you tried to reach does not exist. Please try\r\n550-5.1.1 double-checking the recipient's email address for typos or\r\n550 5.1.1 unnecessary spaces. https://support.google.com/mail/?p=NoSuchUser - gsmtp",
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  [
    '550 5.2.1 The email account that you tried to reach is disabled. https://support.google.com/mail/?p=DisabledUser - gsmtp',
    'permanent',
    'mailbox-disabled',
    'suppress',
  ],
  [
    '550 5.2.1 The email account that you tried to reach is inactive. - gsmtp',
    'permanent',
    'mailbox-disabled',
    'suppress',
  ],
  ['550 5.2.1 The user you are trying to contact is receiving mail too quickly. - gsmtp', 'permanent', 'rate-limited'],
  [
    '450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered. - gsmtp',
    'temporary',
    'rate-limited',
  ],
  [
    "452 4.2.2 The recipient's inbox is out of storage space. https://support.google.com/mail/?p=OverQuotaTemp - gsmtp",
    'temporary',
    'mailbox-full',
  ],
  [
    '552 5.2.2 The email account that you tried to reach is over quota and inactive. - gsmtp',
    'permanent',
    'mailbox-full',
  ],
  ['553 5.1.2 The address specified is not a valid RFC-5321 address. - gsmtp', 'permanent', 'domain-not-found'],
  [
    '421 4.7.28 Our system has detected an unusual rate of unsolicited mail originating from your IP address. - gsmtp',
    'temporary',
    'rate-limited',
  ],
  [
    "550 5.7.1 The IP you're using to send mail is not authorized to send email directly to our servers. - gsmtp",
    'permanent',
    'policy',
  ],
  // Outlook and Exchange Online
  [
    '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). [BN8NAM11FT013.eop-nam11.prod.protection.outlook.com]',
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  [
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  [
    '550 5.4.1 Recipient address rejected: Access denied. [AM5EUR02FT012.eop-EUR02.prod.protection.outlook.com]',
    'permanent',
    'mailbox-not-found',
  ],
  [
    '550 5.7.1 Service unavailable, Client host [203.0.113.7] blocked using Spamhaus. To request removal from this list see https://www.spamhaus.org/query/ip/203.0.113.7',
    'permanent',
    'blocked',
  ],
  [
    "550 5.7.1 Unfortunately, messages from [203.0.113.7] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
    'permanent',
    'blocked',
  ],
  ['451 4.7.500 Server busy. Please try again later from [203.0.113.7].', 'temporary', 'policy'],
  [
    '451 4.7.650 The mail server [203.0.113.7] has been temporarily rate limited due to IP reputation.',
    'temporary',
    'rate-limited',
  ],
  ['550 5.7.606 Access denied, banned sending IP [203.0.113.7]', 'permanent', 'blocked'],
  ['550 5.7.64 TenantAttribution; Relay Access Denied', 'permanent', 'policy'],
  ['552 5.2.3 Message size exceeds maximum', 'permanent', 'content-rejected'],
  ['552 5.2.2 mailbox full', 'permanent', 'mailbox-full'],
  ['432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded', 'temporary', 'rate-limited'],
  // Yahoo
  [
    '421 4.7.0 [TSS04] Messages from 203.0.113.7 temporarily deferred due to unexpected volume or user complaints - 4.16.55.1',
    'temporary',
    'rate-limited',
  ],
  [
    "553 5.7.1 [BL21] Connections will not be accepted from 203.0.113.7, because the ip is in Spamhaus's list",
    'permanent',
    'blocked',
  ],
  ['552 1 Requested mail action aborted, mailbox not found', 'permanent', 'mailbox-not-found', 'suppress'],
  // Postfix
  [
    '550 5.1.1 <nobody@example.com>: Recipient address rejected: User unknown in local recipient table',
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  [
    '550 5.1.1 <nobody@example.com>: Recipient address rejected: User unknown in virtual mailbox table',
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  ['554 5.7.1 <a@example.com>: Relay access denied', 'permanent', 'policy'],
  ['554 5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org', 'permanent', 'blocked'],
  [
    '450 4.2.0 <a@example.com>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.com.html',
    'temporary',
    'greylisted',
  ],
  ['450 4.7.1 Client host rejected: cannot find your hostname, [203.0.113.7]', 'temporary', 'policy'],
  ['450 4.1.8 <bounce@shop.example>: Sender address rejected: Domain not found', 'temporary', 'policy'],
  ['550 5.1.8 <bounce@shop.example>: Sender address rejected: Domain not found', 'permanent', 'policy'],
  ['451 4.3.0 <a@example.com>: Temporary lookup failure', 'temporary', 'remote-error'],
  ['452 4.3.1 Insufficient system storage', 'temporary', 'remote-error'],
  ['452 4.5.3 Error: too many recipients', 'temporary', 'rate-limited'],
  ['550 5.1.0 <a@example.com>: Recipient address rejected: no longer in use', 'permanent', 'refused'],
  [
    '550 5.1.6 <a@example.com>: Recipient address rejected: has moved to a@example.net',
    'permanent',
    'mailbox-not-found',
    'suppress',
  ],
  [
    '554 5.2.2 <a@example.com>: Recipient address rejected: Quota exceeded (mailbox for user is full)',
    'permanent',
    'mailbox-full',
  ],
  ['450 4.7.25 Client host rejected: cannot find your reverse hostname', 'temporary', 'policy'],
  // Exim
  ['550 Unrouteable address', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 No such user here', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 No Such User Here"', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 Verification failed for <bounce@shop.example> 550 Sender verify failed', 'permanent', 'policy'],
  ['451 Temporary local problem - please try later', 'temporary', 'remote-error'],
  [
    '550-Verification failed for <x@shop.example>\r\n550-No Such User Here\r\n550 Sender verify failed',
    'permanent',
    'policy',
  ],
  ['451 Greylisted, please try again in 180 seconds', 'temporary', 'greylisted'],
  ['550 relay not permitted', 'permanent', 'policy'],
  // qmail, Sendmail, others
  ['550 sorry, no mailbox here by that name. (#5.7.17)', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 5.1.1 <a@example.com>... User unknown', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 User unknown', 'permanent', 'mailbox-not-found', 'suppress'],
  ['551 User not local; please try <a@example.net>', 'permanent', 'refused'],
  ['552 Requested mail action aborted: exceeded storage allocation', 'permanent', 'mailbox-full'],
  ['550 5.7.1 Unknown user, message blocked by policy', 'permanent', 'policy'],
  ['553 5.1.3 Bad recipient address syntax', 'permanent', 'mailbox-not-found', 'suppress'],
  ['550 permanent failure for one or more recipients (a@example.com:blocked)', 'permanent', 'blocked'],
  ['550 Requested action not taken', 'permanent', 'refused'],
  ['450 Requested action not taken', 'temporary', 'remote-error'],
  ['421 Too many concurrent SMTP connections', 'temporary', 'rate-limited'],
  ['550 4.2.2 over quota', 'permanent', 'mailbox-full'],
  ['503 5.5.1 Bad sequence of commands', 'permanent', 'refused'],
  ['530 5.7.0 Must issue a STARTTLS command first', 'permanent', 'tls'],
  ['556 5.1.10 Recipient address has null MX', 'permanent', 'mailbox-not-found', 'suppress'],
];

const elsewhere: [SmtpStage, ...Row][] = [
  [
    'banner',
    '554 5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org',
    'permanent',
    'blocked',
  ],
  ['banner', '554 mx.example.com ESMTP not accepting messages', 'permanent', 'blocked'],
  ['banner', '421 4.3.2 Service not available, closing transmission channel', 'temporary', 'remote-error'],
  ['banner', '450 4.7.1 slow down', 'temporary', 'policy'],
  ['ehlo', '550 5.7.1 HELO/EHLO command rejected', 'permanent', 'policy'],
  ['ehlo', '504 5.5.2 need fully-qualified hostname', 'permanent', 'blocked'],
  ['mail', '550 5.1.1 sender unknown', 'permanent', 'mailbox-not-found'],
  ['mail', '550 5.7.1 sender rejected', 'permanent', 'policy'],
  ['mail', '553 5.1.8 sender domain does not exist', 'permanent', 'policy'],
  ['mail', '552 5.3.4 Message size exceeds fixed limit', 'permanent', 'content-rejected'],
  ['mail', '452 4.3.1 out of memory', 'temporary', 'remote-error'],
  ['data', '554 5.5.1 no valid recipients', 'permanent', 'content-rejected'],
  ['data', '451 4.3.0 try later', 'temporary', 'remote-error'],
  [
    'dot',
    "554 delivery error: dd This user doesn't have a yahoo.com account (a@yahoo.com) [0] - mta1",
    'permanent',
    'mailbox-not-found',
  ],
  ['dot', '550 5.1.1 User unknown', 'permanent', 'mailbox-not-found'],
  [
    'dot',
    '550-5.7.26 This mail has been blocked because the sender is unauthenticated. Gmail requires all senders to authenticate with either SPF or DKIM.\r\n550 5.7.26 - gsmtp',
    'permanent',
    'policy',
  ],
  [
    'dot',
    '552 5.7.0 This message was blocked because its content presents a potential security issue. - gsmtp',
    'permanent',
    'blocked',
  ],
  [
    'dot',
    '550 5.7.1 [203.0.113.7] Our system has detected that this message is likely unsolicited mail. - gsmtp',
    'permanent',
    'content-rejected',
  ],
  ['dot', '554 5.6.0 malformed message', 'permanent', 'content-rejected'],
  ['dot', '554 Transaction failed', 'permanent', 'content-rejected'],
  ['dot', '554 5.7.1 Spam message rejected', 'permanent', 'content-rejected'],
  ['dot', '451 4.7.1 Greylisting in action, please come back later', 'temporary', 'greylisted'],
  ['dot', '421 4.4.2 timeout', 'temporary', 'remote-error'],
  ['dot', '554 5.4.6 too many hops', 'permanent', 'policy'],
  ['starttls', '454 4.7.0 TLS not available due to local problem', 'temporary', 'tls'],
  ['starttls', '554 5.7.3 unable to initialise security subsystem', 'temporary', 'tls'],
  ['auth', '535 5.7.8 authentication credentials invalid', 'temporary', 'our-side'],
  ['auth', '535 5.1.1 whatever', 'temporary', 'our-side'],
];

for (const [stage, text, kind, category, suppress] of [
  ...rcpt.map((row): [SmtpStage, ...Row] => ['rcpt', ...row]),
  ...elsewhere,
]) {
  test(`${stage}: ${text.replaceAll('\r\n', ' / ').slice(0, 100)}`, () => {
    const reply = parseReply(text);
    assert.ok(reply, 'the row is a reply');
    const outcome = judge({ stage, reply, relay: false });
    assert.deepEqual(
      { kind: outcome.kind, category: outcome.category, suppress: outcome.suppress },
      { kind, category, suppress: suppress === 'suppress' },
    );
    assert.equal(outcome.smtpCode, reply.code);
    assert.ok(outcome.advice.endsWith('.'), 'advice is a sentence');
  });
}

test('no reply at any stage but RCPT and the DNS suppresses, whatever it says', () => {
  const reply = parseReply('550 5.1.1 no such user');
  assert.ok(reply);
  for (const stage of [
    'banner',
    'ehlo',
    'starttls',
    'tls',
    'auth',
    'mail',
    'data',
    'dot',
    'reset',
    'connect',
  ] as const) {
    assert.equal(judge({ stage, reply, relay: false }).suppress, false, stage);
  }
});

test('421 and every other 4xx is temporary at every stage', () => {
  for (const stage of ['banner', 'ehlo', 'auth', 'mail', 'rcpt', 'data', 'dot'] as const) {
    for (const text of ['421 5.1.1 bye', '450 no', '499 5.7.1 odd']) {
      const reply = parseReply(text);
      assert.ok(reply);
      assert.equal(judge({ stage, reply, relay: false }).kind, 'temporary', `${stage} ${text}`);
    }
  }
});

test('what is no reply is temporary', () => {
  for (const cause of ['ECONNREFUSED', 'ETIMEDOUT', 'ECONNRESET', 'EPROTOCOL', 'ESERVFAIL', 'anything', undefined]) {
    for (const stage of ['dns', 'connect', 'banner', 'tls', 'mail', 'dot'] as const) {
      const outcome = judge({ stage, relay: false, message: 'm', ...(cause === undefined ? {} : { cause }) });
      assert.equal(outcome.kind, 'temporary');
      assert.equal(outcome.smtpCode, null);
      assert.equal(outcome.reply, 'm');
    }
  }
});

test('trouble at our own relay is ours: authentication it wants or refuses never bounces', () => {
  const reply = parseReply('530 5.7.0 Authentication required');
  assert.ok(reply);
  const outcome = judge({ stage: 'mail', reply, relay: true });
  assert.deepEqual([outcome.kind, outcome.category, outcome.owner], ['temporary', 'our-side', 'our-side']);
  const local = { code: 538, enhanced: '5.7.11', text: 'no TLS' };
  assert.equal(judge({ stage: 'auth', local, relay: true }).kind, 'temporary');
});

test('refusals of our own', () => {
  const rows: [SmtpStage, number, string, Outcome['kind'], Category, boolean][] = [
    ['dns', 556, '5.1.10', 'permanent', 'domain-not-found', true],
    ['dns', 550, '5.1.2', 'permanent', 'domain-not-found', true],
    ['dns', 550, '5.4.4', 'permanent', 'domain-not-found', false],
    ['dns', 554, '5.4.4', 'permanent', 'policy', false],
    ['starttls', 550, '5.7.10', 'permanent', 'tls', false],
    ['mail', 552, '5.3.4', 'permanent', 'content-rejected', false],
    ['mail', 553, '5.6.7', 'permanent', 'content-rejected', false],
    ['mail', 554, '5.6.3', 'permanent', 'content-rejected', false],
    ['rcpt', 553, '5.1.3', 'permanent', 'mailbox-not-found', false],
    ['data', 554, '5.4.6', 'permanent', 'policy', false],
  ];
  for (const [stage, code, enhanced, kind, category, suppress] of rows) {
    const outcome = judge({ stage, local: { code, enhanced, text: 't' }, relay: false });
    assert.deepEqual([outcome.kind, outcome.category, outcome.suppress], [kind, category, suppress], enhanced);
  }
});
