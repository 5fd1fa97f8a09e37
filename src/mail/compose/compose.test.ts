import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import MailComposer from 'nodemailer/lib/mail-composer';
import PostalMime from 'postal-mime';
import { type Address, parseAddress } from '../address.ts';
import { compose, composedSizeBytes, composeSkeleton, type MailToCompose } from './compose.ts';
import { base64SizeBytes, writeBase64 } from './transfer-encoding.ts';

function address(text: string): Address {
  const result = parseAddress(text);
  assert.ok(result.ok, text);
  return result.value;
}

function mail(parts: Partial<MailToCompose> = {}): MailToCompose {
  return {
    from: address('Shop <shop@example.com>'),
    to: [address('Ann <ann@example.org>')],
    cc: [],
    replyTo: [],
    subject: 'Your receipt',
    headers: [],
    attachments: [],
    messageId: '<1.abc@example.com>',
    dateMs: Date.UTC(2026, 10, 20, 9, 44),
    ...parts,
  };
}

const written = (parts: Partial<MailToCompose>) => compose(mail(parts)).content.toString('latin1');
const lf = (text: string) => text.replace(/\r\n|\r|\n/g, '\n');
/** The parser of these tests can add one line break to a body. */
function assertBody(parsed: string | undefined, text: string): void {
  const got = lf(parsed ?? '');
  const want = lf(text);
  if (want.length < 2000 && got !== `${want}\n`) assert.equal(got.slice(0, 2000), want.slice(0, 2000));
  assert.ok(got === want || got === `${want}\n`, `${got.length} characters, ${want.length} wanted`);
}

/** Content-Type of every part with its depth, according to a parser. */
function structure(message: string): string[] {
  return [...message.matchAll(/^Content-Type: ([a-z]+\/[a-z0-9.+-]+)/gim)].map((match) => match[1]!.toLowerCase());
}

function assertSevenBit(content: Buffer): void {
  const text = content.toString('latin1');
  assert.doesNotMatch(text, /[^\x01-\x7f]/);
  assert.doesNotMatch(text, /\r(?!\n)|(?<!\r)\n/);
  for (const line of text.split('\r\n')) assert.ok(line.length <= 998);
  assert.ok(text.endsWith('\r\n'));
}

test('text-only messages have exactly these bytes', () => {
  assert.equal(
    written({ text: 'Hello\nAnn' }),
    [
      'From: Shop <shop@example.com>',
      'To: Ann <ann@example.org>',
      'Subject: Your receipt',
      'Date: Fri, 20 Nov 2026 09:44:00 +0000',
      'Message-ID: <1.abc@example.com>',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 7bit',
      '',
      'Hello',
      'Ann',
      '',
    ].join('\r\n'),
  );
});

test('content has its stated size and is unchanged after others are composed', () => {
  const made = Array.from({ length: 20 }, (_, index) => compose(mail({ text: `text ${index}\n`.repeat(index * 30) })));
  for (const [index, { content, sizeBytes }] of made.entries()) {
    assert.equal(sizeBytes, content.length);
    assert.equal(content.toString().split(`text ${index}\r\n`).length, index * 30 + 1);
  }
});

test('the header has a conventional order, sender, reply-to, extra fields, and no Bcc', () => {
  const message = written({
    text: 'x',
    sender: address('robot@example.com'),
    cc: [address('c@example.org')],
    replyTo: [address('help@example.com')],
    headers: [
      ['X-Order', '42'],
      ['List-Unsubscribe', '<https://example.com/u>'],
    ],
  });
  const names = message
    .slice(0, message.indexOf('\r\n\r\n'))
    .split('\r\n')
    .map((line) => line.slice(0, line.indexOf(':')));
  assert.deepEqual(names, [
    'From',
    'Sender',
    'To',
    'Cc',
    'Reply-To',
    'Subject',
    'Date',
    'Message-ID',
    'MIME-Version',
    'X-Order',
    'List-Unsubscribe',
    'Content-Type',
    'Content-Transfer-Encoding',
  ]);
  assert.match(written({ text: 'x', to: [] }), /\r\nTo: undisclosed-recipients:;\r\n/);
  assert.doesNotMatch(written({ text: 'x', to: [], cc: [address('c@example.org')] }), /\r\nTo:/);
});

test('every combination of parts has the same structure as with nodemailer', async () => {
  const file = { name: 'a.pdf', contentType: 'application/pdf', content: Buffer.from('%PDF') };
  const image = { name: 'logo.png', contentType: 'image/png', content: Buffer.from('png'), contentId: 'logo@x' };
  const text = 'Hello';
  const html = '<p>Hello <img src="cid:logo@x"></p>';
  const combinations: Partial<MailToCompose>[] = [
    { text },
    { html },
    { text, html },
    { text, attachments: [file] },
    { html, attachments: [file, file] },
    { text, html, attachments: [file] },
    { html, attachments: [image] },
    { text, html, attachments: [image] },
    { text, html, attachments: [file, image] },
  ];
  for (const parts of combinations) {
    const reference = await new MailComposer({
      from: 'shop@example.com',
      to: 'ann@example.org',
      subject: 'x',
      ...(parts.text === undefined ? {} : { text: parts.text }),
      ...(parts.html === undefined ? {} : { html: parts.html }),
      attachments: (parts.attachments ?? []).map((item) => ({
        filename: item.name,
        contentType: item.contentType,
        content: Buffer.from(item.content),
        ...(item.contentId === undefined ? {} : { cid: item.contentId }),
      })),
    })
      .compile()
      .build();
    assert.deepEqual(
      structure(written(parts)),
      structure(reference.toString('latin1')),
      JSON.stringify(Object.keys(parts)),
    );
  }
});

const unicode = fc.string({
  unit: fc.oneof(
    fc.constantFrom(' ', '\n', '\r\n', '\t', '=', '.', '\0', 'From ', 'a', 'é', '漢', '🚀'),
    fc.string({ unit: 'binary', maxLength: 1 }),
  ),
  maxLength: 400,
});
const clean = (value: string) => value.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\ufeff]/gu, '');
const bodyText = unicode.map((value) => value.replace(/[\p{Cs}\ufeff]/gu, ''));

test('random messages are parsed back unchanged and are 7-bit', async () => {
  const attachment = fc.record({
    name: unicode.map((value) => clean(value).trim().slice(0, 60).toWellFormed() || 'x'),
    content: fc.uint8Array({ maxLength: 500 }),
    inline: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.option(bodyText, { nil: undefined }),
      fc.option(bodyText, { nil: undefined }),
      fc.array(attachment, { maxLength: 4 }),
      async (text, html, files) => {
        const attachments = files.map((file, i) => ({
          name: file.name,
          contentType: 'application/octet-stream',
          content: file.content,
          ...(file.inline ? { contentId: `c${i}@example.com` } : {}),
        }));
        const input = mail({
          attachments,
          ...(text === undefined ? {} : { text }),
          ...(html === undefined ? {} : { html }),
        });
        const { content } = compose(input);
        assertSevenBit(content);
        const parsed = await PostalMime.parse(content);
        if (text !== undefined) assertBody(parsed.text, text);
        if (html !== undefined) assertBody(parsed.html, html);
        const got = parsed.attachments
          .map((file) => [file.filename, Buffer.from(file.content as ArrayBuffer).toString('hex')])
          .sort();
        const want = attachments.map((file) => [file.name, Buffer.from(file.content).toString('hex')]).sort();
        assert.deepEqual(got, want);
        const bySize = attachments.map(({ content: bytes, ...file }) => ({ ...file, sizeBytes: bytes.length }));
        assert.equal(composedSizeBytes({ ...input, attachments: bySize }), content.length);
      },
    ),
    { numRuns: 150 },
  );
});

test('the body encoding is the best fit of 7bit, quoted-printable, and base64', () => {
  const encoding = (text: string) => /Content-Transfer-Encoding: (\S+)/.exec(written({ text }))![1];
  assert.equal(encoding('plain\n'.repeat(100)), '7bit');
  assert.equal(encoding('x'.repeat(998)), '7bit');
  assert.equal(encoding('x'.repeat(999)), 'quoted-printable');
  assert.equal(encoding(`${'x\n'.repeat(2000)}${'y'.repeat(999)}`), 'quoted-printable');
  assert.equal(encoding('Grüße aus München'), 'quoted-printable');
  assert.equal(encoding('漢字かな交じり文'.repeat(20)), 'base64');
  assert.equal(encoding('a\nFrom here'), 'quoted-printable');
  assert.equal(encoding('a\0b'), 'quoted-printable');
  assert.match(written({ text: 'From here ü \nend=\t\n' }), /\r\n\r\n=46rom here =C3=BC=20\r\nend=3D=09\r\n$/);
  assert.match(written({ text: 'a\rb\nc\r\nd' }), /a\r\nb\r\nc\r\nd\r\n$/);
});

test('large bodies are unchanged in every encoding', async () => {
  for (const line of ['Grüße, alles gut. '.repeat(10), '漢字かな交じり文', '\u0000\u0001 x', 'plain ']) {
    const text = `${line}\n`.repeat(Math.ceil(100_000 / line.length));
    const { content } = compose(mail({ text, html: text }));
    assertSevenBit(content);
    const parsed = await PostalMime.parse(content);
    assertBody(parsed.text, text);
    assertBody(parsed.html, text);
  }
});

test('UTF-8 local parts stay raw, and internationalized domains become A-labels', () => {
  const idn = compose(mail({ text: 'x', to: [address('info@müller.example')] }));
  assert.equal(idn.smtpUtf8, false);
  assert.match(idn.content.toString(), /To: info@xn--mller-kva\.example\r\n/);
  const utf8 = compose(mail({ text: 'x', to: [address('Jörg <jörg@müller.example>')], headers: [['X-A', 'ü']] }));
  assert.equal(utf8.smtpUtf8, true);
  assert.match(utf8.content.toString('utf8'), /To: =\?UTF-8\?B\?SsO2cmc=\?= <jörg@müller\.example>\r\n/);
  assertSevenBit(Buffer.from(utf8.content.toString('utf8').replace(/^To:.*$/m, 'To: x')));
});

test('message/rfc822 is kept if it is 7-bit, and encoded as Base64 otherwise', async () => {
  const clean = Buffer.from('Subject: inner\r\n\r\nbody\r\n');
  const file = (content: Buffer, contentType = 'message/rfc822') =>
    mail({ text: 'x', attachments: [{ name: 'm.eml', contentType, content }] });
  const asItIs = compose(file(clean)).content.toString('latin1');
  assert.match(asItIs, /Content-Type: message\/rfc822;[^:]*Content-Transfer-Encoding: 7bit/s);
  assert.ok(asItIs.includes('\r\n\r\nSubject: inner\r\n\r\nbody\r\n\r\n--=_m'));
  for (const content of [
    'Subject: ü\r\n\r\n',
    'Subject: x\n\nlf',
    `Subject: x\r\n\r\n${'y'.repeat(999)}`,
    'Subject: \0\r\n\r\n',
  ]) {
    const message = compose(file(Buffer.from(content))).content;
    assert.doesNotMatch(message.toString('latin1'), /message\/rfc822/);
    const parsed = await PostalMime.parse(message);
    assert.equal(Buffer.from(parsed.attachments[0]!.content as ArrayBuffer).toString(), content);
  }
  assert.doesNotMatch(compose(file(clean, 'multipart/mixed; boundary=x')).content.toString('latin1'), /boundary=x/);
});

test('a file has the same name whatever its content type says', () => {
  const content = Buffer.alloc(0);
  const contentType = 'text/plain; charset=utf-8; name="other.exe"';
  const raw = compose(
    mail({ text: 't', attachments: [{ name: 'real.pdf', contentType, content }] }),
  ).content.toString();
  assert.match(raw, /Content-Type: text\/plain; charset=utf-8;\r\n name="real\.pdf"\r\n/);
  assert.doesNotMatch(raw, /other/);
});

test('a skeleton with its files inserted equals the composed message, except its boundary', () => {
  const attachments = [
    { name: 'a.bin', contentType: 'application/octet-stream', content: randomBytes(100_000) },
    { name: 'ü.png', contentType: 'image/png', content: randomBytes(57), contentId: 'i@x' },
    { name: 'empty', contentType: 'text/plain', content: Buffer.alloc(0) },
  ];
  const input = mail({ text: 't', html: '<p>h</p>', attachments });
  const frame = composeSkeleton({
    ...input,
    attachments: attachments.map(({ content, ...file }) => ({ ...file, sizeBytes: content.length })),
  });
  const parts: Buffer[] = [];
  for (let i = 0; i < frame.pieces.length; i += 1) {
    parts.push(frame.pieces[i]!);
    const index = frame.order[i];
    if (index === undefined) continue;
    const target = Buffer.alloc(base64SizeBytes(attachments[index]!.content.length));
    assert.equal(writeBase64(attachments[index]!.content, target, 0), target.length);
    parts.push(target);
  }
  const whole = Buffer.concat(parts);
  assert.equal(whole.length, frame.sizeBytes);
  const withoutBoundary = (content: Buffer) =>
    content.toString('latin1').replace(/=_([amr])\.[0-9A-Za-z]{22}/g, '=_$1');
  assert.equal(withoutBoundary(whole), withoutBoundary(compose(input).content));
});

test('Base64 lines match a plain encoder at every length', () => {
  for (const length of [0, 1, 2, 3, 56, 57, 58, 113, 114, 115, 57 * 512 - 1, 57 * 512, 57 * 512 + 1, 100_001]) {
    const raw = randomBytes(length);
    const expected = (raw.toString('base64').match(/.{1,76}/g) ?? []).map((line) => `${line}\r\n`).join('');
    const target = Buffer.alloc(base64SizeBytes(length) + 2, 0x21);
    assert.equal(writeBase64(raw, target, 1), expected.length + 1);
    assert.equal(target.toString('latin1'), `!${expected}!`, `length ${length}`);
  }
});

test('values that callers must reject throw', () => {
  const bad: Partial<MailToCompose>[] = [
    { subject: 'a\r\nBcc: x@y.example' },
    { headers: [['X-A', 'a\nb']] },
    { headers: [['X A', 'a']] },
    { messageId: 'a b' },
    { from: { ...address('a@b.example'), name: 'a\nb' } },
    { to: [{ ...address('a@b.example'), address: 'a@b.example\r\nX: y' }] },
    { attachments: [{ name: 'a\r\nb', contentType: 'text/plain', content: Buffer.alloc(0) }] },
    { attachments: [{ name: 'a', contentType: 'text/plain\r\nX: y', content: Buffer.alloc(0) }] },
    { attachments: [{ name: 'a', contentType: 'text/plain', content: Buffer.alloc(0), contentId: 'a>\r\nb' }] },
  ];
  for (const parts of bad)
    assert.throws(() => compose(mail({ text: 'x', ...parts })), TypeError, JSON.stringify(parts));
});
