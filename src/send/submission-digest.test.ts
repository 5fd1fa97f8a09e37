import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { createSubmissionDigest } from './submission-digest.ts';

function digestOf(text: string, size = text.length): string {
  const digest = createSubmissionDigest();
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) digest.update(bytes.subarray(at, at + size));
  return digest.digest().toString('hex');
}

const mail = (
  parts: { date?: string; id?: string; boundary?: string; body?: string; subject?: string } = {},
): string => {
  const { date = 'Fri, 20 Nov 2026 09:44:00 +0000', id = '1', boundary = 'b1', body = 'Hello', subject = 'Hi' } = parts;
  return [
    'From: a@b.example',
    `Date: ${date}`,
    `Message-ID:\r\n <${id}@client.example>`,
    `Subject: ${subject}`,
    'Received: from x\r\n by y; z',
    'MIME-Version: 1.0',
    `Content-Type: multipart/alternative;\r\n boundary="${boundary}"`,
    '',
    `--${boundary}`,
    `Content-Type: multipart/mixed; boundary="${boundary}-2"`,
    '',
    `--${boundary}-2`,
    '',
    body,
    `--${boundary}-2--`,
    `--${boundary}--`,
    '',
  ].join('\r\n');
};

test('the digest ignores only values that a client generates for each attempt', () => {
  const first = digestOf(mail());
  assert.equal(digestOf(mail({ date: 'Fri, 20 Nov 2026 09:45:00 +0000', id: '2', boundary: 'x-9' })), first);
  assert.notEqual(digestOf(mail({ body: 'Hello!' })), first);
  assert.notEqual(digestOf(mail({ subject: 'Ho' })), first);
  assert.notEqual(digestOf(mail().replace('From: a@', 'From: b@')), first);
  // In the body, a line that starts like such a field is content.
  assert.notEqual(digestOf(mail({ body: 'Date: 1' })), digestOf(mail({ body: 'Date: 2' })));
});

test('lines that look like delimiters, and text around a boundary, are included in the digest', () => {
  assert.notEqual(digestOf(mail({ body: '--pay 100' })), digestOf(mail({ body: '--pay 999' })));
  assert.notEqual(digestOf(mail({ body: '-- ' })), digestOf(mail({ body: '--' })));
  assert.notEqual(digestOf(mail().replace('boundary="b1"', 'boundary="b1"; type=x')), digestOf(mail()));
  assert.notEqual(digestOf(mail().replace('/alternative', '/related')), digestOf(mail()));
  const upper = mail({ boundary: 'x' }).replaceAll('boundary="', 'BOUNDARY="');
  assert.equal(digestOf(upper), digestOf(mail({ boundary: 'y' }).replaceAll('boundary="', 'BOUNDARY="')));
  const hostile = `${mail()}boundary=a\r\n`.repeat(8_000);
  const started = runningMs();
  digestOf(hostile);
  assert.ok(runningMs() - started < 2_000);
});

test('a boundary that no Content-Type field declares is content', () => {
  const bodies = ['price, boundary=north', 'price, boundary=south', 'boundary=x\r\n--x\r\nA', 'boundary=y\r\n--y\r\nA'];
  const plain = (body: string): string => `Content-Type: text/plain\r\nSubject: a\r\n boundary=s\r\n\r\n${body}\r\n`;
  for (const mailOf of [plain, (body: string) => mail({ body })]) {
    assert.equal(new Set(bodies.map((body) => digestOf(mailOf(body)))).size, bodies.length);
  }
  assert.notEqual(digestOf(plain('').replace('boundary=s', 'boundary=t')), digestOf(plain('')));
  const named = (name: string): string => mail().replace('mixed; ', `mixed; name="boundary=${name}.pdf"; `);
  assert.notEqual(digestOf(named('north')), digestOf(named('south')));
  const folded = (boundary: string): string => mail({ boundary }).replace('mixed; ', 'mixed;\r\n\t');
  assert.equal(digestOf(folded('one')), digestOf(folded('two')));
});

test('the digest is the same for any chunks', () => {
  const whole = digestOf(mail());
  for (const size of [1, 2, 3, 7, 50, 101]) assert.equal(digestOf(mail(), size), whole, `chunks of ${size}`);
  assert.notEqual(digestOf('no line end'), digestOf('no line ends'));
});
