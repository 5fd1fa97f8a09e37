import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMentions, ERASED } from './mentions.ts';

test('an address is found in any spelling, but not as part of a longer one', () => {
  const mentions = createMentions('Ann.Lee+x@Bücher.example');
  for (const text of [
    'ann.lee+x@xn--bcher-kva.example',
    'To: "Ann" <ANN.LEE+X@BÜCHER.EXAMPLE>, bob@x.example',
    'Write to ann.lee+x@bücher.example.',
    'https://shop.example/?u=ann.lee+x%40b%C3%BCcher.example&v=ann.lee+x%40bücher.example',
    JSON.stringify({ reply: '550 5.1.1\nann.lee+x@bücher.example\tunknown' }),
    'mailto:ann.lee+x@bücher.example?subject=x',
    "'ann.lee+x@bücher.example'",
  ]) {
    assert.ok(mentions.has(text), text);
    assert.doesNotMatch(mentions.without(text).replace(/b%C3%BC\w+/, ''), /ann\.lee\+x@/i, text);
  }
  for (const text of [
    'joann.lee+x@bücher.example',
    'ann.lee+xy@bücher.example',
    'ann.lee+x@bücher.example.org',
    'ann.lee+x@bücher.examples',
    'ann-lee+x@bücher.example',
    'an.ann.lee+x@bücher.example',
    'ann.lee@bücher.example',
  ])
    assert.ok(!mentions.has(text), text);
  assert.equal(mentions.has(null), false);
});

test('an address is recognized with a display name and in quotes', () => {
  const plain = createMentions('ann@x.example');
  for (const text of ['ann@x.example', 'Ann <ANN@x.example>', '"ann"@x.example', '"Lee, Ann" <ann@X.example>'])
    assert.ok(plain.isAddress(text), text);
  for (const text of ['', 'ann', 'joann@x.example', 'ann@x.example.org', 'Ann ann@x.example.org'])
    assert.ok(!plain.isAddress(text), text);
  const quoted = createMentions('"ann lee"@x.example');
  assert.ok(quoted.has('<"ann lee"@x.example>') && quoted.has(JSON.stringify('<"Ann Lee"@x.example>')));
  assert.equal(quoted.without('to "ann lee"@x.example, ok'), `to ${ERASED}, ok`);
});
