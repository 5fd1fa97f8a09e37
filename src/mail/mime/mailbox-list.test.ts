import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MailboxItem, mailboxItems } from './mailbox-list.ts';

function shown(item: MailboxItem): string {
  if (item.kind === 'group') return `{${item.name}`;
  if (item.kind === 'groupEnd') return '}';
  return `${item.name}|${item.spec}${item.comments.map((comment) => `|${comment}`).join('')}${item.encoded ? '*' : ''}`;
}

const LISTS: [text: string, items: string[]][] = [
  ['', []],
  [' , ,', []],
  ['a@b.example', ['|a@b.example']],
  ['a@b.example, <c@d.example>', ['|a@b.example', '|c@d.example']],
  ['Ann  B <a@b.example>', ['Ann B|a@b.example']],
  ['"B, \\"Ann\\"" <a@b.example>', ['B, "Ann"|a@b.example']],
  ['=?utf-8?q?=C3=84?= <a@b.example>', ['Ä|a@b.example*']],
  ['a@b.example (Ann (really)\\))', ['|a@b.example|Ann (really))']],
  ['(x) Ann (y) <a@b.example> (z)', ['Ann|a@b.example|x|y|z']],
  ['g: a@b.example, c@d.example; , e@f.example', ['{g', '|a@b.example', '|c@d.example', '}', '|e@f.example']],
  ['undisclosed-recipients:;', ['{undisclosed-recipients', '}']],
  ['g: a@b.example', ['{g', '|a@b.example', '}']],
  ['"a b"@c.example', ['|"a b"@c.example']],
  ['"quoted"@c.example, <"a>b"@c.example>', ['|"quoted"@c.example', '|"a>b"@c.example']],
  ['a@[192.0.2.1]', ['|a@[192.0.2.1]']],
  ['<@r.example:a@b.example>', ['|@r.example:a@b.example']],
];
for (const [text, items] of LISTS) {
  test(`parses ${text}`, () => {
    const list = mailboxItems(text);
    assert.ok(list.ok);
    assert.deepEqual(list.items.map(shown), items);
  });
}

for (const text of [
  '"open',
  '(open',
  'a@[open',
  '<a@b.example',
  '<a@<b>',
  'a > b',
  'a) b',
  '<a@b.example> c',
  '<a@b.example> "c"',
  '<a@b.example> <c@d.example>',
  'g: h: a@b.example;',
  '<a@b.example>: c',
  'a\\b',
]) {
  test(`rejects ${text}`, () => {
    const list = mailboxItems(text);
    assert.ok(!list.ok);
    assert.match(list.reason, /^has /);
  });
}

test('a semicolon outside a group separates like a comma and is reported', () => {
  for (const [text, items, stray] of [
    ['a@b.example; Ann <c@d.example>', ['|a@b.example', 'Ann|c@d.example'], true],
    ['a@b.example;', ['|a@b.example'], true],
    ['g: a@b.example;;', ['{g', '|a@b.example', '}'], true],
    ['g: a@b.example; c@d.example', ['{g', '|a@b.example', '}', '|c@d.example'], false],
    ['"a;b" <a@b.example> (;)', ['a;b|a@b.example|;'], false],
  ] as const) {
    const list = mailboxItems(text);
    assert.ok(list.ok);
    assert.deepEqual([list.items.map(shown), list.straySemicolon], [items, stray], text);
  }
});
