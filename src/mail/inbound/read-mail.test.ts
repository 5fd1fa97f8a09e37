/** Parsing of real-world messages, and the cost of hostile ones. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { parseAddress } from '../address.ts';
import { compose } from '../compose/compose.ts';
import { type MailFile, readMail } from './read-mail.ts';
import { decodedSize, decodeStream, decodeTransfer } from './transfer-decoding.ts';

const mailOf = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const bytesOf = (content: Buffer, { from, to, encoding }: MailFile): Buffer =>
  decodeTransfer(content.subarray(from, to), encoding);
const address = (text: string) => {
  const parsed = parseAddress(text);
  assert.ok(parsed.ok);
  return parsed.value;
};

test('text, HTML, inline files, and attachments are read as written', async () => {
  const photo = randomBytes(100_003);
  const { content } = compose({
    from: address('Änn <ann@example.com>'),
    to: [address('support@in.shop.example')],
    cc: [],
    replyTo: [],
    subject: 'Grüße — Bestellung 17',
    text: 'Grüß Gott,\nes kam an.',
    html: '<p>Grüß <img src="cid:a"></p>',
    headers: [],
    messageId: '<1@example.com>',
    dateMs: 0,
    attachments: [
      { name: 'Straße 1.jpg', contentType: 'image/jpeg', content: photo, contentId: 'a' },
      { name: 'notes.txt', contentType: 'text/plain', content: Buffer.from('attached text') },
    ],
  });
  const bytes = Buffer.from(content);
  const mail = await readMail(bytes);
  assert.deepEqual(mail.unreadable, []);
  assert.equal(mail.text?.trim(), 'Grüß Gott,\r\nes kam an.');
  assert.match(mail.html ?? '', /<p>Grüß <img src="cid:a"><\/p>/);
  assert.equal(mail.headers.find(({ name }) => name === 'Subject')?.value, 'Grüße — Bestellung 17');
  assert.deepEqual(
    mail.files.map(({ name, contentType, sizeBytes, contentId }) => ({ name, contentType, sizeBytes, contentId })),
    [
      { name: 'Straße 1.jpg', contentType: 'image/jpeg', sizeBytes: photo.length, contentId: 'a' },
      { name: 'notes.txt', contentType: 'text/plain', sizeBytes: 13, contentId: null },
    ],
  );
  assert.deepEqual(bytesOf(bytes, mail.files[0]!), photo);
  const other = await PostalMime.parse(bytes);
  assert.equal(mail.text?.trim().replaceAll('\r\n', '\n'), other.text?.trim());
  assert.equal(mail.files.length, other.attachments.length);
});

test('charsets, encodings, and unusual structures are decoded', async () => {
  const text = (headers: string[], body: string) => readMail(mailOf(...headers, '', body));
  const plain = 'Content-Type: text/plain; charset=';
  assert.equal((await text([`${plain}iso-8859-1`], 'gr\xfcn')).text, 'grün');
  assert.equal((await text([`${plain}utf-8`], 'gr\xc3\xbcn')).text, 'grün');
  assert.equal((await text([`${plain}utf-8`], 'gr\xfcn und \xe4')).text, 'grün und ä', 'not UTF-8');
  assert.equal((await text([`${plain}shift_jis`], '\x82\xa0')).text, 'あ');
  assert.equal(
    (await text([`${plain}utf-8`, 'Content-Transfer-Encoding: quoted-printable'], 'a=C3=BC=\r\nb =3D  \r\nc')).text,
    'aüb =\r\nc',
  );
  assert.equal((await text([`${plain}utf-8`, 'Content-Transfer-Encoding: BASE64'], 'w7w\r\n=')).text, 'ü');
  const unknown = await text([`${plain}x-nowhere`], 'gr\xc3\xbcn');
  assert.equal(unknown.text, 'grün');
  assert.match(unknown.unreadable.join(), /charset “x-nowhere” of a text is unknown/);
  const coded = await text(['Content-Transfer-Encoding: x-rot13'], 'abc');
  assert.match(coded.unreadable.join(), /transfer encoding “x-rot13”/);
  assert.equal((await readMail(mailOf('Subject: alone'))).text, '', 'only a header');
  assert.deepEqual((await readMail(Buffer.alloc(0))).headers, []);
  const html = await text(['Content-Type: text/html'], '<p>One</p><p>Two</p>');
  assert.match(html.text ?? '', /One\s+Two/);
  const base64 = [`${plain}utf-8`, 'Content-Transfer-Encoding: base64'];
  assert.equal((await text(base64, 'SGVsbG8=\r\nIHdvcmxk')).text, 'Hello world', 'concatenated pieces');
  assert.deepEqual((await text(base64, '')).unreadable, []);
  const none = await text(base64, '!!!!####');
  assert.deepEqual(
    [none.text, none.unreadable],
    ['', ['The content of a text part is not valid Base64; the text is empty.']],
  );
  const file = await text(['Content-Type: image/png', 'Content-Transfer-Encoding: base64'], '====');
  assert.deepEqual(
    [file.files[0]!.sizeBytes, file.unreadable],
    [0, ['The content of a file is not valid Base64; the file is empty.']],
  );
  const unbounded = await text(['Content-Type: multipart/mixed'], '--b\r\n\r\nhello\r\n--b--');
  assert.deepEqual([unbounded.text, unbounded.files.length], [null, 1]);
  assert.match(unbounded.unreadable.join(), /^A multipart has no boundary parameter; /);
  const whole = await text(['Content-Type: multipart/mixed; boundary=a'], '--b\r\n\r\nhello');
  assert.match(whole.unreadable.join(), /^A multipart does not contain its boundary; /);
  const lf = await readMail(
    Buffer.from(
      'Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b\nContent-Type: image/png\n\nxyz\n--b--\n',
    ),
  );
  assert.equal(lf.files.length, 1);
  assert.match(lf.text ?? '', /hello/);
});

test('a text part with an empty file name is the text of the message', async () => {
  for (const field of [
    'Content-Type: text/plain; name=""',
    "Content-Type: text/plain; name*=utf-8''",
    'Content-Type: text/plain\r\nContent-Disposition: inline; filename=""',
  ]) {
    const { text, files } = await readMail(mailOf(field, '', 'hello'));
    assert.deepEqual([text, files], ['hello', []], field);
  }
});

test('file names never contain paths or control characters', async () => {
  const named = async (parameter: string) =>
    (await readMail(mailOf('Content-Type: application/pdf', `Content-Disposition: attachment; ${parameter}`, '', 'x')))
      .files[0]!.name;
  assert.equal(await named('filename="../../etc/passwd"'), 'passwd');
  assert.equal(await named('filename="C:\\\\a\\\\b.pdf"'), 'b.pdf');
  assert.equal(await named("filename*=UTF-8''Stra%C3%9Fe.pdf"), 'Straße.pdf');
  assert.equal(await named('filename="=?utf-8?q?Stra=C3=9Fe.pdf?="'), 'Straße.pdf');
  assert.equal(await named("filename*=UTF-8''a%E2%80%AEfdp.exe"), 'afdp.exe', 'the text direction is not changed');
  assert.equal(await named('x=y'), 'attachment-1');
  const zip = await readMail(
    mailOf('Content-Type: message/rfc822; name=mail.eml', 'Content-Transfer-Encoding: base64', '', 'UEsDBAoAAAAA'),
  );
  assert.deepEqual(
    [zip.files[0]!.name, zip.files[0]!.sizeBytes],
    ['mail.eml', 9],
    'a zip labeled as a message is a file',
  );
});

test('an attachment streamed in pieces is unchanged', async () => {
  const bytes = randomBytes(50_000);
  const lines = bytes.toString('base64').replace(/.{76}/g, '$&\r\n');
  const quoted = [...bytes]
    .map((byte) => `=${byte.toString(16).padStart(2, '0').toUpperCase()}`)
    .join('')
    .replace(/.{75}/g, '$&=\r\n');
  const joined = Array.from({ length: 500 }, (_, i) => bytes.toString('base64', i * 100, i * 100 + 100)).join('\r\n');
  for (const [encoded, encoding] of [
    [lines, 'base64'],
    [joined, 'base64'],
    [quoted, 'quoted-printable'],
    [bytes.toString('latin1'), 'identity'],
  ] as const) {
    async function* pieces() {
      const all = Buffer.from(encoded, 'latin1');
      for (let at = 0; at < all.length; at += 997) yield all.subarray(at, at + 997);
    }
    const decoded: Buffer[] = [];
    for await (const chunk of decodeStream(pieces(), encoding)) decoded.push(chunk);
    assert.ok(Buffer.concat(decoded).equals(bytes), encoding);
    assert.equal(await decodedSize(Buffer.from(encoded, 'latin1'), encoding), bytes.length);
  }
});

const nested = (depth: number): Buffer => {
  let text = '';
  for (let level = 0; level < depth; level += 1)
    text += `Content-Type: multipart/mixed; boundary=b${level}\r\n\r\n--b${level}\r\n`;
  return Buffer.from(`${text}\r\ndeep\r\n`);
};

const BOMBS: [name: string, content: () => Buffer, expected: RegExp][] = [
  ['5,000 nested parts', () => nested(5_000), /nested deeper than 30/],
  [
    '100,000 parts',
    () => Buffer.from(`Content-Type: multipart/mixed; boundary=b\r\n\r\n${'--b\r\n\r\nx\r\n'.repeat(100_000)}`),
    /more than 500 parts/,
  ],
  ['25 MB of header', () => Buffer.from(`${'X-A: b\r\n'.repeat(3_125_000)}\r\nhello`), /The header has 25000002 bytes/],
  ['one header field of 25 MB', () => Buffer.from(`Subject: ${'x'.repeat(25_000_000)}\r\n\r\nhello`), /The header has/],
  [
    '25 MB of Base64',
    () =>
      Buffer.from(`Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n${'QUFB'.repeat(6_250_000)}`),
    /^$/,
  ],
  [
    '25 MB of Base64 in small pieces',
    () =>
      Buffer.from(
        `Content-Type: application/x\r\nContent-Transfer-Encoding: base64\r\n\r\n${'QQ=='.repeat(6_250_000)}`,
      ),
    /^$/,
  ],
  [
    '25 MB of quoted-printable',
    () =>
      Buffer.from(
        `Content-Type: application/x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n${'=41'.repeat(8_330_000)}`,
      ),
    /^$/,
  ],
  [
    '12 million short lines',
    () => Buffer.from(`Content-Type: multipart/mixed; boundary=b\r\n\r\n${'-\n'.repeat(12_500_000)}`),
    /does not contain its boundary/,
  ],
  [
    'a boundary of a megabyte',
    () => Buffer.from(`Content-Type: multipart/mixed; boundary="${'b'.repeat(1_000_000)}"\r\n\r\n--b\r\n\r\nx`),
    /^|Its header/,
  ],
  [
    'encoded words without end',
    () => Buffer.from(`Subject: ${'=?utf-8?q?a?= '.repeat(100_000)}\r\n\r\nx`),
    /The header has/,
  ],
];

for (const [name, content, expected] of BOMBS) {
  test(`${name}: bounded time and memory, in slices`, async () => {
    const bytes = content();
    const began = process.cpuUsage();
    let rounds = 0;
    const counting = setInterval(() => {
      rounds += 1;
    }, 0);
    const mail = await readMail(bytes);
    clearInterval(counting);
    const { user } = process.cpuUsage(began);
    assert.ok(user < 10_000_000, `${user / 1_000} ms`);
    assert.match(mail.unreadable.join(' '), expected);
    assert.ok(
      mail.files.length <= 501 && (mail.text?.length ?? 0) <= 64 * 1024 && JSON.stringify(mail).length < 700_000,
    );
    if (user > 1_000_000) assert.ok(rounds > 5, `${rounds} turns of the loop in ${user / 1_000} ms`);
  });
}

test('spaces inside a quoted-printable line are read in linear time', () => {
  const line = Buffer.from(`${' '.repeat(200_000)}x \r\n`);
  const began = process.cpuUsage();
  assert.equal(decodeTransfer(line, 'quoted-printable').length, 200_003);
  const { user } = process.cpuUsage(began);
  assert.ok(user < 1_000_000, `${user / 1_000} ms`);
});
