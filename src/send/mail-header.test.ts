/** Sender and recipients of an email, and headers that could contradict them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Issue } from '../base/failure.ts';
import { readFrom, readHeaders, readRecipients, readReplyTo } from './mail-header.ts';
import type { SendBody } from './request.ts';

function read(body: SendBody): unknown {
  const issues: Issue[] = [];
  return { recipients: readRecipients(body, issues), issues };
}

test('empty lists do not change how one recipient is read', () => {
  const lists: SendBody['to'][] = [
    'a@b.example',
    ['a@b.example'],
    ['Ann <Ann@B.example>'],
    ['"Ann" <"a b"@bücher.example>'],
    ['a@b.example, A@b.example'],
    ['a@b.example', 'A@B.example'],
    ['a@b.example', 'b@b.example'],
    ['a@b.example', 'no address'],
    'a@b.example,',
    'no address',
    ['no address'],
    [],
    '',
    undefined,
  ];
  for (const to of lists) {
    const body = to === undefined ? {} : { to };
    assert.deepEqual(read(body), read({ ...body, cc: [], bcc: [] }), JSON.stringify(to));
  }
});

test('issues of a list include the index, even in a list of one', () => {
  const issues: Issue[] = [];
  readRecipients({ to: ['x'], cc: 'y', bcc: ['a@b.example', 'z'] }, issues);
  assert.deepEqual(
    issues.map((issue) => issue.field),
    ['to[0]', 'cc', 'bcc[1]'],
  );
});

test('a display name that is an address of another domain is rejected in any disguise', () => {
  const issuesOf = (from: string): string[] => {
    const issues: Issue[] = [];
    readFrom(from, issues);
    return issues.map((issue) => issue.message);
  };
  for (const name of ['"ceo@bank.example"', `"'ceo@bank.example'"`, '"ceo@ba\u200cnk.example"', 'ceo＠bank.example'])
    assert.match(issuesOf(`${name} <a@mine.example>`).join() || 'taken', /another/, name);
  assert.match(issuesOf('=?utf-8?q?ceo=40bank=2Eexample?= <a@mine.example>').join() || 'taken', /hides another/);
  for (const name of ['"a@mine.example"', '"b@sub.mine.example"', '"Ann (ann@home.example) via Mine"', 'Ann'])
    assert.deepEqual(issuesOf(`${name} <a@mine.example>`), [], name);
});

test('encoded-words in display names are decoded and checked in every field', () => {
  const encoded = '=?UTF-8?Q?Caf=C3=A9?= <a@shop.example>';
  const issues: Issue[] = [];
  assert.equal(readFrom(encoded, issues)?.name, 'Café');
  const { all } = readRecipients(
    { to: encoded, cc: [`${encoded}, b@shop.example`], bcc: ['=?UTF-8?B?w7w=?= <c@shop.example>'] },
    issues,
  );
  assert.deepEqual(
    all.map(({ address }) => address.name),
    ['Café', '', 'ü'],
  );
  assert.equal(readReplyTo([encoded, encoded.replace('a@', 'b@')], 'replyTo', issues)[1]?.name, 'Café');
  assert.equal(readReplyTo('=?utf-8?q?a=40shop=2Eexample?= <a@shop.example>', 'replyTo', issues).length, 1);
  assert.equal(readReplyTo('"=?UTF-8?Q?x?=" <a@shop.example>', 'replyTo', issues)[0]?.name, '=?UTF-8?Q?x?=');
  assert.deepEqual(issues, []);
  const found: Issue[] = [];
  const hidden = '=?utf-8?q?ceo=40bank=2Eexample?= <a@shop.example>';
  readRecipients({ to: [hidden], cc: hidden, bcc: `b@shop.example, ${hidden}` }, found);
  readReplyTo(hidden, 'replyTo', found);
  readFrom('=?utf-8?q?a=0Ab?= <a@shop.example>', found);
  assert.deepEqual(
    found.map(({ field }) => field),
    ['to[0]', 'cc', 'bcc', 'replyTo', 'from'],
  );
  for (const { message } of found.slice(0, 4)) assert.match(message, /hides another address in encoded text/);
  assert.match(found[4]!.message, /control character/);
});

test('a link or message ID that no header can hold is rejected, and other values are kept', () => {
  const issues: Issue[] = [];
  const { headers } = readHeaders(
    {
      'In-Reply-To': '<ü@x.example>',
      References: `<${'1'.repeat(1000)}@x.example>`,
      'List-Help': `<https://x.example/${'a'.repeat(1000)}>`,
      'List-Unsubscribe': '<https://x.example/ü>',
      'X-Long': 'x'.repeat(2000),
    },
    { mode: 'live', hasReplyTo: false },
    issues,
  );
  assert.deepEqual(
    headers.map(([name]) => name),
    ['List-Unsubscribe', 'X-Long'],
  );
  assert.deepEqual(issues, [
    {
      field: 'headers.In-Reply-To',
      message: 'has a character that is not ASCII, which is not allowed in a message ID',
    },
    {
      field: 'headers.References',
      message: 'has 1012 characters without a space after encoding; at most 997 fit into a line',
    },
    {
      field: 'headers.List-Help',
      message: 'has 1020 characters without a space after encoding; at most 997 fit into a line',
    },
  ]);
});

test('reserved header fields are rejected in headers', () => {
  for (const name of ['Sender', 'Resent-From', 'Resent-Sender', 'Authentication-Results', 'ARC-Seal']) {
    const issues: Issue[] = [];
    readHeaders({ [name]: 'ceo@bank.example' }, { mode: 'live', hasReplyTo: false }, issues);
    assert.deepEqual(issues, [{ field: `headers.${name}`, message: 'is set by Postrider and cannot be overridden' }]);
  }
});
