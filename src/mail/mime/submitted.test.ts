import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  accepted,
  corpus,
  expectedEdit,
  GOOD,
  MAX_BYTES,
  refusal,
  SUBMITTED_AT,
  type Submitted,
  submit,
} from '../../../test/kit/submit.ts';
import { formatDate } from '../compose/header.ts';
import { createSubmissionReader } from './submitted.ts';

const mails = corpus();

test('the corpus is unchanged byte for byte, except for documented edits', () => {
  assert.ok(mails.length >= 30);
  let same = 0;
  for (const { name, content: mail } of mails) {
    const { content, sizeBytes } = accepted(mail);
    assert.match(content.toString('latin1'), expectedEdit(mail), name);
    assert.equal(sizeBytes, content.length, name);
    if (content.equals(mail)) same += 1;
  }
  assert.equal(same, mails.length - 3, 'only cron, header-only, and control headers are edited');
});

test('the corpus is parsed identically in any chunks', () => {
  const blind = (read: Submitted): string => JSON.stringify({ ...read, content: read.content.toString('latin1') });
  const withoutId = (read: Submitted): string => blind(read).replace(/<[0-9a-z]{8}\.[0-9A-Za-z]{16}@/g, '<new@');
  for (const { name, content } of mails) {
    const whole = withoutId(submit(content));
    for (const sizes of [[1], [2], [7], [64], [1000], [content.length - 1], [content.indexOf('\r\n\r\n') + 3]]) {
      assert.equal(withoutId(submit(content, sizes)), whole, `${name} in chunks of ${sizes[0]}`);
    }
  }
});

test('accepts TLS-Required if it occurs once with the value No (RFC 8689)', () => {
  const isTlsOptional = (...fields: string[]): boolean =>
    accepted(`From: a@b.example\r\n${fields.map((one) => `${one}\r\n`).join('')}\r\n`).tlsOptional;
  assert.ok(isTlsOptional('TLS-Required: No') && isTlsOptional('tls-required:\r\n no'));
  for (const fields of [[], ['TLS-Required: Yes'], ['TLS-Required: No', 'TLS-Required: No'], ['X-TLS-Required: No']])
    assert.ok(!isTlsOptional(...fields), fields.join());
});

test('reads the header fields that the service needs', () => {
  const orders = accepted(mails.find((one) => one.name === 'orders.eml')!.content);
  assert.deepEqual(orders.tags, ['welcome', 'invoice', 'third']);
  assert.deepEqual(orders.metadata, { 'Order-Id': '17', customer: 'Jürgen Müller' });
  assert.deepEqual(orders.track, { opens: true, clicks: true });
  assert.equal(orders.idempotencyKey, 'order 17 / first');
  assert.equal(orders.sandboxOutcome, '452 4.2.2 mailbox full');
  assert.doesNotMatch(orders.content.toString(), /hidden|other@|postrider|idempot|sandbox|return-path/i);
  assert.match(orders.content.toString(), /X-Kept: this stays\r\n and this too\r\nDate: /);

  const mail = accepted(
    'Subject: =?utf-8?q?Gr=C3=BC=C3?=\r\n =?utf-8?q?=9Fe?= und\tmehr\r\nTo: =?utf-8?b?w4RubmE=?= <a@x.example>,\r\n' +
      ' group: b@x.example, c@x.example;\r\nCc: "D, E" <d@x.example>\r\nFrom: "Shop, Inc." <Orders@Shop.example>\r\n\r\n',
  );
  assert.equal(mail.subject, 'Grüße und mehr');
  assert.deepEqual(mail.headerTo, {
    to: ['Änna <a@x.example>', 'b@x.example', 'c@x.example'],
    cc: ['D, E <d@x.example>'],
  });
  assert.deepEqual(mail.from, {
    name: 'Shop, Inc.',
    local: 'Orders',
    domain: 'shop.example',
    address: 'Orders@shop.example',
  });
  assert.equal(mail.fromText, '"Shop, Inc." <Orders@shop.example>');
  assert.match(mail.headerMessageId, /^<[0-9a-z]+\.[0-9A-Za-z]{16}@shop\.example>$/);
  assert.ok(mail.content.includes(`Message-ID: ${mail.headerMessageId}\r\n\r\n`));
  assert.ok(mail.content.includes(`Date: ${formatDate(SUBMITTED_AT)}\r\n`));
  assert.deepEqual([mail.smtpUtf8, mail.eightBit, mail.tags, mail.metadata], [false, false, [], {}]);
  assert.deepEqual(mail.track, { opens: false, clicks: false });
});

test('an empty Date or Message-ID is replaced, and an unusual one is kept', () => {
  const empty = accepted('Date:\r\nFrom: a@shop.example\r\nMessage-ID: \r\n \r\n\r\nx\r\n');
  assert.match(empty.content.toString(), /^From: a@shop\.example\r\nDate: Fri.*\r\nMessage-ID: <.*>\r\n\r\nx\r\n$/);
  const odd = accepted('From: a@shop.example\r\nDate: yesterday\r\nMessage-ID: no brackets\r\n\r\nx\r\n');
  assert.equal(odd.headerMessageId, '<nobrackets>');
  assert.ok(odd.content.includes('Date: yesterday\r\nMessage-ID: no brackets\r\n\r\nx'));
});

test('8-bit content and raw UTF-8 are distinguished, in kept parts only', () => {
  const body = accepted(`${GOOD}\r\ngrün\r\n`);
  assert.deepEqual([body.smtpUtf8, body.eightBit], [false, true]);
  const header = accepted(`${GOOD}Subject: grün\r\n\r\nx\r\n`);
  assert.deepEqual([header.smtpUtf8, header.eightBit, header.subject], [true, true, 'grün']);
  const order = accepted(`${GOOD}X-Postrider-Metadata-Name: Jürgen\r\n\r\nx\r\n`);
  assert.deepEqual([order.smtpUtf8, order.eightBit, order.metadata], [false, false, { Name: 'Jürgen' }]);
  const part = accepted(
    `${GOOD}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Disposition: attachment; filename="grün"\r\n\r\nx\r\n--b--\r\n`,
  );
  assert.deepEqual([part.smtpUtf8, part.eightBit], [false, true]);
});

const CR_LF_NUL: [what: string, mail: string, expected: RegExp][] = [
  ['a bare CR in the body', `${GOOD}\r\na\r\nb\rc\r\n`, /^550 5\.6\.0 line 6 has a carriage return/],
  ['a bare LF in the body', `${GOOD}\r\na\r\nb\nc\r\n`, /^550 5\.6\.0 line 6 has a line feed/],
  ['LF CR', `${GOOD}\r\na\n\rb\r\n`, /^550 5\.6\.0 line 5 has a line feed/],
  ['CR CR LF', `${GOOD}\r\na\r\r\n`, /^550 5\.6\.0 line 5 has a carriage return/],
  ['a bare LF at once', `\n${GOOD}\r\na\r\n`, /^550 5\.6\.0 line 1 has a line feed/],
  ['a bare CR at the end', `${GOOD}\r\na\r\nb\r`, /^550 5\.6\.0 line 6 has a carriage return/],
  ['a bare CR in the header', `${GOOD}X: a\rBcc: b\r\n\r\n`, /^550 5\.6\.0 line 4 has a carriage return/],
  ['a bare LF as the end of the header', `${GOOD}X: a\n\nbody\r\n`, /^550 5\.6\.0 line 4 has a line feed/],
  ['LF . LF', `${GOOD}\r\na\n.\nMAIL FROM:<x@y>\r\n`, /^550 5\.6\.0 line 5 has a line feed/],
  ['LF . CRLF', `${GOOD}\r\na\n.\r\nMAIL\r\n`, /^550 5\.6\.0 line 5 has a line feed/],
  ['CR . CR', `${GOOD}\r\na\r.\rMAIL\r\n`, /^550 5\.6\.0 line 5 has a carriage return/],
  ['NUL in the body', `${GOOD}\r\na\r\nb\0c\r\n`, /^550 5\.6\.0 line 6 has a NUL/],
  ['NUL in the header', `${GOOD}X: a\0b\r\n\r\n`, /^550 5\.6\.0 line 4 has a NUL/],
  ['999 octets', `${GOOD}\r\n${'x'.repeat(999)}\r\n`, /^550 5\.6\.0 line 5 is longer than 998 bytes/],
  ['999 octets in the header', `${GOOD}X: ${'x'.repeat(996)}\r\n\r\n`, /^550 5\.6\.0 line 4 is longer/],
  ['999 octets at the end', `${GOOD}\r\n${'x'.repeat(999)}`, /^550 5\.6\.0 line 5 is longer/],
  ['998 octets and a bare CR at the end', `${GOOD}\r\n${'x'.repeat(998)}\r`, /^550 5\.6\.0 line 5 has a carr/],
];
for (const [what, mail, expected] of CR_LF_NUL) {
  test(`rejected with its line: ${what}`, () => {
    assert.match(refusal(mail), expected);
    for (const size of [1, 2, 3, 1000]) {
      const { result } = submit(mail, [size]);
      assert.ok(
        !result.ok && expected.test(`${result.refusal.code} ${result.refusal.enhanced} ${result.refusal.text}`),
        `chunks of ${size}`,
      );
    }
  });
}

test('lines of 998 octets, empty lines, and an empty first line are accepted', () => {
  assert.ok(accepted(`${GOOD}X: ${'x'.repeat(995)}\r\n\r\n${'ü'.repeat(499)}\r\n\r\n\r\n${'y'.repeat(998)}`).content);
  assert.match(refusal('\r\nFrom: a@shop.example\r\n'), /^550 5\.7\.1 the header has no From field/);
  assert.match(refusal(''), /^550 5\.7\.1 the header has no From field/);
});

const HEADERS: [what: string, fields: string, expected: RegExp][] = [
  ['a line without a colon', 'hello\r\n', /^550 5\.6\.0 line 4 of the header \(hello\) is not a header field/],
  ['a space in the name', 'X Y: z\r\n', /^550 5\.6\.0 line 4 .* is not a header field/],
  ['no name', ': z\r\n', /^550 5\.6\.0 line 4 .* is not a header field/],
  [
    'a space before the colon',
    'Bcc : z\r\n',
    /^550 5\.6\.0 line 4 of the header \(Bcc : z\) has a space before its colon/,
  ],
  ['a name that is not ASCII', 'Grün: z\r\n', /^550 5\.6\.0 line 4 .* is not a header field/],
  [
    'two Subjects',
    'Subject: a\r\nsubject: b\r\n',
    /^550 5\.6\.0 the header has more than one subject field \(line 5\)/,
  ],
  ['two Tos', 'To: a@x.example\r\nTO: b@x.example\r\n', /^550 5\.6\.0 .*more than one TO/],
  ['two Dates', 'Date: a\r\n', /^550 5\.6\.0 .*more than one Date/],
  ['two Message-IDs', 'Message-id: <a@x.example>\r\n', /^550 5\.6\.0 .*more than one Message-id/],
  ['two Content-Types', 'Content-Type: text/plain\r\nContent-Type: text/html\r\n', /^550 5\.6\.0 .*more than one/],
  ['two Senders', 'Sender: a@x.example\r\nSender: a@x.example\r\n', /^550 5\.7\.1 .*more than one Sender/],
  ['two Froms', 'From: Ann <ann@shop.example>\r\n', /^550 5\.7\.1 .*more than one From/],
  [
    'bytes that are not UTF-8',
    'Subject: a\r\nX-Y: gr\xfcn\r\n',
    /^550 5\.6\.0 X-Y \(line 5\) has bytes that are not UTF-8/,
  ],
  ['over-long UTF-8', 'X-Y: \xc0\xaf\r\n', /^550 5\.6\.0 X-Y \(line 4\) has bytes that are not UTF-8/],
  ['101 Received', 'Received: x\r\n'.repeat(101), /^554 5\.6\.0 the header has 101 Received fields/],
  ['1001 fields', 'X: y\r\n'.repeat(998), /^554 5\.6\.0 the header has more than 1000 fields/],
];
for (const [what, fields, expected] of HEADERS) {
  test(`rejected in the header: ${what}`, () => {
    const latin1 = /[\x80-\xff]/.test(fields) && !fields.includes('Grün');
    assert.match(refusal(Buffer.from(`${GOOD}${fields}\r\nbody\r\n`, latin1 ? 'latin1' : 'utf8')), expected);
  });
}

test('a header cannot start with a folded line or end within a line', () => {
  assert.match(refusal(` x\r\n${GOOD}\r\n`), /^550 5\.6\.0 line 1 of the header \( x\) starts with a space/);
  assert.match(refusal(`${GOOD}X: y`), /^550 5\.6\.0 the message ends in line 4 of its header/);
});

test('100 Received fields, 1,000 fields, and a header of 262,144 bytes are accepted', () => {
  assert.ok(accepted(`${'Received: x\r\n'.repeat(100)}${GOOD}\r\n`));
  assert.ok(accepted(`${GOOD}${'X: y\r\n'.repeat(997)}\r\n`));
  const line = `X: ${'x'.repeat(995)}\r\n`;
  const most = Math.floor((262_144 - GOOD.length - 2) / line.length);
  const rest = 262_144 - GOOD.length - 2 - most * line.length;
  const header = `${GOOD}${line.repeat(most)}Y:${'y'.repeat(rest - 4)}\r\n\r\n`;
  assert.equal(header.length, 262_144);
  assert.ok(accepted(`${header}body\r\n`));
  assert.match(
    refusal(`${header.slice(0, -4)}y\r\n\r\nbody\r\n`),
    /^552 5\.3\.4 the header is larger than 262144 bytes/,
  );
});

test('2,000,000 bytes are accepted and 2,000,001 rejected, whatever is added', () => {
  const fill = (size: number): string => {
    const head = 'From: a@shop.example\r\n\r\n';
    const lines = Math.floor((size - head.length) / 100);
    return `${head}${`${'x'.repeat(98)}\r\n`.repeat(lines)}${'y'.repeat(size - head.length - lines * 100)}`;
  };
  const most = accepted(fill(MAX_BYTES));
  assert.ok(most.sizeBytes > MAX_BYTES, 'Date and Message-ID are not counted');
  assert.match(refusal(fill(MAX_BYTES + 1)), /^552 5\.3\.4 the message is larger than 2000000 bytes/);
  assert.match(refusal('x'.repeat(MAX_BYTES + 1)), /^552 5\.3\.4/, 'reported even if the line is also too long');
});

test('after an error the sink receives nothing more, and bytes are still counted', () => {
  const sunk: Buffer[] = [];
  const reader = createSubmissionReader({
    sink: (chunk) => sunk.push(chunk),
    nowMs: SUBMITTED_AT,
    maxBytes: 100,
    hostname: 'h.example',
  });
  reader.write(Buffer.from(`${GOOD}\r\nfirst\r\n`));
  reader.write(Buffer.from('bare\nline\r\n'));
  reader.write(Buffer.from('more\r\n'));
  assert.equal(Buffer.concat(sunk).toString(), `${GOOD}\r\nfirst\r\n`);
  assert.equal(reader.sizeBytes, GOOD.length + 9 + 11 + 6);
  const result = reader.end();
  assert.ok(!result.ok && result.refusal.code === 550);
});

test('whatever the input, the output has one From and no control headers', () => {
  const line = fc.constantFrom(
    'Bcc: x@y.example',
    'bcc:',
    ' folded',
    '\tfolded: too',
    'X-Postrider-Tag: t',
    'X-Kept: value',
    'Idempotency-Key: k',
    'Return-Path: <>',
    'X-Bcc: stays',
    'Subject: s',
    'Received: r',
    'To: a@b.example',
    ' ',
    'Bcc',
    'Bcc : x',
    'From: b@shop.example',
  );
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1 }),
      (lines, sizes) => {
        const mail = Buffer.from(`${GOOD}${lines.map((one) => `${one}\r\n`).join('')}\r\nBcc: body\r\n`);
        const { result, content } = submit(mail, sizes);
        if (!result.ok) return;
        assert.match(content.toString(), expectedEdit(mail));
        const header = content.toString().split('\r\n\r\n')[0]!;
        assert.equal(header.match(/^From:/gim)!.length, 1);
        assert.doesNotMatch(header, /^(?:Bcc|X-Postrider|Idempotency|Return-Path)/im);
        assert.ok(submit(content).content.equals(content), 'an accepted message is accepted again unchanged');
      },
    ),
    { numRuns: 500 },
  );
});
