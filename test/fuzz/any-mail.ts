/** Generators of texts and messages of every kind that compose accepts, for fast-check. */
import fc from 'fast-check';
import { type Address, parseAddress } from '../../src/mail/address.ts';
import { hasForbiddenControl } from '../../src/mail/compose/header.ts';

export const anything = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc
    .array(
      fc.constantFrom(
        'a',
        '@',
        '.',
        '"',
        '\\',
        '<',
        '>',
        ',',
        ';',
        ':',
        '(',
        ')',
        '[',
        ' ',
        '\t',
        'ü',
        'b.example',
        '\r',
        '\n',
        '\0',
        '\ud800',
        '-',
        'xn--',
      ),
      { maxLength: 30 },
    )
    .map((parts) => parts.join('')),
);

const mailbox = fc
  .tuple(anything, fc.constantFrom('a@b.example', 'ü@b.example', '"a b"@bücher.example'))
  .map(([name, address]): Address | undefined => {
    const parsed = parseAddress(address);
    return parsed.ok && !hasForbiddenControl(name) ? { ...parsed.value, name } : undefined;
  })
  .filter((address) => address !== undefined);
const value = anything.filter((text) => !hasForbiddenControl(text));

export const anyMail = fc.record({
  from: mailbox,
  to: fc.array(mailbox, { maxLength: 3 }),
  cc: fc.array(mailbox, { maxLength: 2 }),
  replyTo: fc.array(mailbox, { maxLength: 1 }),
  subject: value,
  text: anything,
  html: fc.oneof(
    anything,
    anything.map((text) => text.repeat(40)),
  ),
  headers: fc.array(fc.tuple(fc.constantFrom('X-A', 'List-Id'), value), { maxLength: 3 }),
  attachments: fc.array(
    fc.record({
      name: value,
      contentType: fc.constantFrom('text/plain', 'message/rfc822'),
      content: fc.uint8Array({ maxLength: 200 }),
    }),
    { maxLength: 2 },
  ),
  messageId: fc.constant('<1@b.example>'),
  dateMs: fc.integer({ min: 0, max: 4e12 }),
});
