/**
 * Arbitrary input for the formats of src/mail: parsers always return, and composed messages never contain a forbidden byte. Limited to
 * about two seconds; a failure prints its seed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseAddress, parseAddressList, sameAddressKey } from '../../src/mail/address.ts';
import { compose, composedSizeBytes } from '../../src/mail/compose/compose.ts';
import { isContentType, refusedFileType } from '../../src/mail/compose/content-type.ts';
import { prepareDkim } from '../../src/mail/compose/dkim-sign.ts';
import { hasForbiddenControl } from '../../src/mail/compose/header.ts';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import { SmtpReplyParser } from '../../src/mail/smtp-reply.ts';
import { runningMs } from '../kit/running-time.ts';
import { anyMail, anything } from './any-mail.ts';

test('address parsers always return, and accepted addresses are safe and stable', () => {
  fc.assert(
    fc.property(anything, (text) => {
      const list = parseAddressList(text);
      if (!list.ok) assert.ok(list.issues.length > 0);
      for (const address of list.ok ? list.value : []) {
        assert.ok(!hasForbiddenControl(address.address + address.name) && address.address.isWellFormed());
        assert.ok(Buffer.byteLength(address.address) <= 254);
        const again = parseAddress(address.address);
        assert.ok(again.ok && again.value.address === address.address, address.address);
        assert.equal(sameAddressKey(address), sameAddressKey(address.address));
      }
    }),
    { numRuns: 5000 },
  );
});

test('long and repetitive addresses are parsed quickly', () => {
  const start = runningMs();
  for (const piece of [
    'a',
    '.',
    'a.',
    '"',
    '\\',
    '"\\',
    '<',
    '@',
    ' ',
    ',',
    'a@b.example,',
    '"a" ',
    '(',
    'ü',
    'xn--a.',
    '-',
  ]) {
    for (const end of ['', '@b.example', '>', '"']) parseAddressList(piece.repeat(20_000) + end);
  }
  assert.ok(runningMs() - start < 1500, `${runningMs() - start} ms`);
});

test('the reply parser handles any bytes, regardless of how they are split', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    fc
      .array(fc.constantFrom('250', '-', ' ', '\r\n', '\n', '5.1.1', 'x', '550 ', '250-a\r\n', '\xff'), {
        maxLength: 20,
      })
      .map((parts) => Buffer.from(parts.join(''), 'latin1')),
  );
  fc.assert(
    fc.property(bytes, fc.integer({ min: 1, max: 9 }), (input, size) => {
      const whole = new SmtpReplyParser().feed(input);
      const parser = new SmtpReplyParser();
      const replies = [];
      let error: string | undefined;
      for (let i = 0; i < input.length; i += size) {
        const part = parser.feed(input.subarray(i, i + size));
        replies.push(...part.replies);
        error = part.error;
      }
      assert.deepEqual(replies, whole.replies);
      assert.equal(error, whole.error);
    }),
    { numRuns: 3000 },
  );
});

test('composed mail has no bare CR or LF, NUL, line over 998, or 8-bit byte outside addresses', () => {
  fc.assert(
    fc.property(anyMail, (input) => {
      const { content, smtpUtf8, sizeBytes } = compose(input);
      const text = content.toString('latin1');
      assert.equal(sizeBytes, content.length);
      assert.doesNotMatch(text, /\0|\r(?!\n)|(?<!\r)\n/);
      for (const line of text.split('\r\n')) assert.ok(line.length <= 998);
      const header = text.slice(0, text.indexOf('\r\n\r\n'));
      assert.doesNotMatch(text.slice(header.length), /[^\x00-\x7f]/);
      for (const field of header.split(/\r\n(?![ \t])/)) {
        if (/[^\x00-\x7f]/.test(field)) assert.ok(smtpUtf8 && /^(?:From|To|Cc|Reply-To):/.test(field), field);
      }
      // Fields cannot be added: every header line is one of ours or a continuation.
      for (const line of header.split('\r\n')) {
        assert.match(
          line,
          /^(?:[ \t]|(?:From|To|Cc|Reply-To|Subject|Date|Message-ID|MIME-Version|X-A|List-Id|Content-(?:Type|Transfer-Encoding)):)/,
        );
      }
      const attachments = input.attachments.map((file) => ({ ...file, sizeBytes: file.content.length }));
      assert.equal(composedSizeBytes({ ...input, attachments }), sizeBytes);
      prepareDkim(content);
    }),
    { numRuns: 500 },
  );
});

test('HTML to text, content types, and file types handle any input', () => {
  const markup = fc.array(
    fc.constantFrom(
      '<',
      '>',
      '/',
      'p',
      'a href="',
      '"',
      '&',
      ';',
      '<td>',
      '<table>',
      '</div>',
      '<!--',
      '-->',
      '<br',
      ' ',
      '\n',
      'ü',
      '=',
    ),
    { maxLength: 40 },
  );
  fc.assert(
    fc.property(markup, anything, (parts, text) => {
      assert.equal(typeof htmlToText(parts.join('')), 'string');
      isContentType(text);
      refusedFileType({ name: text, contentType: text });
    }),
    { numRuns: 1000 },
  );
});
