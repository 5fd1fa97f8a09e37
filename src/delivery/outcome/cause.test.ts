/** Which failures belong to one incident. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { causeOf, causeText, type FailureFacts, normalizedReply, readCause } from './cause.ts';

const SLOW: FailureFacts = {
  category: 'rate-limited',
  owner: 'remote',
  smtpCode: 421,
  enhancedCode: '4.7.28',
  reply: '421 4.7.28 [192.0.2.7] Our system has detected an unusual rate of mail. x12-20020a05690c - gsmtp',
};

test('causes ignore numbers, queue IDs, and addresses, but not words', () => {
  const alike = [
    ['421 4.7.28 [192.0.2.7] too fast x12-20020a05 - gsmtp', '421 4.7.28 [192.0.2.99] too fast q7-5f0f - gsmtp'],
    ['451 <ann@example.com>: try again in 300 seconds', '451 <bob.smith+x@example.com>: try again in 17 seconds'],
    ['450 4.2.0 greylisted (id 4ZqXlT3Mzkz9sRd)', '450 4.2.0 greylisted (id 4ZqYbV0GkHz7vWp)'],
    ['450 mailbox busy KxRtQwZpLm', '450 mailbox busy AbCdEfGhIj'],
    ['452 4.2.2 2001:db8::1 over quota', '452 4.2.2 2001:db8::ffff:2 over quota'],
  ];
  for (const [one, other] of alike) assert.equal(normalizedReply(one!), normalizedReply(other!));
  assert.notEqual(normalizedReply('451 greylisted'), normalizedReply('451 mailbox is busy'));
});

test('a cause is derived from destination, codes, category, and reply, and parsed from its text', () => {
  const cause = causeOf('ann@Gmail.com', SLOW);
  assert.deepEqual(causeOf('bob@gmail.com', { ...SLOW, reply: SLOW.reply!.replace('x12', 'y99') }), cause);
  assert.deepEqual(readCause(causeText(cause)), cause);
  const others = [
    causeOf('ann@example.com', SLOW),
    causeOf('ann@gmail.com', { ...SLOW, smtpCode: 451 }),
    causeOf('ann@gmail.com', { ...SLOW, enhancedCode: null }),
    causeOf('ann@gmail.com', { ...SLOW, category: 'blocked' }),
    causeOf('ann@gmail.com', { ...SLOW, owner: 'service' }),
    causeOf('ann@gmail.com', { ...SLOW, reply: null }),
  ];
  assert.equal(new Set([cause, ...others].map(({ id }) => id)).size, 7);
  const silent = causeOf('ann@gmail.com', { ...SLOW, smtpCode: null, enhancedCode: null, reply: 'no answer' });
  assert.deepEqual(readCause(causeText(silent)), silent);
});
