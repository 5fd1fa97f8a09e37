/** Messages of real email clients: bytes without a charset, unquoted names, flowed text, winmail.dat, and attached messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attribute, int32, winmail } from '../../../test/kit/winmail.ts';
import { type MailFile, readMail } from './read-mail.ts';
import { isTnef, readTnef } from './tnef.ts';
import { decodeTransfer } from './transfer-decoding.ts';

const mailOf = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');

test('bytes without a charset are decoded as UTF-8 if valid, and as Windows-1252 otherwise', async () => {
  const read = async (header: string, body: string) => (await readMail(mailOf(header, '', body))).text;
  const plain = 'Content-Type: text/plain';
  for (const header of [
    plain,
    'Subject: none',
    `${plain}; charset=us-ascii`,
    `${plain}; charset=utf-8`,
    `${plain}; charset=""`,
  ]) {
    assert.equal(await read(header, 'Caf\xe9'), 'Café', header);
    assert.equal(await read(header, 'Caf\xe9 \x80 5 \x96 gr\xfc\xdfe'), 'Café € 5 – grüße');
    assert.equal(await read(header, 'Caf\xc3\xa9'), 'Café');
    assert.equal(
      await read(header, 'gr\xc3\xbc\xc3\x9fe \xf0\x9f\x8e\x89 Caf\xe9'),
      'grüße 🎉 Café',
      'both in one message',
    );
    assert.equal(await read(header, '\xef\xbb\xbfCaf\xc3\xa9 \xe9'), 'Café é', 'a byte order mark');
  }
  assert.equal(await read(`${plain}; charset=cp932`, '\x82\xa0'), 'あ');
  assert.equal(await read(plain, '\x1b$B$"\x1b(B'), 'あ', 'Japanese without a declared charset');
  const html = await readMail(
    mailOf('Content-Type: text/html', '', '<meta charset="koi8-r"><p>\xf0\xd2\xc9\xd7\xc5\xd4</p>'),
  );
  assert.match(html.html ?? '', /Привет/);
  const cut = await readMail(mailOf(plain, '', 'ü'.repeat(64 * 1024 * 3)));
  assert.equal(cut.textTruncated, true);
  const utf8 = Buffer.concat([mailOf(plain, '', 'x'), Buffer.from('🎉'.repeat(100_000))]);
  assert.match((await readMail(utf8)).text ?? '', /^x(🎉)+.?$/u, 'the limit does not split a character');
});

test('content types and transfer encodings that are not well formed lose no content', async () => {
  const read = (...lines: string[]) => readMail(mailOf(...lines));
  for (const type of ['text/html charset=UTF-8', 'text/html, charset=utf-8', 'text/html;charset=utf-8 format=flowed']) {
    const { html, files, unreadable } = await read(`Content-Type: ${type}`, '', '<p>Caf\xc3\xa9</p>');
    assert.deepEqual([html, files, unreadable], ['<p>Café</p>', [], []], type);
  }
  for (const type of ['text/plain charset="utf-8"', 'text/plain, charset=utf-8', 'text', 'plain', 'text/plain/html'])
    for (const encoding of ['8-bit', '7-bit', '8bit']) {
      const mail = await read(`Content-Type: ${type}`, `Content-Transfer-Encoding: ${encoding}`, '', 'Caf\xc3\xa9');
      assert.deepEqual([mail.text, mail.files, mail.unreadable], ['Café', [], []], `${type} ${encoding}`);
    }
  const japanese = await read('Content-Type: text charset=cp932', '', '\x82\xa0');
  assert.equal(japanese.text, 'あ', 'the charset of a type that is not well formed');
  const alternative = await read(
    'Content-Type: multipart/alternative boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain charset="utf-8"',
    '',
    'Caf\xc3\xa9',
    '--b',
    'Content-Type: text/html charset="utf-8"',
    '',
    '<p>Caf\xc3\xa9</p>',
    '--b',
    'Content-Type: application/pdf name="a.pdf"',
    'Content-Disposition: attachment filename="b.pdf"',
    '',
    'x',
    '--b',
    'Content-Type: application/pdf name="c.pdf"',
    '',
    'x',
    '--b--',
  );
  assert.deepEqual([alternative.text, alternative.html], ['Café', '<p>Café</p>']);
  assert.deepEqual(
    alternative.files.map(({ name, contentType }) => `${name} ${contentType}`),
    ['b.pdf application/pdf', 'c.pdf application/pdf'],
  );
});

test('headers are decoded in every charset in which bodies are', async () => {
  const subject = async (written: string) => (await readMail(mailOf(`Subject: ${written}`, '', ''))).headers[0]!.value;
  assert.equal(await subject('=?cp932?B?grGC8YLJgr+CzQ==?='), 'こんにちは');
  assert.equal(await subject('=?unknown-8bit?Q?Caf=C3=A9?='), 'Café');
  assert.equal(await subject('\x1b$B$4Cm\x1b(B'), 'ご注', 'ISO-2022-JP that is not encoded');
  assert.equal(await subject('=?UTF-8?Q?Are_you_there??='), 'Are you there?');
});

test('malformed file names are decoded', async () => {
  const named = async (disposition: string, type = 'application/pdf') =>
    (await readMail(mailOf(`Content-Type: ${type}`, `Content-Disposition: attachment; ${disposition}`, '', 'x')))
      .files[0]!.name;
  for (const [written, name] of [
    ['filename=un quoted name.pdf', 'un quoted name.pdf'],
    ['filename=un quoted name.pdf; size=17', 'un quoted name.pdf'],
    ['filename=un quoted name.pdf size=17', 'un quoted name.pdf'],
    ['filename=report (final).pdf', 'report (final).pdf'],
    ['filename=a "b" c.pdf', 'a "b" c.pdf'],
    ["filename='single quotes.pdf'", 'single quotes.pdf'],
    ['filename==?utf-8?B?U3RyYcOfZSAxLnBkZg==?=', 'Straße 1.pdf'],
    ['filename==?utf-8?Q?Stra=C3=9Fe?= =?utf-8?Q?_1.pdf?=', 'Straße 1.pdf'],
    ['filename="=?utf-8?Q?Stra=C3=9Fe 1.pdf?="', 'Straße 1.pdf'],
    ['filename="=?utf-8?B?U3RyYcOfZSAxLnBkZg=="', 'Straße 1.pdf'],
    ['filename="=?iso-8859-1?Q?Stra=DFe.pdf?="', 'Straße.pdf'],
    ['filename=Stra\xdfe 1.pdf', 'Straße 1.pdf'],
    ["filename*=cp932''%82%A0.pdf", 'あ.pdf'],
    ["filename*=unknown-8bit''Stra%DFe.pdf", 'Straße.pdf'],
    ["filename*=us-ascii''Stra%C3%9Fe.pdf", 'Straße.pdf'],
    ['filename="=?cp949?Q?=BE=C8.pdf?="', '안.pdf'],
    ['filename="=?UTF-8?Q?Who??="', 'Who?'],
    ['filename="Stra\xc3\x9fe.pdf"', 'Straße.pdf'],
    ['filename="Stra%C3%9Fe.pdf"', 'Straße.pdf'],
    ['filename="100%25.pdf"', '100%25.pdf'],
    ["filename*=iso-8859-1''Stra%DFe.pdf", 'Straße.pdf'],
    ["filename*=gb2312''%B2%E2%CA%D4.pdf", '测试.pdf'],
    ["filename*=x-nowhere''Stra%C3%9Fe.pdf", 'Straße.pdf'],
    ['filename*="UTF-8\'\'Stra%C3%9Fe.pdf"', 'Straße.pdf'],
    ['filename="utf-8\'\'Stra%C3%9Fe.pdf"', 'Straße.pdf'],
    ['filename*=Stra%C3%9Fe.pdf', 'Straße.pdf'],
    ['filename="Stra_e.pdf"; filename*=UTF-8\'\'Stra%C3%9Fe.pdf', 'Straße.pdf'],
    ["filename*0*=UTF-8''Stra%C3; filename*1*=%9Fe%20; filename*2=100%.pdf", 'Straße 100%.pdf'],
    ["filename*0*=shift_jis''%82; filename*1*=%A0.pdf", 'あ.pdf'],
    ['filename*0="=?utf-8?B?U3RyYcOf"; filename*1="ZSAxLnBkZg==?="', 'Straße 1.pdf'],
    ['filename*1="one "; filename*2="two.pdf"', 'one two.pdf'],
    ['filename=""', 'of the type.pdf'],
    [`filename="${'x'.repeat(300)}.pdf"`, `${'x'.repeat(196)}.pdf`],
  ] as const)
    assert.equal(await named(written, 'application/pdf; name="of the type.pdf"'), name, written);
  assert.equal(await named('x=y', 'application/pdf; name=of the type.pdf'), 'of the type.pdf');
});

test('attached messages, calendars, and signatures get the names that email clients use', async () => {
  const parts = [
    ['Content-Type: text/plain', 'Yes.'],
    [
      'Content-Type: message/rfc822',
      'Subject: =?utf-8?q?Re:_Bestellung_17/3_=E2=80=93_Gr=C3=BC=C3=9Fe?=\r\nFrom: a@b.example\r\n\r\nHello',
    ],
    ['Content-Type: message/rfc822', 'From: a@b.example\r\n\r\nSubject: not this'],
    [
      'Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64',
      Buffer.from('Subject: coded\n\nx').toString('base64'),
    ],
    ['Content-Type: message/rfc822; name="Order.eml"', 'Subject: other\r\n\r\nx'],
    ['Content-Type: text/calendar; method=REQUEST; charset=utf-8', 'BEGIN:VCALENDAR'],
    ['Content-Type: application/pgp-signature', '-----BEGIN'],
    ['Content-Type: image/png', 'x'],
  ].map(([header, body]) => `--b\r\n${header}\r\n\r\n${body}\r\n`);
  const mail = await readMail(mailOf('Content-Type: multipart/mixed; boundary=b', '', `${parts.join('')}--b--`));
  assert.deepEqual(
    mail.files.map(({ name }) => name),
    [
      'Re_ Bestellung 17_3 – Grüße.eml',
      'attachment-2.eml',
      'coded.eml',
      'Order.eml',
      'invite.ics',
      'signature.asc',
      'attachment-7',
    ],
  );
  assert.equal(mail.text, 'Yes.');
});

test('flowed text is joined into paragraphs (RFC 3676)', async () => {
  const read = async (parameters: string, body: string) =>
    (await readMail(mailOf(`Content-Type: text/plain; ${parameters}`, '', body))).text;
  const flowed = 'format=flowed';
  assert.equal(await read(flowed, 'One \r\nparagraph.\r\n\r\nAnother.\r\n'), 'One paragraph.\r\n\r\nAnother.\r\n');
  assert.equal(await read(`${flowed}; delsp=yes`, 'a wo \r\nrd and \r\n.'), 'a word and.');
  assert.equal(await read('Format=Flowed; DelSp=YES', 'a wo \r\nrd'), 'a word');
  assert.equal(await read(flowed, ' From here\r\n >no quote\r\n'), 'From here\r\n>no quote\r\n');
  assert.equal(
    await read(flowed, '> one \r\n> two\r\n>> three \r\n> four\r\n'),
    '> one two\r\n>> three \r\n> four\r\n',
  );
  assert.equal(await read(flowed, 'Yes. \r\n-- \r\nAnn'), 'Yes. \r\n-- \r\nAnn');
  assert.equal(await read(flowed, '>>text\r\n'), '>> text\r\n');
  assert.equal(await read('charset=utf-8', 'One \r\nline.'), 'One \r\nline.', 'unchanged without the parameter');
  const long = await read(flowed, 'a \r\n'.repeat(100_000));
  assert.equal(long?.length, 64 * 1024);
});

const withWinmail = (bytes: Buffer, text: string, type = 'application/ms-tnef'): Buffer =>
  mailOf(
    'Content-Type: multipart/mixed; boundary=b',
    '',
    text === '' ? '' : `--b\r\nContent-Type: text/plain\r\n\r\n${text}\r\n`,
    `--b\r\nContent-Type: ${type}; name="winmail.dat"\r\nContent-Transfer-Encoding: base64\r\n`,
    `${bytes.toString('base64').replace(/.{76}/g, '$&\r\n')}\r\n--b--`,
  );
const fileBytes = (content: Buffer, { from, to, encoding, within }: MailFile): string =>
  decodeTransfer(content.subarray(from, to), encoding)
    .subarray(within!.offset, within!.offset + within!.length)
    .toString();

test('the files of a winmail.dat are attachments, and its text is used if there is no other', async () => {
  for (const type of ['application/ms-tnef', 'application/vnd.ms-tnef', 'application/octet-stream']) {
    const content = withWinmail(winmail(), 'Plain text', type);
    const mail = await readMail(content);
    assert.deepEqual(mail.unreadable, []);
    assert.equal(mail.text?.trim(), 'Plain text');
    assert.deepEqual(
      mail.files.map(({ name, contentType, contentId, sizeBytes }) => ({ name, contentType, contentId, sizeBytes })),
      [
        { name: 'Straße.txt', contentType: 'application/octet-stream', contentId: null, sizeBytes: 10 },
        {
          name: 'Tabelle – 2026.xlsx',
          contentType: 'application/vnd.ms-excel',
          contentId: 'table@shop.example',
          sizeBytes: 11,
        },
      ],
    );
    assert.deepEqual(
      mail.files.map((file) => fileBytes(content, file)),
      ['first file', 'second file'],
    );
  }
  assert.equal((await readMail(withWinmail(winmail(), ''))).text, 'Grüße aus Outlook');
  const partial = await readMail(withWinmail(winmail({ method: 5 }), 'x'));
  assert.deepEqual(
    partial.files.map(({ name }) => name),
    ['Straße.txt', 'winmail.dat'],
    'an attached message is kept in winmail.dat',
  );
  const none = await readMail(withWinmail(Buffer.from('no such thing'), 'x'));
  assert.deepEqual(
    none.files.map(({ name }) => name),
    ['winmail.dat'],
  );
  assert.equal(isTnef(Buffer.alloc(3)), false);
});

test('a truncated, changed, or hostile winmail.dat is read within its bytes', () => {
  const whole = winmail();
  let seed = 17;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  for (let round = 0; round < 5_000; round += 1) {
    const bytes = Buffer.from(whole.subarray(0, round % 3 === 0 ? random(whole.length) : undefined));
    for (let change = random(6); change > 0 && bytes.length > 6; change -= 1)
      bytes[6 + random(bytes.length - 6)] = [0, 1, 0x7f, 0xff, random(256)][random(5)]!;
    const read = readTnef(bytes);
    for (const { offset, length } of read?.files ?? [])
      assert.ok(
        offset >= 0 && length >= 0 && offset + length <= bytes.length,
        `${offset} + ${length} of ${bytes.length}`,
      );
  }
  const empty = Buffer.concat([
    int32(0x223e9f78),
    Buffer.from([1, 0]),
    attribute(1, 0x00069003, Buffer.concat([int32(0xffffffff), int32(0x10001001), int32(0xffffffff)])),
  ]);
  assert.deepEqual(readTnef(empty)?.files, []);
  const many = Buffer.concat([
    whole.subarray(0, 6),
    ...Array.from({ length: 100_000 }, () => attribute(2, 0x00069002, Buffer.alloc(0))),
  ]);
  const began = process.cpuUsage();
  assert.ok(readTnef(many)!.isPartial);
  assert.ok(process.cpuUsage(began).user < 1_000_000);
});
