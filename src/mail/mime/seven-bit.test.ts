import assert from 'node:assert/strict';
import { isAscii } from 'node:buffer';
import { test } from 'node:test';
import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import PostalMime, { type Address, type Email } from 'postal-mime';
import { corpus } from '../../../test/kit/submit.ts';
import { isSevenBit } from '../compose/transfer-encoding.ts';
import { toSevenBit } from './seven-bit.ts';

const BOTH = { eightBit: true, utf8Headers: true };
const HEADERS_ONLY = { eightBit: false, utf8Headers: true };
const mails = corpus();
/** These cannot be converted and are rejected. */
const SIGNED = 'smime-signed-8bit.eml';
const ADDRESSED = 'smtputf8-address.eml';

function converted(content: Buffer | string, needs = BOTH): Buffer {
  const result = toSevenBit(Buffer.from(content), needs);
  assert.ok(result.ok, result.ok ? '' : result.text);
  return result.content;
}

function refusal(content: string, needs = BOTH): string {
  const result = toSevenBit(Buffer.from(content), needs);
  assert.ok(!result.ok, 'the content was converted');
  assert.match(result.text, /^[\x20-\x7e]+$/);
  return `${result.code} ${result.text}`;
}

function addressText(address: Address | undefined): string {
  if (address === undefined) return '';
  if (address.group) return `${address.name}: ${address.group.map(addressText).join(', ')};`;
  const [local = '', domain = ''] = (address.address ?? '').split('@');
  return `${address.name} <${local}@${domainToASCII(domain)}>`;
}

const lines = (text: string): string => text.replaceAll('\r\n', '\n').replace(/\n+$/, '');

/** The message as displayed, according to another parser, including nested messages. */
async function shown(content: Uint8Array): Promise<unknown> {
  const mail: Email = await PostalMime.parse(content, { forceRfc822Attachments: true });
  return {
    addresses: [mail.from, mail.sender, ...(mail.replyTo ?? []), ...(mail.to ?? []), ...(mail.cc ?? [])].map(
      addressText,
    ),
    subject: mail.subject,
    id: mail.messageId,
    text: lines(mail.text ?? ''),
    html: lines(mail.html ?? ''),
    parts: await Promise.all(
      mail.attachments.map(async ({ filename, mimeType, disposition, contentId, method, content: part }) => ({
        filename,
        mimeType,
        disposition,
        contentId,
        method,
        content:
          mimeType === 'message/rfc822'
            ? await shown(new Uint8Array(part as ArrayBuffer))
            : lines(Buffer.from(part as ArrayBuffer).toString('latin1')),
      })),
    ),
  };
}

for (const { name, content } of mails.filter((one) => one.name !== SIGNED && one.name !== ADDRESSED)) {
  test(`${name}: clients display the same message in 7 bits`, async () => {
    const result = converted(content);
    assert.ok(isSevenBit(result), 'no 8-bit byte, no long line, no bare CR or LF');
    assert.deepEqual(await shown(result), await shown(content));
    assert.ok(converted(result).equals(result), 'converted content needs no conversion');
    if (isAscii(content) && !/: *(?:8bit|binary)/i.test(content.toString())) assert.ok(result.equals(content));
  });

  test(`${name}: only headers change without SMTPUTF8`, async () => {
    const result = converted(content, HEADERS_ONLY);
    assert.deepEqual(await shown(result), await shown(content));
    assert.ok(isAscii(result.subarray(0, result.indexOf('\r\n\r\n'))));
    if (name !== 'raw-utf8-headers.eml' && name !== 'rfc2231-names.eml') assert.ok(result.equals(content));
  });
}

test('signed 8-bit content is rejected, and unchanged if only headers are converted', () => {
  const { content } = mails.find((one) => one.name === SIGNED)!;
  assert.match(refusal(content.toString()), /^5\.6\.3 .*signed/);
  assert.ok(converted(content, HEADERS_ONLY).equals(content));
  const inner = content.toString().replace(/^Content-Type: multipart\/signed/m, 'X-Label: ü\r\n$&');
  const wrapped = `From: a@x.example\r\nContent-Type: multipart/mixed; boundary=w\r\n\r\n--w\r\n\r\nx\r\n--w\r\nContent-Type: message/rfc822\r\n\r\n${inner}\r\n--w--\r\n`;
  assert.match(refusal(wrapped), /^5\.6\.3 .*signed/);
  const headers = converted(wrapped, HEADERS_ONLY).toString();
  assert.ok(headers.includes('X-Label: =?UTF-8?') && headers.includes('\r\nGrüße\r\n--sig8'));
});

test('a signed 7-bit message is unchanged, except its outer label', () => {
  const signed =
    'From: a@x.example\r\nContent-Type: multipart/signed; boundary=s\r\nContent-Transfer-Encoding: 8bit\r\n\r\n' +
    '--s\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: 8bit\r\n\r\nx\r\n--s\r\n\r\nsig\r\n--s--\r\n';
  const result = converted(signed).toString();
  assert.equal(result, signed.replace('8bit', '7bit'), 'only the label outside the signature');
});

test('addresses and IDs that require SMTPUTF8 are rejected with 5.6.7', () => {
  for (const field of [
    'From: ü@x.example',
    'From: a@x.example, "Ü" <ü@x.example>',
    'Sender: <ü>',
    'Return-Path: <ü@x>',
  ]) {
    assert.match(
      refusal(`${field}\r\n\r\n`, HEADERS_ONLY),
      /^5\.6\.7 the field .* has an address that requires SMTPUTF8/,
    );
  }
  for (const field of [
    'Message-ID: <ü@x.example>',
    'References: <a@b.example> <a@bücher.example>',
    'Content-ID: <ü>',
  ]) {
    assert.match(refusal(`${field}\r\n\r\n`, HEADERS_ONLY), /^5\.6\.7 the field .* has an id that requires SMTPUTF8/);
  }
  assert.match(
    refusal(`List-Help: <https://x.example/${'ü'.repeat(450)}>\r\n\r\n`),
    /^5\.6\.7 .* cannot be folded after encoding/,
  );
});

const FIELDS: [field: string, expected: string][] = [
  ['Subject: Grüße', 'Subject: =?UTF-8?B?R3LDvMOfZQ==?='],
  ['Subject: one Grüße two', 'Subject: one =?UTF-8?B?R3LDvMOfZQ==?= two'],
  ['Subject: =?utf-8?q?a?= ü', 'Subject: =?UTF-8?Q?a_=C3=BC?='],
  ['From: Jürgen <j@x.example>', 'From: =?UTF-8?Q?J=C3=BCrgen?= <j@x.example>'],
  ['To: j@bücher.example', 'To: j@xn--bcher-kva.example'],
  [
    'To: Plain <a@x.example>, "Q, R" <b@x.example>, ü <c@x.example>',
    'To: Plain <a@x.example>, "Q, R" <b@x.example>, =?UTF-8?B?w7w=?= <c@x.example>',
  ],
  ['Cc: Größe:;', 'Cc: =?UTF-8?B?R3LDtsOfZQ==?=:;'],
  // RFC 6857 §3.1: an address that requires SMTPUTF8 is shown as an empty group.
  ['To: änn@a.example', 'To: =?UTF-8?B?w6RubkBhLmV4YW1wbGU=?= :;'],
  [
    'To: "Ünal, T" <ünal@x.example>, Bob <bob@b.example>, ü@bücher.example',
    'To: =?UTF-8?B?w5xuYWwsIFQgw7xuYWxAeC5leGFtcGxl?= :;, Bob <bob@b.example>,\r\n =?UTF-8?B?w7xAYsO8Y2hlci5leGFtcGxl?= :;',
  ],
  ['Reply-To: ü@x.example', 'Reply-To: =?UTF-8?B?w7xAeC5leGFtcGxl?= :;'],
  [
    'Cc: Team: a@x.example, ü@x.example, b@x.example;, c@x.example',
    'Cc: Team: a@x.example, b@x.example;, =?UTF-8?B?w7xAeC5leGFtcGxl?= :;,\r\n c@x.example',
  ],
  ['To: a@x.example (ü)', 'To: a@x.example (=?UTF-8?B?w7w=?=)'],
  ['List-Id: ü <l.x.example>', 'List-Id: =?UTF-8?B?w7w=?= <l.x.example>'],
  [
    'List-Help: für <https://x.example/ü> Öl',
    'List-Help: =?UTF-8?Q?f=C3=BCr?= <https://x.example/%C3%BC> =?UTF-8?B?w5Zs?=',
  ],
  ['List-Help: <https://x.example/ü?a=ß> (Hilfe)', 'List-Help: <https://x.example/%C3%BC?a=%C3%9F> (Hilfe)'],
  [
    'Content-Disposition: attachment; filename="ü.txt"; size=3',
    "Content-Disposition: attachment;\r\n filename*=UTF-8''%C3%BC.txt;\r\n size=3",
  ],
  [
    "Content-Disposition: attachment; filename*=UTF-8''ü.txt",
    "Content-Disposition: attachment;\r\n filename*=UTF-8''%C3%BC.txt",
  ],
  ['Archived-At: <https://x.example/ü>', 'Archived-At: <https://x.example/%C3%BC>'],
  [
    'Content-Type: text/plain charset=utf-8 name="ü"',
    "Content-Type: text/plain;\r\n charset=utf-8;\r\n name*=UTF-8''%C3%BC",
  ],
  ['In-Reply-To: your mail of Münch <1@x.example>', 'In-Reply-To: your mail of =?UTF-8?B?TcO8bmNo?= <1@x.example>'],
  ['X-Control: ü\x07', 'X-Control: =?UTF-8?B?w7wg?='],
  ['To: "broken ü <a@x.example>', 'To: "broken =?UTF-8?B?w7w=?= <a@x.example>'],
];
for (const [field, expected] of FIELDS) {
  test(`raw UTF-8 is removed from ${field}`, () => {
    assert.equal(converted(`X: y\r\n${field}\r\n\r\nx\r\n`).toString(), `X: y\r\n${expected}\r\n\r\nx\r\n`);
  });
}

test('a Windows-1252 name in a part header is decoded as clients do', () => {
  const mail = Buffer.from(
    'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Disposition: inline; filename="gr\xfcn"\r\n\r\nx\r\n--b--\r\n',
    'latin1',
  );
  assert.match(converted(mail).toString(), /filename\*=UTF-8''gr%C3%BCn\r\n/);
});

const leaf = (headers: string, body: string): string =>
  `From: a@x.example\r\nMIME-Version: 1.0\r\n${headers}\r\n\r\n${body}`;

test('text becomes quoted-printable, other bytes Base64, with matching labels', () => {
  const text = converted(
    leaf('Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8BIT', '<p>grün \r\nX=1</p>\r\n'),
  );
  assert.equal(
    text.toString(),
    leaf(
      'Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable',
      '<p>gr=C3=BCn=20\r\nX=3D1</p>\r\n',
    ),
  );
  const bytes = converted(leaf('Content-Type: image/x\r\nContent-Transfer-Encoding: (c) binary', 'grün\r\n'));
  assert.equal(
    bytes.toString(),
    leaf('Content-Type: image/x\r\nContent-Transfer-Encoding: base64', 'Z3LDvG4NCg==\r\n'),
  );
  for (const encoding of ['8-bit', '7-bit']) {
    const hyphen = converted(leaf(`Content-Type: text/plain\r\nContent-Transfer-Encoding: ${encoding}`, 'grün\r\n'));
    assert.equal(
      hyphen.toString(),
      leaf('Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable', 'gr=C3=BCn\r\n'),
    );
  }
  const label = converted(leaf('Content-Transfer-Encoding: 8bit', 'x\r\n'));
  assert.equal(label.toString(), leaf('Content-Transfer-Encoding: 7bit', 'x\r\n'));
});

test('text with bare line breaks keeps its bytes', () => {
  const body = 'grün\nand\rmore\r\n';
  const result = converted(leaf('Content-Type: text/plain; charset=utf-8', body)).toString();
  assert.match(result, /Content-Transfer-Encoding: base64\r\n/);
  assert.equal(Buffer.from(result.split('\r\n\r\n')[1]!, 'base64').toString(), body);
});

test('a message without MIME headers gets them', () => {
  const fields = (charset: string) =>
    `From: a@x.example\r\nContent-Transfer-Encoding: quoted-printable\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=${charset}\r\n\r\n`;
  assert.equal(converted('From: a@x.example\r\n\r\ngrün').toString(), `${fields('utf-8')}gr=C3=BCn`);
  const latin1 = Buffer.from('From: a@x.example\r\n\r\ngr\xfcn', 'latin1');
  assert.equal(converted(latin1).toString(), `${fields('unknown-8bit')}gr=FCn`);
});

test('rejects parts that must not be encoded with 5.6.3', () => {
  assert.match(
    refusal(leaf('Content-Type: message/partial; id=x', 'ü\r\n')),
    /^5\.6\.3 a part of type message\/partial/,
  );
  assert.match(refusal(leaf('Content-Type: message/delivery-status', 'Status: ü\r\n')), /^5\.6\.3 a part of type/);
  assert.match(
    refusal(leaf('Content-Transfer-Encoding: x-uuencode', 'ü\r\n')),
    /^5\.6\.3 a part is encoded as x-uuencode/,
  );
  assert.match(
    refusal(leaf('Content-Type: multipart/mixed; boundary="ü"', '--ü\r\n\r\nx\r\n--ü--\r\n')),
    /^5\.6\.3 a boundary/,
  );
});

test('a nested internationalized message is encoded, even if only SMTPUTF8 is missing (RFC 6532)', () => {
  const inside = 'From: ü@x.example\r\nSubject: ü\r\n\r\nü\r\n';
  for (const needs of [BOTH, HEADERS_ONLY]) {
    const result = converted(leaf('Content-Type: message/global', inside), needs).toString();
    assert.match(result, /Content-Type: message\/global\r\nContent-Transfer-Encoding: base64\r\n/);
    assert.equal(Buffer.from(result.split('\r\n\r\n')[1]!, 'base64').toString(), inside);
  }
});

test('2 MB messages and the worst structures are converted in reasonable time', () => {
  const big = leaf(
    'Content-Type: text/plain; charset=utf-8',
    'Größenübersicht mit vielen Wörtern, Zeile um Zeile.\r\n'.repeat(36_000),
  );
  const parts = leaf('Content-Type: multipart/mixed; boundary=b', '--b\r\nX: ü\r\n\r\nü\r\n'.repeat(9_000));
  const wide = leaf(`X: ${`${'ü '.repeat(300)}\r\n `.repeat(1000)}y`, 'x\r\n');
  const names = leaf(`To: ${'ü <a@b.example>,\r\n '.repeat(30_000)}c@b.example`, 'x\r\n');
  for (const mail of [big, parts, wide, names]) {
    const start = process.cpuUsage();
    assert.ok(isSevenBit(converted(mail)));
    const used = process.cpuUsage(start);
    assert.ok((used.user + used.system) / 1000 < 1500, `${(used.user + used.system) / 1000} ms`);
  }
});

test('any input becomes valid output, and converting it again changes nothing', () => {
  const piece = fc.constantFrom(
    '\r\n',
    '\r\n',
    '\r\n\r\n',
    ' ',
    '\t',
    'ü',
    '\xff',
    '--b',
    '--b\r\n',
    '--b--\r\n',
    '--c\r\n',
    '\r',
    '\n',
    '\0',
    '=',
    'Content-Type: multipart/mixed; boundary=b\r\n',
    'Content-Type: multipart/signed; boundary=c\r\n',
    'content-type: text/html\r\n',
    'Content-Type: message/rfc822\r\n',
    'Content-Type: message/global\r\n',
    'Content-Transfer-Encoding: 8bit\r\n',
    'Content-Transfer-Encoding: base64\r\n',
    'Content-Transfer-Encoding: quoted-printable\r\n',
    'From: ü <a@b.example>\r\n',
    'Subject: ü =?utf-8?q?=C3?= x\r\n',
    'x'.repeat(400),
    `${'ü'.repeat(400)}`,
    'To: a@ü.example, ü:;\r\n',
    'no field\r\n',
    ': x\r\n',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), fc.boolean(), (pieces, latin1) => {
      const mail = Buffer.from(pieces.join(''), latin1 ? 'latin1' : 'utf8');
      const result = toSevenBit(mail, BOTH);
      if (result.ok) {
        assert.ok(isSevenBit(result.content));
        const again = toSevenBit(result.content, BOTH);
        assert.ok(again.ok && again.content.equals(result.content));
      }
      const headers = toSevenBit(mail, HEADERS_ONLY);
      if (!headers.ok) assert.equal(headers.code, '5.6.7');
    }),
    { numRuns: 3000 },
  );
});
