import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressSpellings,
  domainToAscii,
  needsSmtpUtf8,
  parseAddress,
  parseAddressList,
  parseBareAddress,
  sameAddressKey,
  wireAddress,
} from './address.ts';

function accepted(text: string) {
  const result = parseAddress(text);
  assert.ok(result.ok, `${text}: ${result.ok ? '' : result.reason}`);
  return result.value;
}

function reason(text: string): string {
  const result = parseAddress(text);
  assert.ok(!result.ok, `${JSON.stringify(text)} was accepted as ${JSON.stringify(result.ok && result.value)}`);
  return result.reason;
}

test('accepts bare addresses, keeping the local part as typed and the domain in lower case', () => {
  assert.deepEqual(accepted('John.Doe+tag@Example.COM'), {
    name: '',
    local: 'John.Doe+tag',
    domain: 'example.com',
    address: 'John.Doe+tag@example.com',
  });
  for (const text of [
    'a@b.example',
    "o'brien@example.com",
    'x!#$%&*/=?^_`{|}~-@example.co',
    ' a@b.example\t',
    '<a@b.example>',
  ]) {
    accepted(text);
  }
});

test('accepts display names, quoted or not', () => {
  const cases: [string, string, string][] = [
    ['Ann <ann@example.com>', 'Ann', 'ann@example.com'],
    ['Ann  B. Lee<ann@example.com>', 'Ann B. Lee', 'ann@example.com'],
    ['"Lee, Ann" <ann@example.com>', 'Lee, Ann', 'ann@example.com'],
    ['"say \\"hi\\" \\\\" < ann@example.com >', 'say "hi" \\', 'ann@example.com'],
    ['"ann@example.org" <ann@example.com>', 'ann@example.org', 'ann@example.com'],
    ['"<a>" <ann@example.com>', '<a>', 'ann@example.com'],
    ['Zoë Müller <zoe@example.com>', 'Zoë Müller', 'zoe@example.com'],
    ['" " <ann@example.com>', '', 'ann@example.com'],
    ['🚀 Ship <a@b.example>', '🚀 Ship', 'a@b.example'],
  ];
  for (const [text, name, address] of cases) {
    assert.deepEqual([accepted(text).name, accepted(text).address], [name, address], text);
  }
});

test('encoded-words in display names and comments are decoded, but not those in quotes', () => {
  const cases: [string, string][] = [
    ['=?UTF-8?Q?Caf=C3=A9?= <a@shop.example>', 'Café'],
    ['=?UTF-8?B?Q2Fmw6k=?=<a@shop.example>', 'Café'],
    ['The =?UTF-8?Q?Caf=C3=A9?= =?UTF-8?Q?_Bar?=  Ltd <a@shop.example>', 'The Café Bar Ltd'],
    ['=?UTF-8?Q?Caf=C3=A9?= "& Bar, Ltd" <a@shop.example>', 'Café & Bar, Ltd'],
    ['=?UTF-8?Q?Caf=C3=A9=2C_=22Bar=22?= <a@shop.example>', 'Café, "Bar"'],
    ['=?cp932?Q?=82=A0?= <a@shop.example>', 'あ'],
    ['=?utf-8?q?_=09a?= <a@shop.example>', 'a'],
    ['a@shop.example (=?UTF-8?Q?Caf=C3=A9?=)', 'Café'],
    ['"=?UTF-8?Q?Caf=C3=A9?=" <a@shop.example>', '=?UTF-8?Q?Caf=C3=A9?='],
    ['=?no-such?Q?x?= <a@shop.example>', '=?no-such?Q?x?='],
  ];
  for (const [text, name] of cases) assert.equal(accepted(text).name, name, text);
  const encodedFlag = (text: string) => {
    const result = parseAddress(text);
    return result.ok ? (result.isEncoded ?? false) : undefined;
  };
  assert.deepEqual(cases.map(([text]) => encodedFlag(text)).slice(0, 2), [true, true]);
  assert.equal(encodedFlag('"=?UTF-8?Q?Caf=C3=A9?=" <a@shop.example>'), false);
  for (const [text, expected] of [
    ['=?utf-8?q?a=0D=0ABcc=3A_b?= <a@shop.example>', /a control character in its display name/],
    ['=?utf-8?q?a=00?= <a@shop.example>', /a control character/],
    ['=?utf-8?q?a=E2=80=AEb?= <a@shop.example>', /text direction control character/],
    ['a@shop.example (=?utf-8?q?ceo=40bank?=)', /an address in a comment/],
    ['a@shop.example (=?utf-8?q?a=0Ab?=)', /a control character in a comment/],
  ] as const)
    assert.match(reason(text), expected, text);
});

test('accepts quoted and UTF-8 local parts and internationalized domains', () => {
  assert.equal(accepted('"john doe"@example.com').local, '"john doe"');
  assert.equal(accepted('"a@b..c"@example.com').address, '"a@b..c"@example.com');
  assert.equal(accepted('Ann <"very \\" odd"@example.com>').local, '"very \\" odd"');
  const utf8 = accepted('用户@例え.jp');
  assert.deepEqual(
    [utf8.local, utf8.domain, needsSmtpUtf8(utf8), wireAddress(utf8)],
    ['用户', '例え.jp', true, '用户@例え.jp'],
  );
  const idn = accepted('info@Müller.example');
  assert.deepEqual(
    [idn.domain, needsSmtpUtf8(idn), wireAddress(idn)],
    ['müller.example', false, 'info@xn--mller-kva.example'],
  );
  assert.equal(accepted('a@例え。jp').domain, '例え.jp');
  accepted('a@xn--mller-kva.example');
});

test('rejects addresses that SMTP cannot carry', () => {
  const cases: [string, RegExp][] = [
    ['', /is empty/],
    ['   ', /is empty/],
    ['ann', /is not an email address/],
    ['@example.com', /nothing before/],
    ['ann@', /no domain/],
    ['ann@localhost', /without a dot/],
    ['ann@[192.0.2.1]', /an IP address as its domain/],
    ['ann@192.0.2.1', /number/],
    ['ann@example.123', /number/],
    ['ann@-example.com', /not allowed/],
    ['ann@example-.com', /not allowed/],
    ['ann@exa_mple.com', /not (allowed|valid)/],
    ['ann@example..com', /empty label/],
    ['ann@.example.com', /empty label/],
    ['ann@example.com.', /empty label/],
    ['.@example.com', /nothing but dots/],
    ['...@example.com', /nothing but dots/],
    [`.${'a'.repeat(62)}@example.com`, /64 bytes/],
    ['a b@example.com', /space/],
    ['a(comment)@example.com', /has a comment inside the address/],
    ['a@(comment)example.com', /has a comment inside the address/],
    ['a@example(comment).com', /has a comment inside the address/],
    ['Ann <a(comment)@example.com>', /has a comment inside the address/],
    ['(Ann)', /a comment in parentheses but no address/],
    ['ann@example.com (Ann', /an unclosed parenthesis/],
    ['Sale :( <ann@example.com>', /an unclosed parenthesis/],
    ['ann@example.com (ceo@bank.example)', /has an address in a comment/],
    ['ann@example.com (ceo＠bank.example)', /has an address in a comment/],
    ['ann@example.com (\u202eelpmaxe)', /text direction control character/],
    ['ann@example.com(x)@evil.example', /has a comment inside|more than one @/],
    [',', /has no address, only commas/],
    ['Lee, Ann <ann@example.com>,', /comma in its display name; put the display name in double quotes/],
    ['a@example.com; b@example.com', /semicolon between addresses; separate them with commas/],
    ['"open@example.com', /quoted/],
    ['""@example.com', /empty quoted/],
    ['a@b@example.com', /more than one @/],
    ['a@example.com, b@example.com', /has 2 addresses; use only one/],
    ['Ann <a@example.com>, Bob <b@example.com>', /has 2 addresses; use only one/],
    ['a@b.example;', /semicolon/],
    ['Friends: a@b.example, c@d.example;', /group|semicolon/],
    ['@relay.example:ann@example.com', /source route/],
    ['<@relay.example:ann@example.com>', /source route/],
    [`${'a'.repeat(65)}@example.com`, /64 bytes/],
    [`${'ü'.repeat(33)}@example.com`, /64 bytes/],
    [`a@${'b'.repeat(64)}.example`, /63/],
    [`a@${'b.'.repeat(130)}example`, /longer/],
    [`${'a'.repeat(60)}@${`${'b'.repeat(60)}.`.repeat(3)}${'c'.repeat(20)}.example`, /254/],
    ['ann@exam\u200bple.com', /invisible/],
    ['an\u202en@example.com', /invisible/],
    ['ann@xn--ü.example', /not valid/],
    ['ann@exa%2emple.com', /not/],
  ];
  for (const [text, pattern] of cases) assert.match(reason(text), pattern, text);
});

test('rejects header injection and deceptive display names', () => {
  for (const control of ['\r\n', '\n', '\r', '\0', '\u0001', '\u007f', '\u0085', '\u2028', '\u2029', '\ud800']) {
    for (const text of [
      `a${control}@b.example`,
      `Ann${control}Bcc: x <a@b.example>`,
      `a@b.example${control}`,
      `"${control}"@b.example`,
    ]) {
      assert.match(reason(text), /control character/, JSON.stringify(text));
    }
  }
  const cases: [string, RegExp][] = [
    ['ceo@bank.example <a@evil.example>', /@.*double quotes/],
    ['Ann <a@b.example> <c@d.example>', /more than one/],
    ['Ann <<a@b.example>>', /./],
    ['Ann <a@b.example', /</],
    ['Ann a@b.example>', />/],
    ['Lee, Ann <a@b.example>', /comma/],
    ['"Ann <a@b.example>', /quote|<|>/],
    ['Ann <>', /no address/],
  ];
  for (const [text, pattern] of cases) assert.match(reason(text), pattern, text);
});

test('lists are split at commas outside quotes, and every issue names its position', () => {
  const list = parseAddressList('a@b.example, "Lee, \\"Ann\\"" <c@d.example> ,Zoë <e@f.example>');
  assert.ok(list.ok);
  assert.deepEqual(
    list.value.map((address) => `${address.name}|${address.address}`),
    ['|a@b.example', 'Lee, "Ann"|c@d.example', 'Zoë|e@f.example'],
  );
  const faulty = parseAddressList('a@b.example,,nobody, c@d.example, @');
  assert.ok(!faulty.ok);
  assert.deepEqual(
    faulty.issues.map(({ index, text }) => [index, text]),
    [
      [1, 'nobody'],
      [3, '@'],
    ],
  );
  const cut = parseAddressList('Lee, Ann <a@b.example>, c@d.example');
  assert.ok(!cut.ok);
  assert.match(
    cut.issues[0]!.reason,
    /is not an email address: it needs a local part, an @ and a domain; put a display name with a comma in double quotes/,
  );
});

test('a list of any length is parsed only up to its limits', () => {
  const commas = parseAddressList(','.repeat(60_000));
  assert.ok(!commas.ok);
  assert.deepEqual(
    commas.issues.map(({ reason }) => reason),
    ['has no address, only commas'],
  );
  const nobodies = parseAddressList('nobody,'.repeat(60_000));
  assert.ok(!nobodies.ok && nobodies.issues.length === 100);
  for (const hostile of ['(', '(,', '()', '"(', 'a@b.example (,']) {
    const read = parseAddressList(hostile.repeat(60_000 / hostile.length));
    assert.ok(!read.ok && read.issues.length <= 100, hostile);
  }
  const many = (count: number) => parseAddressList(Array.from({ length: count }, (_, i) => `a${i}@b.example`).join());
  assert.ok(many(1_000).ok);
  const beyond = many(1_001);
  assert.ok(!beyond.ok);
  assert.deepEqual(beyond.issues, [{ index: 1_000, text: '', reason: 'has more than 1000 addresses' }]);
  const quoted = parseAddressList(`"${',"'.repeat(30_000)}`);
  assert.ok(!quoted.ok && quoted.issues.length <= 100);
  const long = parseAddressList(`a@${'b'.repeat(900)}`);
  assert.ok(!long.ok && long.issues[0]!.reason.length < 200 && long.issues[0]!.text.length === 200);
});

test('names that change the text direction are rejected', () => {
  for (const c of '\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069') {
    assert.match(reason(`A${c}nn <a@b.example>`), /direction/);
    assert.match(reason(`"A${c}nn" <a@b.example>`), /direction/);
  }
  assert.equal(accepted('\u05d0\u200f\u05d1 <a@b.example>').name, '\u05d0\u200f\u05d1');
});

test('unnecessary quotes and backslashes do not change the address', () => {
  for (const [typed, key] of [
    ['"joe"@x.example', 'joe@x.example'],
    ['"j\\oe"@X.example', 'joe@x.example'],
    ['"J.Oe"@x.example', 'j.oe@x.example'],
    ['"joe smith"@x.example', '"joe smith"@x.example'],
    ['"j\\oe smith"@x.example', '"joe smith"@x.example'],
    ['"a\\"b\\\\c"@x.example', '"a\\"b\\\\c"@x.example'],
    ['"a@b"@x.example', '"a@b"@x.example'],
    ['".joe"@x.example', '.joe@x.example'],
    ['.joe@x.example', '.joe@x.example'],
    ['"A..b."@x.example', 'a..b.@x.example'],
    ['"."@x.example', '"."@x.example'],
    ['"zo\u00eb"@b\u00fccher.example', 'zo\u00eb@xn--bcher-kva.example'],
  ] as const) {
    assert.equal(sameAddressKey(typed), key);
    assert.equal(sameAddressKey(accepted(typed)), key);
    assert.equal(sameAddressKey(key), key, 'the key of a key is the key itself');
  }
});

test('all stored spellings of an address are found from any of them', () => {
  const kept = ['idn@b\u00fccher.example', 'Idn@xn--bcher-kva.example', '"idn"@b\u00fccher.example'];
  for (const asked of ['IDN@B\u00dcCHER.example', 'idn@xn--bcher-kva.example', '"i\\dn"@Bu\u0308cher.example']) {
    const found = addressSpellings(asked).map((one) => one.toLowerCase());
    for (const one of kept) assert.ok(found.includes(one.toLowerCase()), `${one} of ${asked}: ${found.join(' ')}`);
  }
  assert.deepEqual(addressSpellings('nobody'), ['nobody']);
});

test('domainToAscii and sameAddressKey return canonical forms', () => {
  assert.equal(domainToAscii('Example.COM'), 'example.com');
  assert.equal(domainToAscii('bücher.example'), 'xn--bcher-kva.example');
  assert.equal(domainToAscii('exa mple.ü'), undefined);
  assert.equal(sameAddressKey('Ann@Example.com'), 'ann@example.com');
  assert.equal(sameAddressKey('Ann@BÜCHER.example'), 'ann@xn--bcher-kva.example');
  assert.equal(sameAddressKey('ann@xn--bcher-kva.example'), sameAddressKey(accepted('Ann <ANN@bücher.example>')));
  assert.equal(sameAddressKey('Zoe\u0308@x.example'), sameAddressKey('zoë@x.example'));
});

test('the fast path parses plain addresses like the full parser', () => {
  const names = [
    '',
    'Shop',
    'My Shop',
    'My  Shop',
    "O'Reilly & Sons",
    'J. R. Smith',
    'A, B',
    '"A"',
    'ü',
    'a\tb',
    'a@b',
    '<',
    'x <',
  ];
  const locals = ['a', 'A.b', 'a..b', '.a', '"a b"', 'x'.repeat(64), 'x'.repeat(65), 'ü', 'xn--a', ''];
  const label = 'd'.repeat(63);
  const domains = [
    'b.example',
    'B.Example',
    'xn--bcher-kva.example',
    'XN--A.example',
    'a--b.example',
    'bücher.example',
    'b',
    'b.',
    'b.1',
    `${label}.example`,
    `${label}d.example`,
    `${label}.${label}.${label}.example`,
    `${label}.${label}.${label}.${'d'.repeat(50)}.example`,
  ];
  for (const name of names) {
    for (const local of locals) {
      for (const domain of domains) {
        for (const text of [`${local}@${domain}`, `${name} <${local}@${domain}>`, `${name}<${local}@${domain}>`]) {
          // A preceding space is skipped, but not in one step.
          assert.deepEqual(parseAddress(text), parseAddress(` ${text}`), text);
        }
      }
    }
  }
});

test('the fast path for ASCII domains agrees with the full conversion', () => {
  for (const domain of [
    'b.example',
    'a-b.c',
    '',
    '.',
    'x_y.example',
    'B.example',
    'xn--bcher-kva.example',
    'xn--',
    'a b',
  ]) {
    assert.equal(domainToAscii(domain), domainToAscii(domain.toUpperCase())?.toLowerCase(), domain);
  }
});

test('comments are whitespace, and the display name of a bare address', () => {
  const cases: [text: string, name: string, address: string][] = [
    ['a@b.example (Shop)', 'Shop', 'a@b.example'],
    ['a@b.example(Shop)', 'Shop', 'a@b.example'],
    ['(Shop) a@b.example', 'Shop', 'a@b.example'],
    ['a@b.example (Shop (Berlin))', 'Shop (Berlin)', 'a@b.example'],
    ['a@b.example (say \\) it)', 'say ) it', 'a@b.example'],
    ['a@b.example (Shop, Berlin; "north)', 'Shop, Berlin; "north', 'a@b.example'],
    ['a@b.example ()', '', 'a@b.example'],
    ['a@b.example (one) (two)', 'two', 'a@b.example'],
    ['root@b.example (Cron  Daemon)', 'Cron Daemon', 'root@b.example'],
    ['Ann (work) <a@b.example>', 'Ann', 'a@b.example'],
    ['(Ms) Ann <a@b.example> (work)', 'Ann', 'a@b.example'],
    ['<a@b.example> (Ann)', 'Ann', 'a@b.example'],
    ['<a@b.example (Ann)>', 'Ann', 'a@b.example'],
    ['"Ann (work)" <a@b.example>', 'Ann (work)', 'a@b.example'],
    ['"a(b"@c.example', '', '"a(b"@c.example'],
    ['a@b.example (Grüße)', 'Grüße', 'a@b.example'],
  ];
  for (const [text, name, address] of cases) {
    assert.deepEqual([accepted(text).name, accepted(text).address], [name, address], text);
  }
  const list = parseAddressList('a@b.example (Lee, Ann), "x(" <c@d.example>, e@f.example (g)');
  assert.ok(list.ok);
  assert.deepEqual(
    list.value.map((address) => `${address.name}|${address.address}`),
    ['Lee, Ann|a@b.example', 'x(|c@d.example', 'g|e@f.example'],
  );
});

test('empty list elements are ignored', () => {
  for (const text of ['ada@x.example,', ',ada@x.example', ' , ada@x.example ,, ', 'ada@x.example, ']) {
    const list = parseAddressList(text);
    assert.ok(list.ok, text);
    assert.deepEqual(
      list.value.map(({ address }) => address),
      ['ada@x.example'],
    );
    assert.equal(accepted(text).address, 'ada@x.example');
  }
  assert.equal(accepted('Shop <noreply@x.example>,').name, 'Shop');
  const two = parseAddressList('a@b.example,,c@d.example,');
  assert.ok(two.ok && two.value.length === 2);
});

test('local parts of Japanese carriers are kept, quoted on the wire, and equal in both forms', () => {
  for (const [local, wire] of [
    ['a..b', '"a..b"'],
    ['a.', '"a."'],
    ['.a', '".a"'],
    ['..a..b..', '"..a..b.."'],
    ['a.b', 'a.b'],
    ['"a..b"', '"a..b"'],
    ['a..b+tag', '"a..b+tag"'],
  ] as const) {
    const address = accepted(`${local}@docomo.ne.jp`);
    assert.deepEqual([address.local, address.address], [local, `${local}@docomo.ne.jp`]);
    assert.equal(wireAddress(address), `${wire}@docomo.ne.jp`);
    const [typed, quoted] = [`${local}@docomo.ne.jp`, `${wire}@docomo.ne.jp`];
    assert.equal(sameAddressKey(typed), sameAddressKey(quoted));
    for (const asked of [typed, quoted]) {
      const found = addressSpellings(asked);
      assert.ok(found.includes(typed) && found.includes(quoted), `${asked}: ${found.join(' ')}`);
    }
  }
  assert.equal(wireAddress(accepted('Ann <a..b@bücher.example>')), '"a..b"@xn--bcher-kva.example');
  assert.equal(wireAddress(accepted('ü..b@bücher.example')), '"ü..b"@bücher.example');
});

test('an SMTP command address has no display name, comment, or brackets', () => {
  assert.ok(
    parseBareAddress('a@b.example').ok &&
      parseBareAddress('"a b"@c.example').ok &&
      parseBareAddress('a..b@c.example').ok,
  );
  for (const text of [
    'Ann <a@b.example>',
    'a@b.example (Ann)',
    '<a@b.example>',
    'a@b.example,',
    ' a@b.example',
    'a\t@b.example',
    '',
  ])
    assert.ok(!parseBareAddress(text).ok, text);
});
