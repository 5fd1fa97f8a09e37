import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accepted, GOOD, refusal } from '../../../test/kit/submit.ts';
import { parseAddress } from '../address.ts';

const SENDERS: [from: string, name: string, address: string, text?: string][] = [
  ['ann@shop.example', '', 'ann@shop.example'],
  ['<ann@shop.example>', '', 'ann@shop.example'],
  ['Ann B. Miller <ann@shop.example>', 'Ann B. Miller', 'ann@shop.example'],
  ['"Miller, Ann" <ann@shop.example>', 'Miller, Ann', 'ann@shop.example', '"Miller, Ann" <ann@shop.example>'],
  [
    '=?iso-8859-1?Q?M=FCller=2C_Ann?= <ann@shop.example>',
    'Müller, Ann',
    'ann@shop.example',
    '"Müller, Ann" <ann@shop.example>',
  ],
  ['"=?utf-8?q?M=C3=BCller?=" <ann@shop.example>', 'Müller', 'ann@shop.example'],
  ['Ann\r\n Miller\r\n <ann@shop.example>', 'Ann Miller', 'ann@shop.example'],
  ['ann@shop.example (Ann Miller)', 'Ann Miller', 'ann@shop.example'],
  ['(hello) Ann <ann@shop.example> (there)', 'Ann', 'ann@shop.example'],
  ['"ann b"@shop.example', '', '"ann b"@shop.example'],
  ['ann@Bücher.example', '', 'ann@bücher.example'],
  [
    '=?utf-8?q?ann=40shop=2Eexample?= <ann@shop.example>',
    'ann@shop.example',
    'ann@shop.example',
    '"ann@shop.example" <ann@shop.example>',
  ],
  [
    '"ann@shop.example" <ann@shop.example>',
    'ann@shop.example',
    'ann@shop.example',
    '"ann@shop.example" <ann@shop.example>',
  ],
  [
    'ann@shop.example <ann@shop.example>',
    'ann@shop.example',
    'ann@shop.example',
    '"ann@shop.example" <ann@shop.example>',
  ],
  [
    '"orders@Mail.Shop.example" <ann@shop.example>',
    'orders@Mail.Shop.example',
    'ann@shop.example',
    '"orders@Mail.Shop.example" <ann@shop.example>',
  ],
  [
    '"Ann (ann@home.example) via Shop" <ann@shop.example>',
    'Ann (ann@home.example) via Shop',
    'ann@shop.example',
    '"Ann (ann@home.example) via Shop" <ann@shop.example>',
  ],
  ['"@shop" <ann@shop.example>', '@shop', 'ann@shop.example', '"@shop" <ann@shop.example>'],
  [
    '=?utf-8?q?=3D=3Futf-8=3Fq=3Fx=3F=3D?= <ann@shop.example>',
    '=?utf-8?q?x?=',
    'ann@shop.example',
    '"=?utf-8?q?x?=" <ann@shop.example>',
  ],
  ['=?UTF-8?Q?Are_you_there??= <ann@shop.example>', 'Are you there?', 'ann@shop.example'],
];
for (const [from, name, address, text] of SENDERS) {
  test(`From is parsed: ${JSON.stringify(from)}`, () => {
    const mail = accepted(`From: ${from}\r\n\r\nx\r\n`);
    assert.deepEqual([mail.from.name, mail.from.address], [name, address]);
    assert.equal(mail.fromText, text ?? (name === '' ? address : `${name} <${address}>`));
    const again = parseAddress(mail.fromText);
    assert.ok(again.ok && again.value.address === address, 'the displayed form is parsed again');
    assert.equal(again.value.name, name);
  });
}

const IMPOSTORS: [from: string, expected: RegExp][] = [
  ['', /is empty/],
  ['nobody', /is not an email address/],
  ['Ann', /is not an email address/],
  ['ann@shop.example, bob@shop.example', /has 2 addresses/],
  ['Ann <ann@shop.example>, Bob <bob@evil.example>', /has 2 addresses/],
  ['<ann@shop.example> <bob@evil.example>', /two addresses that are not separated by a comma/],
  ['Shop: ann@shop.example;', /is a group/],
  ['undisclosed-recipients:;', /is a group/],
  ['ann@shop.example;', /has a semicolon without a group/],
  ['; Ann <ann@shop.example>', /has a semicolon without a group/],
  ['Ann <ann@shop.example>;;', /has a semicolon without a group/],
  ['"ceo@bank.example" <ann@shop.example>', /is an address of another domain; remove it/],
  [`"'ceo@bank.example'" <ann@shop.example>`, /is an address of another domain/],
  ['"<ceo@bank.example>" <ann@shop.example>', /is an address of another domain/],
  ['"ceo@notshop.example" <ann@shop.example>', /is an address of another domain/],
  ['"ceo@ü.example" <ann@shop.example>', /is an address of another domain/],
  ['"Bank \u202eelpmaxe.pohs" <ann@shop.example>', /has a control character in its display name/],
  ['=?utf-8?q?Bank_=E2=81=A6x?= <ann@shop.example>', /has a control character in its display name/],
  ['ann@shop.example (Bank\u2069)', /has a control character in a comment/],
  ['=?utf-8?q?ceo=40bank=2Eexample?= <ann@shop.example>', /hides another address in encoded text/],
  ['=?utf-8?b?Y2VvQGJhbmsuZXhhbXBsZQ==?= <ann@shop.example>', /hides another address/],
  ['"=?utf-8?q?ceo=40bank=2Eexample?=" <ann@shop.example>', /hides another address/],
  ['=?utf-8?q?ceo?= =?utf-8?q?=40?= =?utf-8?q?bank?= <ann@shop.example>', /hides another address/],
  ['=?utf-8?b?Y2Vv77ygYmFuay5leGFtcGxl?= <ann@shop.example>', /hides another address/],
  ['ceo＠bank.example <ann@shop.example>', /hides another address/],
  ['ann@shop.example (ceo@bank.example)', /has an address in a comment/],
  ['ann@shop.example (=?utf-8?q?ceo=40bank?=)', /has an address in a comment/],
  ['Ann (ceo@bank.example) <ann@shop.example>', /has an address in a comment/],
  ['ceo@bank.example <ann@shop.example>', /has an @ in its display name/],
  ['CEO ceo @bank "x" <ann@shop.example>', /has an @ in its display name/],
  ['ceo@bank.example <ann@shop.example> x', /has text after an address/],
  ['ann(evil)@shop.example', /has/],
  ['ann@shop.example(x)@evil.example', /has/],
  ['=?utf-8?q?ann=40shop=2Eexample?=', /is not an email address/],
  ['=?utf-8?q?a=0D=0ABcc=3A_b?= <ann@shop.example>', /has a control character in its display name/],
  ['"Ann <ann@shop.example>', /an unclosed "/],
  ['Ann <ann@shop.example', /an unclosed </],
  ['Ann <@route.example:ann@shop.example>', /source route/],
  ['ann@[192.0.2.1]', /an IP address as its domain/],
  ['ann@localhost', /without a dot/],
  ['ann@@shop.example', /more than one @/],
];
for (const [from, expected] of IMPOSTORS) {
  test(`From is rejected: ${JSON.stringify(from)}`, () => {
    const text = refusal(`From: ${from}\r\n\r\nx\r\n`);
    assert.match(text, /^550 5\.7\.1 the From field /);
    assert.match(text, expected);
  });
}

const ORDERS: [fields: string, expected: RegExp][] = [
  ['X-Postrider-Tag: a b', /X-Postrider-Tag: a b is not valid; a tag is 1 to 64 characters/],
  [`X-Postrider-Tag: ${'x'.repeat(65)}`, /a tag is 1 to 64/],
  ['X-Postrider-Tag: grün', /a tag is 1 to 64/],
  [`X-Postrider-Tag: ${Array.from({ length: 11 }, (_, i) => `t${i}`).join()}`, /has 11 tags; at most 10 are accepted/],
  ['X-Postrider-Metadata-: x', /must have a name of 1 to 255/],
  ['X-Postrider-Metadata-A: x\r\nx-postrider-metadata-a: y', /x-postrider-metadata-a occurs more than once/],
  ['X-Postrider-Metadata-A: =?utf-8?q?a=0Ab?=', /control character/],
  [Array.from({ length: 21 }, (_, i) => `X-Postrider-Metadata-${i}: x`).join('\r\n'), /more than 20/],
  [
    `X-Postrider-Metadata-A: ${Array.from({ length: 12 }, () => 'x'.repeat(900)).join('\r\n ')}`,
    /more than 10000 characters/,
  ],
  ['X-Postrider-Track: yes', /X-Postrider-Track: yes is not valid; use opens, clicks, "opens, clicks", or none/],
  ['X-Postrider-Track: none, opens', /use opens/],
  ['X-Postrider-Track:', /use opens/],
  ['X-Postrider-Track: opens\r\nX-Postrider-Track: clicks', /occurs more than once/],
  ['Idempotency-Key:', /1 to 255 printable/],
  [`Idempotency-Key: ${'k'.repeat(256)}`, /1 to 255 printable/],
  ['Idempotency-Key: grün', /1 to 255 printable/],
  ['Idempotency-Key: a\r\nIdempotency-Key: a', /occurs more than once/],
  ['Idempotency-Key: a\r\nResend-Idempotency-Key: a', /idempotency key occurs more than once/],
  ['Resend-Idempotency-Key:', /Resend-Idempotency-Key must be 1 to 255 printable/],
  ['X-Sandbox-Outcome: bounced\r\nX-Sandbox-Outcome: delayed', /occurs more than once/],
];
for (const [fields, expected] of ORDERS) {
  test(`an invalid control header rejects the message: ${JSON.stringify(fields.slice(0, 50))}`, () => {
    const text = refusal(`${GOOD}${fields}\r\n\r\nx\r\n`);
    assert.match(text, /^550 5\.6\.0 /);
    assert.match(text, expected);
  });
}

test('control headers are accepted in every valid form', () => {
  const read = (fields: string) => accepted(`${GOOD}${fields}\r\n\r\nx\r\n`);
  assert.deepEqual(read('X-Postrider-Tag: a, b ,, c_-9 ,\r\nX-POSTRIDER-TAG:d').tags, ['a', 'b', 'c_-9', 'd']);
  assert.deepEqual(read('X-Postrider-Track: none').track, { opens: false, clicks: false });
  assert.deepEqual(read('X-Postrider-Track: Clicks').track, { opens: false, clicks: true });
  assert.deepEqual(Object.entries(read('X-Postrider-Metadata-__proto__: x').metadata), [['__proto__', 'x']]);
  assert.deepEqual(read('X-Postrider-Metadata-Empty:').metadata, { Empty: '' });
  assert.equal(read(`Idempotency-Key: ${'k'.repeat(255)}`).idempotencyKey, 'k'.repeat(255));
  const resend = read('resend-idempotency-key: order 17');
  assert.equal(resend.idempotencyKey, 'order 17');
  assert.doesNotMatch(resend.content.toString(), /order 17/);
  assert.ok(!read('X-Postrider: x\r\nX-Postrider-: y').content.includes('X-Postrider-:'));
});

test("Authentication-Results with this host's name are removed, others stay (RFC 8601 §5)", () => {
  const removed = [
    'Authentication-Results: mx.host.example; dkim=pass header.d=bank.example',
    'authentication-results:  MX.host.EXAMPLE 1;\r\n spf=pass',
    'Authentication-Results: (a (note) of ours) "mx.host.example"; none',
  ];
  const others = [
    'Authentication-Results: mx.mx.host.example; dkim=pass',
    'Authentication-Results: mx.host.example.example; dkim=pass',
    'Authentication-Results: other.example; dkim=pass (mx.host.example)',
    'X-Authentication-Results: mx.host.example; dkim=pass',
  ];
  const mail = `From: ann@shop.example\r\nDate: x\r\nMessage-ID: <1@shop.example>\r\n${[...removed, ...others].join('\r\n')}\r\n\r\nx\r\n`;
  const { content } = accepted(mail);
  const expected = `From: ann@shop.example\r\nDate: x\r\nMessage-ID: <1@shop.example>\r\n${others.join('\r\n')}\r\n\r\nx\r\n`;
  assert.equal(content.toString(), expected);
});

test('only leading mbox lines are dropped', () => {
  const rest = 'From: ann@shop.example\r\nDate: x\r\nMessage-ID: <1@shop.example>\r\n\r\nFrom here on\r\n';
  for (const lines of [
    'From ann@shop.example Mon Nov 23 10:00:00 2026\r\n',
    '>From ann@shop.example Mon Nov 23 10:00:00 2026\r\n',
    'From - Mon Nov 23 10:00:00 2026\r\n',
    'From MAILER-DAEMON Mon Nov 23 10:00:00 2026\r\n',
    'From \r\n',
    'From grüße@shop.example Mon Nov 23 10:00:00 2026\r\n',
    'From ann Mon Nov 23 10:00:00 2026 remote from host\r\n>From bob Mon Nov 23 09:00:00 2026\r\n',
  ]) {
    const { content, smtpUtf8 } = accepted(lines + rest);
    assert.deepEqual([content.toString(), smtpUtf8], [rest, false], lines);
  }
  // A field with a space before its colon is not a separator, and a separator is at the start.
  assert.match(refusal(`From : ann@shop.example\r\n\r\nx\r\n`), /space before its colon/);
  assert.match(
    refusal(`Subject: x\r\nFrom ann@shop.example Mon\r\n${rest}`),
    /line 2 of the header .* is not a header field/,
  );
  assert.match(refusal(`From ann@shop.example Mon\r\n continued\r\n${rest}`), /line 1 of the header/);
  assert.match(refusal(`Fromage x\r\n${rest}`), /line 1 of the header/);
});

test('the first field with raw UTF-8 is reported with its line', () => {
  const cases: [fields: string, name: string, line: number][] = [
    ['Subject: Grüße', 'Subject', 4],
    ['X-PHP-Originating-Script: 1000:größe.php\r\nSubject: ü', 'X-PHP-Originating-Script', 4],
    ['Subject: a\r\n b\r\n ü', 'Subject', 6],
    ['Bcc: ü@x.example\r\nX-Note: ü', 'X-Note', 5],
  ];
  for (const [fields, name, line] of cases)
    assert.deepEqual(accepted(`${GOOD}${fields}\r\n\r\nx\r\n`).utf8Field, { name, line }, fields);
  for (const fields of ['Subject: a', 'Bcc: ü@x.example', 'X-Postrider-Metadata-a: ü']) {
    const { smtpUtf8, utf8Field } = accepted(`${GOOD}${fields}\r\n\r\nx\r\n`);
    assert.deepEqual([smtpUtf8, utf8Field], [false, undefined], fields);
  }
});
