/**
 * Compares the minimum size of a manifest with the composer: it is the size of a real message with these files, and no message with them is
 * smaller.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Address, parseAddress, wireAddress } from '../mail/address.ts';
import { compose, type MailToCompose } from '../mail/compose/compose.ts';
import { feedbackId, newMessageId } from '../mail/compose/header.ts';
import { fitFailure, leastEmailBytes } from './register.ts';

function address(text: string): Address {
  const parsed = parseAddress(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.reason}`);
  return parsed.value;
}

const SHORTEST = address('a@b.c');

function mailOf(files: MailToCompose['attachments'], changes: Partial<MailToCompose> = {}): MailToCompose {
  return {
    from: SHORTEST,
    to: [SHORTEST],
    cc: [],
    replyTo: [],
    subject: '',
    headers: [['Feedback-ID', feedbackId('acc_1', 't')]],
    messageId: newMessageId((changes.from ?? SHORTEST).domain, Date.UTC(2026, 10, 20)),
    dateMs: Date.UTC(2026, 10, 20),
    attachments: files,
    ...changes,
  };
}

const file = fc.record({
  name: fc
    .string({ minLength: 1, maxLength: 60, unit: 'grapheme' })
    .filter((name) => name.isWellFormed() && !/[\p{C}\u2028\u2029]/u.test(name)),
  contentType: fc.constantFrom('application/pdf', 'text/plain; charset=utf-8', 'message/rfc822', 'image/png'),
  content: fc.uint8Array({ maxLength: 400 }),
});
const files = fc.array(file, { minLength: 1, maxLength: 10 });
const bySize = (list: readonly { name: string; contentType: string; content: Uint8Array }[]) =>
  list.map(({ name, contentType, content }) => ({ name, contentType, sizeBytes: content.length }));
/** Composes like the upload flow: every file is encoded, because no content is available. */
const opaque = (list: readonly { name: string; contentType: string; content: Uint8Array }[]) =>
  list.map((one) => ({ ...one, contentType: one.contentType.replace('message/rfc822', 'application/octet-stream') }));

test('the minimum size is the size of a real email', () => {
  fc.assert(
    fc.property(files, (list) => {
      const sizes = [{ text: '' }, { html: '' }].map((body) => compose(mailOf(opaque(list), body)).sizeBytes);
      assert.equal(leastEmailBytes(bySize(list)), Math.min(...sizes));
    }),
    { numRuns: 150 },
  );
});

test('no email with these files is smaller than the minimum size', () => {
  const body = fc.record(
    { text: fc.string({ maxLength: 3, unit: 'grapheme' }), html: fc.string({ maxLength: 3 }) },
    { requiredKeys: [] },
  );
  const changes = fc.record({
    subject: fc.string({ maxLength: 2 }),
    from: fc.constantFrom(
      SHORTEST,
      address('ü@b.c'),
      address('a@ü.c'),
      address('Shop <orders@shop.example>'),
      address('jörg@bücher.example'),
    ),
    to: fc.constantFrom([SHORTEST], [address('é@é.x')], [address('Ann Example <ann@example.com>')]),
    replyTo: fc.constantFrom([], [SHORTEST]),
  });
  fc.assert(
    fc.property(files, body, changes, (list, parts, more) => {
      fc.pre(parts.text !== undefined || parts.html !== undefined);
      const least = leastEmailBytes(bySize(list));
      const { sizeBytes } = compose(mailOf(opaque(list), { ...parts, ...more }));
      assert.ok(sizeBytes >= least, `${sizeBytes} bytes, expected at least ${least}`);
    }),
    { numRuns: 300 },
  );
});

test('no address is shorter than those in the smallest email', () => {
  const text = fc.string({ minLength: 1, maxLength: 5, unit: fc.constantFrom(...'ab.@-"1ü ⁠') });
  fc.assert(
    fc.property(text, (given) => {
      const parsed = parseAddress(given);
      if (parsed.ok) assert.ok(wireAddress(parsed.value).length >= SHORTEST.address.length, given);
    }),
    { numRuns: 5_000 },
  );
});

test('Base64 and its line breaks are counted to the byte', () => {
  const one = (sizeBytes: number): number => leastEmailBytes([{ name: 'a', contentType: 'a/b', sizeBytes }]);
  const empty = one(0);
  assert.equal(one(1) - empty, 6);
  assert.equal(one(3) - empty, 6);
  assert.equal(one(4) - empty, 10);
  assert.equal(one(57) - empty, 78);
  assert.equal(one(58) - empty, 84);
  assert.equal(one(28_500_000) - empty, 500_000 * 78);
});

test('the lower of the approved limit and the maximum applies, and both sizes are reported', () => {
  const limits = { approvedEmailBytes: 2_000_000, maximumEmailBytes: 40_000_000 };
  assert.equal(fitFailure(2_000_000, limits), undefined);
  const over = fitFailure(2_000_001, limits);
  assert.equal(over?.code, 'EMAIL_SIZE_EXCEEDED');
  assert.match(over?.message ?? '', /2000001 bytes.*2000000 bytes.*POST \/approvals/);
  assert.equal(fitFailure(40_000_000, { ...limits, approvedEmailBytes: 40_000_000 }), undefined);
  const beyond = fitFailure(40_000_001, { ...limits, approvedEmailBytes: 99_000_000 });
  assert.match(beyond?.message ?? '', /40000001 bytes.*40000000 bytes.*No email can be larger/);
});
