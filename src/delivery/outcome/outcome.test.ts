/** Classification of SMTP replies: every line of replies.txt, and the policy at the top of outcome.ts. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseReply } from '../../mail/smtp-reply.ts';
import { errorSentence } from '../../net/error-sentence.ts';
import type { SmtpStage } from '../../net/smtp-types.ts';
import { type Category, classify, type Outcome, type Owner } from './outcome.ts';
import { explanations } from './outcome-texts.ts';
import { matchReply, normalizeReply } from './reply-match.ts';
import { replyRules } from './reply-rules.ts';

interface Sample {
  stage: SmtpStage;
  recipientCount: number;
  category: Category;
  owner: Owner;
  suppress: string;
  /** Although the code is 5xx. */
  isTemporary: boolean;
  source: string;
  reply: string;
}

function readSamples(): Sample[] {
  const samples: Sample[] = [];
  let section: Omit<Sample, 'source' | 'reply'> | undefined;
  for (const line of readFileSync(new URL('replies.txt', import.meta.url), 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    if (line.startsWith('== ')) {
      const [where = '', category = '', owner = '', suppress = '', kind] = line.slice(3).split(' | ');
      const [stage, several] = where.split(' of ');
      section = {
        stage: stage as SmtpStage,
        recipientCount: several === undefined ? 1 : 3,
        category: category as Category,
        owner: owner as Owner,
        suppress,
        isTemporary: kind === 'tried again',
      };
      continue;
    }
    const [, source = '', reply = ''] = /^(.*?): (?=[45])(.*)$/.exec(line) ?? [];
    assert.ok(section && reply !== '', `not a valid sample: ${line}`);
    samples.push({ ...section, source, reply: reply.replaceAll('\\n', '\r\n') });
  }
  return samples;
}

const samples = readSamples();

function suppressionOf({ suppress, suppressDays }: Outcome): string {
  if (!suppress) return 'not suppressed';
  return suppressDays === undefined ? 'suppressed permanently' : `suppressed for ${suppressDays} days`;
}

test('there are at least 300 distinct reply samples, and every category has one', () => {
  assert.ok(new Set(samples.map((one) => one.reply)).size >= 300);
  const never = ['accepted', 'network', 'expired', 'warm-up', 'relay-limit'];
  const known = new Set<string>(samples.map((one) => one.category));
  assert.deepEqual(
    Object.keys(explanations).filter((category) => !known.has(category) && !never.includes(category)),
    [],
  );
});

const RECIPIENT = 'ann@example.com';
/** Also temporary with a 5xx. */
const PASSING = ['blocked', 'internal', 'greylisted', 'rate-limited', 'remote-error'];

for (const { stage, recipientCount, category, owner, suppress, isTemporary, source, reply: text } of samples) {
  test(`${stage}, ${source}: ${text.replaceAll('\r\n', ' / ').slice(0, 100)}`, () => {
    const reply = parseReply(text);
    assert.ok(reply, 'the line is a reply');
    const outcome = classify({ stage, reply, relay: false, recipient: RECIPIENT, recipientCount });
    const passes = isTemporary || PASSING.includes(category) || stage === 'starttls';
    const kind = reply.code >= 500 && !passes ? 'permanent' : 'temporary';
    assert.deepEqual(
      { kind: outcome.kind, category: outcome.category, owner: outcome.owner, suppress: suppressionOf(outcome) },
      { kind, category, owner, suppress },
    );
    assert.equal(outcome.smtpCode, reply.code);
    assert.ok(outcome.advice.endsWith('.'), 'advice ends with a period');
  });
}

test('every row of the table is the first match for a sample', () => {
  const used = new Set(
    samples.map(({ stage, reply }) => matchReply(normalizeReply(parseReply(reply)!, RECIPIENT), stage)),
  );
  const unused = replyRules.flatMap((rule, index) => (used.has(rule) ? [] : [`row ${index}: ${rule.category}`]));
  assert.deepEqual(unused, []);
});

test('text about the sender, host, a blocklist, or a policy prevents suppression for any code', () => {
  const words = [
    'your IP 203.0.113.7 is listed',
    'Access denied by DNSBL',
    'invalid sender address',
    'your domain has no valid PTR',
    'Mail from your domain is not accepted',
    'refused for reasons of policy',
    'the client host is not welcome',
    'bad reputation',
    'temporarily disabled',
    'that domain is not in my list of allowed rcpthosts',
  ];
  for (const code of ['550 5.1.1', '550 5.1.3', '550 5.1.6', '550 5.1.10', '550 5.2.1', '550']) {
    for (const detail of words) {
      const reply = parseReply(`${code} User unknown: ${detail}`);
      assert.ok(reply);
      assert.equal(classify({ stage: 'rcpt', reply, relay: false }).suppress, false, `${code} ${detail}`);
    }
    const control = parseReply(`${code} User unknown`);
    assert.ok(control);
    assert.equal(classify({ stage: 'rcpt', reply: control, relay: false }).suppress, true, code);
  }
});

function isSuppressed(text: string): boolean {
  const reply = parseReply(text);
  assert.ok(reply);
  return classify({ stage: 'rcpt', reply, relay: false, recipient: RECIPIENT }).suppress;
}

test('a mailbox that is disabled only for a while is not suppressed, in any language', () => {
  for (const text of [
    'mailbox is currently disabled',
    'mailbox is currently unavailable',
    'account suspended until further notice',
    'Postfach vorübergehend gesperrt',
    'Postfach voruebergehend gesperrt',
    'Benutzerkonto ist derzeit gesperrt',
    'Boîte aux lettres temporairement désactivée',
    'Compte actuellement suspendu',
    'Cuenta temporalmente suspendida',
    'Casella temporaneamente sospesa',
    'Conta temporariamente suspensa',
    'Conta atualmente suspensa',
    'Mailbox tijdelijk geblokkeerd',
    'Skrzynka tymczasowo zablokowana',
    'Konto jest obecnie zablokowane',
    'Kontot är tillfälligt spärrat',
    'Kontot är för närvarande spärrat',
    'Postkassen er midlertidig lukket',
    'Tili on väliaikaisesti suljettu',
    'Schránka je dočasně zablokovaná',
    'A postafiók ideiglenesen letiltva',
    'Contul este temporar suspendat',
    'Cont suspendat momentan',
    'Kullanıcı geçici olarak devre dışı',
    'Почтовый ящик временно заблокирован',
    'Ο λογαριασμός είναι προσωρινά κλειδωμένος',
    '用户暂时停用',
    'アカウントは一時的に停止されています',
    '계정이 일시적으로 정지되었습니다',
  ]) {
    for (const code of ['550', '550 5.1.1', '550 5.2.1']) {
      assert.equal(isSuppressed(`${code} ${text}`), false, `${code} ${text}`);
    }
  }
  for (const text of ['Cet utilisateur est actuellement inconnu', 'no user by that name is currently available']) {
    assert.equal(isSuppressed(`550 5.1.1 ${text}`), true, text);
  }
});

test("a problem of the server's own directory suppresses no address", () => {
  for (const text of [
    'database error',
    'LDAP server unavailable',
    'User lookup failed',
    'recipient lookup error',
    'timeout while verifying recipient',
    'Recipient verification timed out',
    'User not found: connection to backend failed',
    'unable to verify user: cannot connect to database',
    'Could not verify user: LDAP bind failed',
    'directory service unavailable: user unknown',
    'User unknown (MySQL server has gone away)',
    'No such user here, LDAP lookup failed',
    'user database not available',
  ]) {
    assert.equal(isSuppressed(`550 5.1.1 ${text}`), false, text);
  }
  for (const text of [
    'User unknown; not found in LDAP',
    'User unknown in ldap table',
    'User not in our database',
    'user lookup failed: no such user',
    'LDAP lookup failed: user not found',
    'User unknown: LDAP lookup returned no entry',
    'not listed in the directory',
    'address not listed in the database',
    'user not found in database, delivery failed',
    'no entry found in the SQL database',
  ]) {
    assert.equal(isSuppressed(`550 5.1.1 ${text}`), true, text);
  }
});

test('a 5xx at the banner or EHLO is retried as a host rejection and suppresses no address', () => {
  for (const stage of ['banner', 'ehlo'] as const) {
    for (const text of ['500 what', '521 no mail', '550 5.1.1 user unknown', '552 5.2.2 full', '554 spam', '599 odd']) {
      const reply = parseReply(text);
      assert.ok(reply);
      const { kind, category, owner, suppress } = classify({ stage, reply, relay: false });
      assert.deepEqual(
        [kind, category, owner, suppress],
        ['temporary', 'blocked', 'service', false],
        `${stage} ${text}`,
      );
    }
  }
});

test('only a reply to RCPT, or to the final dot for one recipient, suppresses an address', () => {
  const reply = parseReply('550 5.1.1 no such user');
  assert.ok(reply);
  const suppresses = (stage: SmtpStage, recipientCount?: number): boolean =>
    classify({ stage, reply, relay: false, ...(recipientCount !== undefined && { recipientCount }) }).suppress;
  for (const stage of ['banner', 'ehlo', 'starttls', 'tls', 'auth', 'mail', 'data', 'reset', 'connect'] as const) {
    assert.equal(suppresses(stage, 1), false, stage);
  }
  assert.deepEqual([suppresses('rcpt', 3), suppresses('dot'), suppresses('dot', 1)], [true, true, true]);
  assert.equal(suppresses('dot', 2), false);
});

test('a 5xx that asks to retry later is temporary, with the category of its text', () => {
  const laters = [
    'try again later',
    'please try again in 300 s',
    'Please try later',
    'please retry in 5 minutes',
    'come back later',
    'try again after 10 min',
    'please wait and try again',
    'the delivery will be possible at a later time',
    'please resend your message later',
    'bitte später erneut versuchen',
    'veuillez réessayer plus tard',
    'inténtelo de nuevo más tarde',
    'riprovare più tardi',
    'tente novamente mais tarde',
    'probeer het later opnieuw',
    'spróbuj później',
    'försök igen senare',
    'zkuste to později',
    'повторите попытку позже',
    '请稍后重试',
    '後でもう一度お試しください',
  ];
  for (const later of laters) {
    for (const start of ['550 5.2.1 mailbox disabled', '550 User unknown', '554 5.7.1 policy', '550 not now']) {
      const reply = parseReply(`${start}, ${later}`);
      assert.ok(reply);
      const { kind, suppress } = classify({ stage: 'rcpt', reply, relay: false });
      assert.deepEqual([kind, suppress], ['temporary', false], reply.text);
    }
  }
  for (const now of [
    'check the address and try again',
    'please correct it and retry',
    'do not retry',
    'resolve and retry',
  ]) {
    const reply = parseReply(`550 5.1.1 User unknown, ${now}`);
    assert.ok(reply);
    assert.equal(classify({ stage: 'rcpt', reply, relay: false }).kind, 'permanent', now);
  }
});

test('the address is recognized anywhere in the text, in any brackets, or in part', () => {
  const sentences = [
    'User @ does not exist',
    '@: user unknown',
    '@ unknown',
    'no such user: @',
    'no mailbox for @ here',
    'we do not have a user @',
    'the recipient @ could not be found',
    'Mailbox @ is disabled',
    'Benutzer @ unbekannt',
    'El usuario @ no existe',
    'Destinataire @ inconnu',
    'Пользователь @ не найден',
  ];
  for (const sentence of sentences) {
    for (const written of [
      'ann@example.com',
      '<ann@example.com>',
      '(ann@example.com)',
      '"ann@example.com"',
      "'ann@example.com'",
      '<ann>',
      '"ann"',
    ]) {
      const reply = parseReply(`550 ${sentence.replace('@', written)}`);
      assert.ok(reply);
      const evidence = { stage: 'rcpt', reply, relay: false, recipient: 'ann@example.com' } as const;
      assert.equal(classify(evidence).suppress, true, reply.text);
      assert.equal(classify({ ...evidence, recipient: 'Ann@Example.com' }).suppress, true, reply.text);
    }
  }
});

test("words in the recipient's address and domain do not affect the category", () => {
  for (const recipient of [
    'sender@spamhaus.example',
    'policy@blacklist.example',
    'relay+try.again.later@dnsbl.example',
  ]) {
    const [local, domain] = recipient.split('@');
    for (const text of [
      `"${local}": no such user at ${domain}`,
      `<${recipient}>: no such user`,
      `${recipient} is unknown`,
    ]) {
      const reply = parseReply(`550 ${text}`);
      assert.ok(reply);
      const { category, suppress } = classify({ stage: 'rcpt', reply, relay: false, recipient });
      assert.deepEqual([category, suppress], ['mailbox-not-found', true], text);
    }
  }
});

test('421 and every other 4xx is temporary at every stage', () => {
  for (const stage of ['banner', 'ehlo', 'auth', 'mail', 'rcpt', 'data', 'dot'] as const) {
    for (const text of ['421 5.1.1 bye', '450 no', '499 5.7.1 odd']) {
      const reply = parseReply(text);
      assert.ok(reply);
      assert.equal(classify({ stage, reply, relay: false }).kind, 'temporary', `${stage} ${text}`);
    }
  }
});

test('an error without a reply is temporary', () => {
  for (const cause of ['ECONNREFUSED', 'ETIMEDOUT', 'ECONNRESET', 'EPROTOCOL', 'ESERVFAIL', 'anything', undefined]) {
    for (const stage of ['dns', 'connect', 'banner', 'tls', 'mail', 'dot'] as const) {
      const outcome = classify({ stage, relay: false, message: 'm', ...(cause === undefined ? {} : { cause }) });
      assert.equal(outcome.kind, 'temporary');
      assert.equal(outcome.smtpCode, null);
      assert.equal(outcome.reply, 'm');
    }
  }
});

test('relay problems are internal, and authentication failures never bounce', () => {
  const reply = parseReply('530 5.7.0 Authentication required');
  assert.ok(reply);
  const outcome = classify({ stage: 'mail', reply, relay: true });
  assert.deepEqual([outcome.kind, outcome.category, outcome.owner], ['temporary', 'internal', 'service']);
  const local = { code: 538, enhanced: '5.7.11', text: 'no TLS' };
  assert.equal(classify({ stage: 'auth', local, relay: true }).kind, 'temporary');
});

test('a relay that suspends its client, or does not relay for it, bounces nothing and suppresses no address', () => {
  const outcomeOf = (text: string, stage: SmtpStage = 'rcpt'): Outcome => {
    const reply = parseReply(text);
    assert.ok(reply);
    return classify({ stage, reply, relay: true, recipient: RECIPIENT, sender: 'b+1@bounce.example' });
  };
  const ofClient = [
    '550 Your account has been suspended',
    '550 Account suspended',
    '550 The account is suspended for non-payment',
    '550 SMTP account disabled',
    '550 This account has been disabled for outgoing mail',
    '550 Authenticated user account locked due to abuse',
    '550 5.1.1 user b+1@bounce.example suspended',
    '550 Das Konto ist gesperrt',
    '550 Ihr Konto wurde gesperrt',
    '550 Votre compte a été suspendu',
    `554 5.7.1 <${RECIPIENT}>: Recipient address rejected: your account has been locked`,
    '554 5.7.0 Your account is disabled',
    '554 Sending paused for this account. For more information, check the inbox of the email address of your account.',
    '550 Maximum credits exceeded',
    `554 5.7.1 <${RECIPIENT}>: Relay access denied`,
    '550-Please turn on SMTP Authentication in your mail client.',
  ];
  for (const text of ofClient) {
    for (const stage of ['mail', 'rcpt', 'dot'] as const) {
      const { kind, category, owner, suppress } = outcomeOf(text, stage);
      assert.deepEqual([kind, category, owner, suppress], ['temporary', 'internal', 'service', false], text);
    }
  }
  const ofRecipient = [
    `550 5.2.1 <${RECIPIENT}>: account disabled`,
    '550 5.2.1 The email account that you tried to reach is disabled',
    '550 5.2.1 Mailbox disabled',
    '550 5.2.1 Account disabled',
    '550 5.2.1 User account is inactive',
    '550 5.1.1 User suspended',
    '550 Postfach ist gesperrt',
  ];
  for (const text of ofRecipient) {
    const { kind, category, suppress } = outcomeOf(text);
    assert.deepEqual([kind, category, suppress], ['permanent', 'mailbox-disabled', true], text);
  }
});

test("Postrider's own rejections are classified", () => {
  const rows: [SmtpStage, number, string, Outcome['kind'], Category, boolean][] = [
    ['dns', 556, '5.1.10', 'permanent', 'domain-not-found', true],
    ['dns', 550, '5.1.2', 'permanent', 'domain-not-found', true],
    ['dns', 550, '5.4.4', 'permanent', 'domain-not-found', false],
    ['dns', 554, '5.4.4', 'permanent', 'policy', false],
    ['dns', 550, '5.4.6', 'permanent', 'policy', false],
    ['starttls', 550, '5.7.10', 'permanent', 'tls', false],
    ['mail', 552, '5.3.4', 'permanent', 'content-rejected', false],
    ['rcpt', 553, '5.6.7', 'permanent', 'smtputf8', false],
    ['mail', 554, '5.6.3', 'permanent', 'content-rejected', false],
    ['rcpt', 553, '5.1.3', 'permanent', 'mailbox-not-found', false],
    ['data', 554, '5.4.6', 'permanent', 'policy', false],
  ];
  for (const [stage, code, enhanced, kind, category, suppress] of rows) {
    const outcome = classify({ stage, local: { code, enhanced, text: 't' }, relay: false });
    assert.deepEqual([outcome.kind, outcome.category, outcome.suppress], [kind, category, suppress], enhanced);
    if (suppress) assert.equal(outcome.suppressDays, 7);
  }
});

test('MX hosts with non-public addresses are rejected with specific advice', () => {
  const local = {
    code: 554,
    enhanced: '5.4.4',
    text: 'the MX hosts of a.example have addresses that are not public',
  };
  const outcome = classify({ stage: 'dns', local, relay: false });
  assert.equal(outcome.owner, 'service');
  assert.match(outcome.advice, /POSTRIDER_MX_ALLOW/);
  assert.doesNotMatch(outcome.advice, /SPF/);
});

test('a mail loop is rejected with specific advice', () => {
  const local = { code: 550, enhanced: '5.4.6', text: 'the MX record of a.example points to this service' };
  const outcome = classify({ stage: 'dns', local, relay: false });
  assert.equal(outcome.owner, 'service');
  assert.match(outcome.advice, /POSTRIDER_SMTP_HOSTNAME/);
});

test('an outcome shows the readable message instead of the OpenSSL error', () => {
  const [cause, message] = ['ERR_SSL_UNSUPPORTED_PROTOCOL', '…:error:0A000102:SSL routines::unsupported protocol'];
  const outcome = classify({ stage: 'tls', cause, message, relay: false });
  assert.equal(outcome.reply, errorSentence({ cause, message }));
});

test('a reply with only the address of the sender is about the sender', () => {
  const outcomeOf = (text: string): Outcome => {
    const reply = parseReply(text);
    assert.ok(reply);
    return classify({ stage: 'rcpt', reply, relay: false, recipient: RECIPIENT, sender: 'b+1@bounce.example' });
  };
  const refused = outcomeOf('550 5.1.1 <B+1@bounce.example>: User unknown');
  assert.deepEqual([refused.category, refused.owner, refused.suppress], ['policy', 'sender', false]);
  for (const text of [
    `550 5.1.1 <${RECIPIENT}>: User unknown`,
    `550 5.1.1 b+1@bounce.example -> ${RECIPIENT}: User unknown`,
  ]) {
    const unknown = outcomeOf(text);
    assert.deepEqual([unknown.category, unknown.suppress], ['mailbox-not-found', true], text);
  }
});
