import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accepted, GOOD, MAX_BYTES, refusal, SUBMITTED_AT, submit } from '../../../test/kit/submit.ts';
import { createSubmissionReader } from './submitted.ts';

const multipart = (depth: number, boundary = (level: number) => `b${level}`): string => {
  let text = '';
  for (let level = 0; level < depth; level += 1) {
    if (level > 0) text += `--${boundary(level - 1)}\r\n`;
    text += `Content-Type: multipart/mixed;\r\n boundary="${boundary(level)}"\r\n\r\n`;
  }
  return text;
};
const forwarded = (depth: number): string => 'Content-Type: message/rfc822\r\n\r\n'.repeat(depth);

test('parts can be nested 100 deep, counting multiparts and messages', () => {
  for (const nested of [multipart, forwarded]) {
    assert.ok(accepted(`${GOOD}${nested(100)}x\r\n`));
    assert.match(
      refusal(`${GOOD}${nested(101)}x\r\n`),
      /^554 5\.6\.0 the message has MIME parts nested deeper than 100 levels/,
    );
  }
  const parts = (count: number): string => `${multipart(1)}${'--b0\r\n\r\nx\r\n'.repeat(count)}--b0--\r\n`;
  assert.ok(accepted(`${GOOD}${parts(1000)}`));
  assert.match(refusal(`${GOOD}${parts(1001)}`), /^554 5\.6\.0 the message has more than 1000 MIME parts/);
});

test('every nested message type counts, except message/partial', () => {
  for (const type of ['message/global', 'Message/News', 'message/x-forwarded']) {
    const nested = (depth: number): string => `Content-Type: ${type}\r\n\r\n`.repeat(depth);
    assert.ok(accepted(`${GOOD}${nested(100)}x\r\n`), type);
    assert.match(
      refusal(`${GOOD}${nested(101)}x\r\n`),
      /^554 5\.6\.0 the message has MIME parts nested deeper than 100 levels/,
      type,
    );
    assert.match(refusal(`${GOOD}${nested(50)}${forwarded(20)}${multipart(31)}x\r\n`), /nested deeper than 100/, type);
  }
  const piece = 'Content-Type: message/partial; id="a@b"; number=1\r\n\r\n';
  assert.ok(accepted(`${GOOD}${piece.repeat(101)}x\r\n`));
  const report =
    'Content-Type: multipart/report; boundary=r\r\n\r\n--r\r\n\r\nIt failed.\r\n--r\r\nContent-Type: message/delivery-status\r\n\r\n' +
    'Reporting-MTA: dns; a.example\r\n\r\nAction: failed\r\n--r\r\nContent-Type: message/global\r\n\r\nSubject: x\r\n\r\ny\r\n--r--\r\n';
  assert.ok(accepted(`${GOOD}${report}`));
});

test('an encoded message and a multipart without a boundary are not descended into', () => {
  for (const type of ['message/rfc822', 'message/global']) {
    const encoded = `Content-Type: ${type}\r\nContent-Transfer-Encoding: base64\r\n\r\n`;
    assert.ok(accepted(`${GOOD}${encoded}${forwarded(150)}x\r\n`));
  }
  assert.ok(accepted(`${GOOD}Content-Type: multipart/mixed\r\n\r\n${multipart(150)}x\r\n`));
});

test('a header that arrives byte by byte is joined once', (t) => {
  let joined = 0;
  const { concat } = Buffer;
  t.mock.method(Buffer, 'concat', (list: readonly Uint8Array[], length?: number) => {
    joined = Math.max(joined, list.length);
    return concat(list, length);
  });
  const mail = Buffer.from(`${GOOD}${`X-Long: ${'x'.repeat(900)}\r\n`.repeat(40)}\r\nbody\r\n`);
  const pieces: Buffer[] = [];
  const reader = createSubmissionReader({
    sink: (chunk) => pieces.push(chunk),
    nowMs: SUBMITTED_AT,
    maxBytes: MAX_BYTES,
    hostname: 'mx.host.example',
  });
  for (let at = 0; at < mail.length; at += 1) reader.write(mail.subarray(at, at + 1));
  assert.ok(reader.end().ok);
  assert.ok(joined < 10, `${joined} pieces joined at once`);
  assert.ok(concat(pieces).equals(mail));
  assert.equal(pieces.length, 1 + 'body\r\n'.length);
});

const BOMBS: [what: string, mail: () => string, expected: RegExp | undefined][] = [
  ['1,000 nested multiparts', () => `${GOOD}${multipart(1000)}x\r\n`, /^554/],
  ['1,000 nested multiparts with the same boundary', () => `${GOOD}${multipart(1000, () => 'b')}x\r\n`, /^554/],
  ['10,000 parts', () => `${GOOD}${multipart(1)}${'--b0\r\n\r\nx\r\n'.repeat(10_000)}--b0--\r\n`, /^554/],
  ['a header of 1 MB', () => `${GOOD}${`X: ${'x'.repeat(900)}\r\n`.repeat(1100)}\r\n`, /^552 5\.3\.4/],
  ['one field of 1 MB', () => `${GOOD}X: ${`${'x'.repeat(900)}\r\n `.repeat(1100)}\r\n\r\n`, /^552 5\.3\.4/],
  ['10,000 fields', () => `${GOOD}${'X: y\r\n'.repeat(10_000)}\r\n`, /^554/],
  ['a boundary of 1,000 characters', () => `${GOOD}${multipart(1, () => 'b'.repeat(1000))}x\r\n`, /^550/],
  [
    '100 boundaries of 900 characters that begin alike, and lines that nearly match',
    () => `${GOOD}${multipart(100, (level) => 'b'.repeat(900) + level)}${`--${'b'.repeat(900)}\r\n`.repeat(1800)}`,
    undefined,
  ],
  ['400,000 lines of two hyphens', () => `${GOOD}${multipart(100)}${'--\r\n'.repeat(400_000)}`, undefined],
  ['990,000 empty lines', () => `${GOOD}${multipart(1)}${'\r\n'.repeat(990_000)}`, undefined],
  [
    'one part whose header is 1.9 MB',
    () => `${GOOD}${multipart(1)}--b0\r\n${'Content-Type: x\r\n'.repeat(110_000)}`,
    undefined,
  ],
  [
    'a folded Content-Type of 1.9 MB',
    () => `${GOOD}${multipart(1)}--b0\r\nContent-Type: x\r\n${' ;a\r\n'.repeat(370_000)}\r\n`,
    undefined,
  ],
  [
    'a Content-Type of 250 KB',
    () => `${GOOD}Content-Type: multipart/mixed\r\n${' ;a;a;a;a;a;a;a\r\n'.repeat(14_000)} ;b=c\r\n\r\n`,
    undefined,
  ],
  [
    'comments that are not closed',
    () => `${GOOD}Content-Type: x\r\n${` ${'('.repeat(990)}\r\n`.repeat(250)}\r\n`,
    undefined,
  ],
  [
    '100,000 addresses',
    () => `${GOOD}To: ${'a@b,'.repeat(240)}\r\n${` ${'a@b,'.repeat(240)}\r\n`.repeat(250)}\r\n`,
    undefined,
  ],
  ['quotes and backslashes', () => `${GOOD}To: ${` ${'"\\'.repeat(490)}\r\n`.repeat(250)}\r\n`, undefined],
  [
    'encoded-words without end',
    () => `${GOOD}Subject: ${` ${'=?utf-8?q?a'.repeat(80)}\r\n`.repeat(280)}\r\n`,
    undefined,
  ],
  [
    'a From with a quoted name of 200 KB',
    () => `From: "${`${"'".repeat(900)}\r\n `.repeat(220)}a@b.example" <a@shop.example>\r\n\r\n`,
    /^550 5\.7\.1/,
  ],
  ['a From of 200 KB', () => `From: ${` ${'a <b'.repeat(240)}\r\n`.repeat(200)}\r\n`, /^550 5\.7\.1/],
];
for (const [what, mail, expected] of BOMBS) {
  test(`is parsed cheaply: ${what}`, () => {
    const bytes = Buffer.from(mail());
    assert.ok(bytes.length <= MAX_BYTES);
    const start = process.cpuUsage();
    const { result } = submit(bytes, [65_536]);
    const used = process.cpuUsage(start);
    const ms = (used.user + used.system) / 1000;
    assert.ok(ms < 1000, `${ms} ms`);
    if (expected === undefined) assert.ok(result.ok, result.ok ? '' : result.refusal.text);
    else assert.match(result.ok ? 'accepted' : `${result.refusal.code} ${result.refusal.enhanced}`, expected);
  });
}
