/**
 * Arbitrary messages for the reader of submissions and the re-encoding after it: both always return, and accepted messages keep their
 * guarantees. Committed seeds and inputs always run, then a fresh seed, which is printed on failure. Takes about two seconds.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Check } from 'typebox/schema';
import { isSevenBit } from '../../src/mail/compose/transfer-encoding.ts';
import { toSevenBit } from '../../src/mail/mime/seven-bit.ts';
import { readTrackableMail } from '../../src/mail/mime/track-submitted.ts';
import { sendBody } from '../../src/send/request.ts';
import { corpus, expectedEdit, GOOD, submit } from '../kit/submit.ts';
import { INPUTS, SEEDS, TOKENS } from './submitted-seeds.ts';

const mails = corpus().map(({ content }) => content.toString('latin1'));
const TRACKING = { rewriteLink: (url: string) => `https://t.test/${url.length}`, pixelUrl: 'https://t.test/p' };
const REPLIES = ['550 5.6.0', '550 5.7.1', '554 5.6.0', '552 5.3.4'];

/** Checks for forbidden content, independent of the reader's own checks. */
function isBroken(text: string): boolean {
  return /\r(?!\n)|(?<!\r)\n|\0/.test(text) || text.split('\r\n').some((line) => line.length > 998);
}

function judge(text: string, sizes: readonly number[]): void {
  const mail = Buffer.from(text, 'latin1');
  const { result, content } = submit(mail, sizes);
  const whole = submit(mail);
  assert.equal(result.ok, whole.result.ok, 'truncated or complete');
  if (!result.ok || !whole.result.ok) {
    assert.ok(!result.ok && !whole.result.ok);
    const { code, enhanced, text: said } = result.refusal;
    assert.ok(REPLIES.includes(`${code} ${enhanced}`), `${code} ${enhanced}`);
    assert.match(said, /^[\x20-\x7e]{10,400}$/);
    return;
  }
  assert.ok(!isBroken(text), 'a broken message was accepted');
  assert.match(content.toString('latin1'), expectedEdit(mail));
  const { mail: read } = result;
  assert.equal(read.sizeBytes, content.length);
  assert.equal(read.eightBit, /[\x80-\xff]/.test(content.toString('latin1')));
  assert.doesNotMatch(`${read.subject}${read.fromText}${read.headerMessageId}`, /[\x00-\x1f\x7f]/);
  assert.ok(submit(content).content.equals(content), 'an accepted message is accepted again, unchanged');
  const copy = readTrackableMail(content, { links: true })?.copy(TRACKING);
  if (copy !== undefined) {
    const again = submit(copy);
    assert.ok(again.result.ok && again.content.equals(copy), 'a tracked copy is still acceptable');
  }
  for (const eightBit of [true, false]) {
    const sevenBit = toSevenBit(content, { eightBit, utf8Headers: true });
    if (!sevenBit.ok) continue;
    const header = sevenBit.content.toString('latin1').split('\r\n\r\n', 1)[0]!;
    assert.doesNotMatch(header, /[\x80-\xff]/);
    if (eightBit) assert.ok(isSevenBit(sevenBit.content));
    assert.ok(submit(sevenBit.content).result.ok, 'a re-encoded message is still acceptable');
  }
}

const mutation = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.constantFrom(0, 0, 0, 1, 2, 10, 100),
  put: fc.oneof(
    fc.constantFrom(...TOKENS),
    fc.string({ unit: 'binary-ascii', maxLength: 4 }),
    fc.constantFrom(...mails).map((mail) => mail.slice(0, 300)),
  ),
});

const mutated = fc.tuple(fc.constantFrom(...mails), fc.array(mutation, { maxLength: 4 })).map(([mail, mutations]) =>
  mutations.reduce((text, { at, cut, put }) => {
    const index = Math.floor(at * text.length);
    return text.slice(0, index) + put + text.slice(index + cut);
  }, mail),
);
const composed = fc.array(fc.constantFrom(...TOKENS, 'Subject: s', 'From: a@shop.example', 'a', 'b@c.example'), {
  maxLength: 25,
});
const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 4 });

const property = fc.property(
  fc.oneof(
    { weight: 3, arbitrary: mutated },
    { weight: 1, arbitrary: composed.map((tokens) => GOOD + tokens.join('')) },
    { weight: 1, arbitrary: composed.map((tokens) => `${GOOD}\r\n${tokens.join('')}`) },
  ),
  sizes,
  judge,
);

test('inputs that once broke mail software', () => {
  for (const input of INPUTS) {
    const bytes = Buffer.from(input).toString('latin1');
    for (const size of [1, 2, 3, 1000]) judge(bytes, [size]);
  }
});

test('the corpus with mutations, from committed seeds', () => {
  for (const seed of SEEDS) fc.assert(property, { seed, numRuns: 500 });
});

test('the corpus with mutations, from a fresh seed', () => {
  fc.assert(property, { numRuns: 1500 });
});

test('tags and metadata are validated like those of POST /send', () => {
  const word = fc.stringMatching(/^[A-Za-z0-9_ .:@é-]{0,70}$/);
  fc.assert(
    fc.property(fc.array(word, { maxLength: 12 }), fc.integer({ min: 0, max: 25 }), (words, pairs) => {
      const tags = words.map((one) => one.trim()).filter((one) => one !== '');
      const metadata = Object.fromEntries(Array.from({ length: pairs }, (_, i) => [`Key-${i}`, `value ${i}`]));
      const fields = [
        ...tags.map((tag) => `X-Postrider-Tag: ${tag}\r\n`),
        ...Object.entries(metadata).map(([name, value]) => `X-Postrider-Metadata-${name}: ${value}\r\n`),
      ];
      const { result } = submit(`${GOOD}${fields.join('')}\r\nx\r\n`);
      assert.equal(result.ok, Check(sendBody, { tags, metadata }));
      if (result.ok) assert.deepEqual([result.mail.tags, result.mail.metadata], [tags, metadata]);
    }),
    { numRuns: 300 },
  );
});
