/** Tracking in submitted messages: the HTML equals trackHtml's output in every charset and encoding, and nothing else changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { runningMs } from '../../../test/kit/running-time.ts';
import { accepted, corpus } from '../../../test/kit/submit.ts';
import { type HtmlTracking, trackHtml } from '../html/track-html.ts';
import { readTrackableMail } from './track-submitted.ts';

const HEADER = 'From: a@shop.example\r\nDate: x\r\nMessage-ID: <1@shop.example>\r\nMIME-Version: 1.0\r\n';
const BOTH: HtmlTracking = {
  rewriteLink: (url) => `https://t.test/t/${url.length}?a=1&b`,
  pixelUrl: 'https://t.test/t/p',
};

/** The message as one recipient gets it, or undefined if it has nothing to track. */
function tracked(mail: Buffer | string, tracking = BOTH): string | undefined {
  const content = Buffer.isBuffer(mail) ? mail : Buffer.from(mail, 'latin1');
  const copy = readTrackableMail(content, { links: tracking.rewriteLink !== undefined })?.copy(tracking);
  return copy?.toString('latin1');
}

function mailOf(type: string, body: string, encoding?: string): string {
  const named = encoding === undefined ? '' : `Content-Transfer-Encoding: ${encoding}\r\n`;
  return `${HEADER}Content-Type: ${type}\r\n${named}X-Last: 1\r\n\r\n${body}\r\n`;
}

const LINK = '<a href="https://a.test/">x</a>';

test('a 7-bit HTML message is tracked before its final line break', () => {
  const mail = mailOf('text/html', `<p>${LINK}`);
  assert.equal(tracked(mail), mail.replace(`<p>${LINK}`, trackHtml(`<p>${LINK}`, BOTH)));
  assert.equal(tracked(mail, {}), mail);
  const links: HtmlTracking = { rewriteLink: () => 'https://t.test/' };
  assert.equal(tracked(mail, links), mail.replace('https://a.test/', 'https://t.test/'));
  const without = mailOf('text/html', '<p>no link');
  const content = Buffer.from(without);
  assert.equal(readTrackableMail(content, { links: true })!.copy(links), content, 'the same buffer, not a copy');
});

test("other parts, the HTML part's header, and delimiters are unchanged", () => {
  const alternative = [
    `${HEADER}Content-Type: multipart/alternative; boundary="b 1"\r\n\r\npreamble ${LINK}\r\n--b 1\r\n`,
    `Content-Type: text/plain\r\n\r\n${LINK}\r\n--b 1  \r\ncontent-TYPE: TEXT/HTML;\r\n charset="UTF-8"\r\n\r\n`,
    `<body>${LINK}</body>`,
    `\r\n--b 1\r\nContent-Type: text/calendar\r\n\r\n${LINK}\r\n--b 1--\r\n${LINK}\r\n`,
  ];
  const [before, plain, html, behind] = alternative as [string, string, string, string];
  assert.equal(tracked(alternative.join('')), before + plain + trackHtml(html, BOTH) + behind);
});

const untouched: [what: string, mail: string][] = [
  ['no html', mailOf('text/plain', LINK)],
  ['html without MIME fields', `${HEADER}\r\n${LINK}\r\n`],
  [
    'signed',
    `${HEADER}Content-Type: multipart/signed; boundary=s\r\n\r\n--s\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--s\r\nContent-Type: application/pgp-signature\r\n\r\nx\r\n--s--\r\n`,
  ],
  [
    'signed within a list mail with html beside it',
    `${HEADER}Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n--s\r\n\r\nx\r\n--s--\r\n--m\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--m--\r\n`,
  ],
  [
    'encrypted',
    `${HEADER}Content-Type: multipart/encrypted; boundary=s\r\n\r\n--s\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--s--\r\n`,
  ],
  [
    'S/MIME',
    `${HEADER}Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: application/pkcs7-mime\r\n\r\nx\r\n--m\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--m--\r\n`,
  ],
  [
    'a mail inside',
    `${HEADER}Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: message/rfc822\r\n\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--m--\r\n`,
  ],
  ['an attachment', mailOf('text/html\r\nContent-Disposition: attachment', LINK)],
  ['a file shown inline', mailOf("text/html\r\nContent-Disposition: inline;\r\n filename*=utf-8''x.html", LINK)],
  ['a part with a digest', mailOf('text/html\r\nContent-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==', LINK)],
  ['a charset nobody knows', mailOf('text/html; charset=x-nobody', LINK)],
  ['UTF-7, whose ASCII is none', mailOf('text/html; charset=utf-7', LINK)],
  ['an encoding nobody knows', mailOf('text/html', LINK, 'x-uuencode')],
  ['Base64 with holes', mailOf('text/html', 'PGEgaHJl*Zj0i', 'base64')],
  ['Base64 that is cut off', mailOf('text/html', 'PGEgaHJlZj0', 'base64')],
  [
    'a part without a body',
    `${HEADER}Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: text/plain\r\n--m--\r\n`,
  ],
];
for (const [what, mail] of untouched) {
  test(`unchanged: ${what}`, () => assert.equal(tracked(mail) ?? mail, mail));
}

test('HTML is tracked if its content type or transfer encoding is not well formed', () => {
  for (const type of ['text/html charset=UTF-8', 'text/html, charset=utf-8', 'text/html charset="utf-8" format=x']) {
    const mail = mailOf(type, `<p>ü ${LINK}`, '8-bit');
    assert.equal(
      tracked(Buffer.from(mail)),
      Buffer.from(mail.replace(`<p>ü ${LINK}`, trackHtml(`<p>ü ${LINK}`, BOTH))).toString('latin1'),
      type,
    );
  }
});

test('inline HTML is tracked, and an attached message is not', () => {
  assert.match(tracked(mailOf('text/html\r\nContent-Disposition: inline', LINK))!, /t\.test/);
  const forwarding = `${HEADER}Content-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--m\r\nContent-Type: message/rfc822\r\n\r\nContent-Type: multipart/signed; boundary=s\r\n\r\n--s\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n--s--\r\n--m--\r\n`;
  assert.equal(
    tracked(forwarding)!.split('https://a.test/').length,
    2,
    'the link in the attached message is unchanged',
  );
});

test('quoted-printable is rewritten only at changed places', () => {
  const body = [
    '<p =',
    'class=3Dx>Gr=c3=BC=C3=9Fe, this line has soft breaks at odd places and=20',
    'goes on</p> <a =',
    'title=3D"y" href=3D"https://a.test/?a=3D1&amp;b=3Dlong&amp;c=3Dlonger&amp;d=',
    '=3Dlongest">here</a> and more   ',
    '</body>=',
  ].join('\r\n');
  const copy = tracked(mailOf('text/html; charset=utf-8', body, 'Quoted-Printable'), {
    rewriteLink: (url) => `https://t.test/${url.length}`,
    pixelUrl: 'https://t.test/p',
  });
  const expected = [
    '<p =',
    'class=3Dx>Gr=c3=BC=C3=9Fe, this line has soft breaks at odd places and=20',
    'goes on</p> <a =',
    'title=3D"y" href=3D"https://t.test/45">here</a> and more   ',
    '<img src=3D"https://t.test/p" width=3D"1" height=3D"1" alt=3D"" style=3D"di=',
    'splay:block;border:0;width:1px;height:1px"></body>=',
  ].join('\r\n');
  assert.equal(copy, mailOf('text/html; charset=utf-8', expected, 'Quoted-Printable'));
  // The longest allowed line: the text before the pixel leaves space for the soft break.
  const full = tracked(mailOf('text/html', 'x'.repeat(76), 'quoted-printable'), { pixelUrl: 'https://t.test/p' })!;
  assert.ok(full.includes(`\r\n\r\n${'x'.repeat(75)}=\r\nx<img src=3D`), full);
});

test('rewrites Base64 in lines of 76, including what follows it', () => {
  const html = `<p>${'ü'.repeat(100)}</p>${LINK}\n`;
  const base64 = Buffer.from(html).toString('base64').replace(/.{60}/g, '$&\r\n');
  const copy = tracked(mailOf('text/html; charset=utf-8', `${base64}\r\n\r\n`, 'BASE64'))!;
  const body = copy.slice(copy.indexOf('\r\n\r\n') + 4);
  assert.ok(body.endsWith('\r\n\r\n\r\n') && body.split('\r\n').every((line) => line.length <= 76));
  assert.equal(Buffer.from(body, 'base64').toString(), trackHtml(html, BOTH));
});

test('lines that would become too long change the part to quoted-printable or Base64', () => {
  const tracking: HtmlTracking = { rewriteLink: () => `https://t.test/${'x'.repeat(980)}` };
  const result = (type: string, body: string, encoding?: string): string =>
    tracked(Buffer.from(mailOf(type, body, encoding)), tracking)!;
  const named = result('text/html', LINK, '7bit');
  assert.ok(
    named.includes(
      '\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\nX-Last: 1\r\n\r\n<a href=3D',
    ),
  );
  const unnamed = result('text/html', LINK);
  assert.ok(unnamed.includes('\r\nX-Last: 1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<a href=3D'));
  const base64 = result('text/html; charset=utf-8', `${'\u00fc\u00df'.repeat(400)}\r\n${LINK}`, '8bit');
  assert.ok(base64.includes('Content-Transfer-Encoding: base64\r\n'));
  for (const mail of [named, unnamed, base64]) assert.ok(mail.split('\r\n').every((line) => line.length <= 76));
  const plain = `From: a@b.example\r\nContent-Type: text/html\r\n\r\n${LINK}\r\n`;
  assert.ok(tracked(plain, tracking)!.includes('MIME-Version: 1.0\r\n\r\n<a'), 'a message without MIME headers');
});

test('URLs are decoded in the charset of their part, or left unchanged', () => {
  const urls: string[] = [];
  const seen = (type: string, html: Buffer, encoding?: string): string[] => {
    urls.length = 0;
    const body = encoding === 'base64' ? html.toString('base64') : html.toString('latin1');
    const mail = Buffer.from(mailOf(type, body, encoding), 'latin1');
    tracked(mail, {
      rewriteLink: (url) => {
        urls.push(url);
        return undefined;
      },
    });
    return [...urls];
  };
  const link = '<a href="https://a.test/\u00fc?\u00e9=1">';
  const latin1 = Buffer.from(link, 'latin1');
  const address = 'https://a.test/\u00fc?\u00e9=1';
  assert.deepEqual(seen('text/html; charset=utf-8', Buffer.from(link)), [address]);
  assert.deepEqual(seen('text/html; charset="ISO-8859-1"', latin1), [address]);
  assert.deepEqual(seen('text/html; charset=windows-1252', Buffer.from('<a href="https://a.test/\x80">', 'latin1')), [
    'https://a.test/\u20ac',
  ]);
  assert.deepEqual(seen('text/html', Buffer.from(link)), [address], 'undeclared UTF-8');
  assert.deepEqual(seen('text/html; charset=us-ascii', latin1), [], 'the charset is unknown');
  assert.deepEqual(seen('text/html; charset=utf-8', latin1), [], 'not UTF-8');
  assert.deepEqual(seen('text/html; charset=utf-8', Buffer.concat([latin1, Buffer.from(LINK)])), ['https://a.test/']);
  // Katakana between escape sequences, whose bytes look like tags.
  const japanese = Buffer.from('\x1b$B<a href="https:\x1b(B<a href="https://a.test/\x1b$B%"\x1b(B">', 'latin1');
  assert.deepEqual(seen('text/html; charset=iso-2022-jp', japanese), ['https://a.test/\u30a2']);
  const shifted = Buffer.from('<a href="https://a.test/\x83\x41">', 'latin1');
  assert.deepEqual(seen('text/html; charset=shift_jis', shifted), ['https://a.test/\u30a2']);
  const wide = Buffer.from(`\ufeff${link}`, 'utf16le');
  assert.deepEqual(seen('text/html; charset=utf-16', wide, 'base64'), [address]);
  assert.deepEqual(seen('text/html; charset=utf-16', Buffer.from(wide).swap16(), 'base64'), [address]);
  assert.deepEqual(seen('text/html; charset=utf-16be', Buffer.from(link, 'utf16le').swap16(), 'base64'), [address]);
});

test('a tracked message of the corpus differs only in links and the tracking pixel', async () => {
  const changed: string[] = [];
  for (const { name, content } of corpus()) {
    const mail = accepted(content).content;
    const copy = tracked(mail);
    if (copy === undefined) continue;
    const bytes = Buffer.from(copy, 'latin1');
    if (!bytes.equals(mail)) changed.push(name);
    assert.ok(accepted(bytes).content.equals(bytes), `${name} is accepted again`);
    const [before, after] = await Promise.all([PostalMime.parse(mail), PostalMime.parse(bytes)]);
    const html = before.html === undefined ? undefined : trackHtml(before.html.replace(/\n$/, ''), BOTH);
    assert.equal(after.html?.replace(/\n$/, ''), html, name);
    assert.deepEqual({ ...after, html: '' }, { ...before, html: '' }, name);
  }
  assert.ok(changed.length >= 3, `tracked: ${changed.join(', ')}`);
});

const piece = fc.constantFrom(
  '<',
  '>',
  '/',
  '=',
  '"',
  "'",
  ' ',
  '\t',
  '\r\n',
  '<!--',
  '-->',
  '</',
  '&',
  '&amp;',
  'href',
  'text',
  'From ',
  '.',
  '=3D',
  '<a ',
  '<a href=',
  '</a>',
  '<style>',
  '</style>',
  '</body>',
  '</html>',
  '\u00e9',
  '\u00fc\u00df',
  'x'.repeat(70),
  'https://a.test/',
  '<a href="https://a.test/1">',
  '<area href=http://b.test/\u00e9>',
  '<a href="https://a.test/\u00fc?b=1">',
);
const soup = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));

const CHARSETS: [name: string, encode: (text: string) => Buffer][] = [
  ['utf-8', (text) => Buffer.from(text)],
  ['iso-8859-1', (text) => Buffer.from(text, 'latin1')],
  ['Windows-1252', (text) => Buffer.from(text, 'latin1')],
  ['utf-16le', (text) => Buffer.from(text, 'utf16le')],
];

/** Quoted-printable with its variations: what is escaped, hexadecimal case, and line breaks. */
function quotedPrintable(bytes: Buffer, whims: readonly number[]): string {
  let out = '';
  let column = 0;
  for (let i = 0; i < bytes.length; i += 1) {
    const whim = whims[i % whims.length]!;
    if (bytes[i] === 13 && bytes[i + 1] === 10) {
      out += `${whim === 0 ? ' \t' : ''}\r\n`;
      column = 0;
      i += 1;
      continue;
    }
    const hex = bytes[i]!.toString(16).padStart(2, '0');
    const isEnd = i + 1 === bytes.length || bytes[i + 1] === 13;
    const isPlain = bytes[i]! > 32 && bytes[i]! < 127 && bytes[i] !== 61;
    const isSpace = (bytes[i] === 32 || bytes[i] === 9) && !isEnd;
    const unit =
      (isPlain || isSpace) && whim !== 1 ? String.fromCharCode(bytes[i]!) : `=${whim % 2 ? hex : hex.toUpperCase()}`;
    if (column + unit.length > 72 || (whim === 2 && column > 0)) {
      out += `=${whim === 2 ? ' ' : ''}\r\n`;
      column = 0;
    }
    out += unit;
    column += unit.length;
  }
  return out;
}

function readQuotedPrintable(body: string): Buffer {
  const text = body
    .replace(/[ \t]+(?=\r\n|$)/g, '')
    .replace(/=(?:\r\n|$)/g, '')
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(text, 'latin1');
}

const SHAPES: [before: string, behind: string][] = [
  ['', '\r\n'],
  [
    `Content-Type: multipart/mixed; boundary=b\r\n\r\n${LINK}\r\n--b\r\n\r\n${LINK}\r\n--b\r\n`,
    `\r\n--b\r\n\r\n${LINK}\r\n--b--\r\n`,
  ],
  ['Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\n', '\r\n--b--\r\n'],
  ['Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n', '\r\n'],
];

test("property: the HTML equals trackHtml's output, and every other byte is unchanged", () => {
  fc.assert(
    fc.property(
      soup,
      fc.constantFrom(...CHARSETS),
      fc.constantFrom('', '7bit', '8bit', 'quoted-printable', 'base64'),
      fc.constantFrom(...SHAPES),
      fc.array(fc.nat(9), { minLength: 1, maxLength: 50 }),
      (html, [charset, encode], encoding, [before, behind], whims) => {
        const bytes = encode(html);
        if (encoding !== 'quoted-printable' && encoding !== 'base64') {
          fc.pre(charset !== 'utf-16le' && html.split('\r\n').every((line) => line.length < 990));
        }
        const base64 = bytes.toString('base64').replace(/.{76}/g, '$&\r\n');
        const named = encoding === '' ? '' : `Content-Transfer-Encoding: ${encoding}\r\n`;
        const start = `${HEADER}${before}Content-Type: text/html; charset=${charset}\r\n${named}\r\n`;
        const body =
          encoding === 'base64'
            ? base64
            : encoding === 'quoted-printable'
              ? quotedPrintable(bytes, whims)
              : bytes.toString('latin1');
        const copy = tracked(start + body + behind)!;
        assert.ok(copy.endsWith(behind) && copy.split('\r\n').every((line) => line.length <= 998));
        let readAs: string = encoding;
        let from = start.length;
        if (!copy.startsWith(start)) {
          const found = /Content-Transfer-Encoding: (quoted-printable|base64)\r\n(?:MIME-Version: 1\.0\r\n)?\r\n/.exec(
            copy,
          )!;
          readAs = found[1]!;
          from = found.index + found[0].length;
          assert.ok(copy.startsWith(start.slice(0, start.indexOf(named === '' ? '\r\n\r\n' : named))));
        }
        const encoded = copy.slice(from, copy.length - behind.length);
        const read =
          readAs === 'base64'
            ? Buffer.from(encoded, 'base64')
            : readAs === 'quoted-printable'
              ? readQuotedPrintable(encoded)
              : Buffer.from(encoded, 'latin1');
        assert.equal(new TextDecoder(charset, { ignoreBOM: true }).decode(read), trackHtml(html, BOTH));
        if (encoding === 'quoted-printable')
          assert.ok(
            encoded.split('\r\n').every((line) => line.length <= 76),
            encoded,
          );
      },
    ),
    { numRuns: 3_000 },
  );
});

test('hostile bodies take linear time', () => {
  const n = 1_900_000;
  const bodies: [encoding: string, unit: string][] = [
    ['quoted-printable', '='],
    ['quoted-printable', '= '],
    ['quoted-printable', ' '],
    ['quoted-printable', '=3D=\r\n'],
    ['quoted-printable', '<a href=3Dhttp:/=\r\n/a.test>'],
    ['base64', 'AAAA\r\n'],
    ['base64', ' '],
    ['base64', '\r\n'],
    ['8bit', '<a href=http://a.test>\r\n'],
  ];
  for (const [encoding, unit] of bodies) {
    const started = runningMs();
    // Spaces at the end of a line are found immediately, but not those in the middle.
    const repeated = unit.repeat(n / unit.length);
    tracked(mailOf('text/html; charset=utf-8', `${repeated}x`, encoding));
    if (encoding === 'base64') tracked(mailOf('text/html; charset=utf-8', `PHA+${repeated}PHA+`, encoding));
    const tookMs = runningMs() - started;
    assert.ok(tookMs < 1_500, `${encoding} of ${JSON.stringify(unit)} took ${tookMs} ms`);
  }
});
