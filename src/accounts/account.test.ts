/** Lists of allowed senders: valid entries, the addresses they cover, and the senders that a restricted key can pass on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAddress } from '../mail/address.ts';
import { grantedSenders, maySendAs, readAllowedSenders } from './account.ts';

const read = (...list: string[]): readonly string[] => {
  const senders = readAllowedSenders(list);
  assert.ok(senders.ok, JSON.stringify(senders));
  return senders.value;
};
const may = (allowed: readonly string[], from: string): boolean => {
  const address = parseAddress(from);
  assert.ok(address.ok, from);
  return maySendAs(allowed, address.value);
};

test('addresses are compared as mailboxes, and a domain covers its subdomains only', () => {
  const allowed = read('Shop@Example.com', 'bücher.example', 'shop@example.com');
  assert.deepEqual(allowed, ['shop@example.com', 'xn--bcher-kva.example']);
  const yes = ['SHOP@example.COM', '"The Shop" <shop@example.com>', 'a@bücher.example', 'b@x.xn--bcher-kva.example'];
  for (const from of yes) assert.ok(may(allowed, from), from);
  const no = [
    'shop+1@example.com',
    'ann@example.com',
    'shop@sub.example.com',
    'a@notbücher.example',
    'a@shop-example.com',
  ];
  for (const from of no) assert.ok(!may(allowed, from), from);
  assert.ok(may([], 'anyone@anywhere.example'), 'an empty list binds to nothing');
});

test('invalid entries are reported by index, and lists over the limit are rejected', () => {
  const refused = readAllowedSenders(['a@b.example', 'localhost', '@b.example', 'Ann <a@b.example>', 'a b', '']);
  assert.ok(!refused.ok);
  assert.deepEqual(
    refused.failure.details.map((issue) => issue.field),
    [1, 2, 3, 4, 5].map((index) => `allowedSenders[${index}]`),
  );
  const names = (count: number) => Array.from({ length: count }, (_, i) => `d${i}.example`);
  assert.ok(readAllowedSenders(names(20)).ok);
  assert.ok(!readAllowedSenders(names(21)).ok);
});

test('a restricted key can grant only a subset of its senders', () => {
  const own = read('example.com');
  const given = (asked?: string[]) => {
    const senders = grantedSenders(own, asked);
    return senders.ok ? senders.value : senders.failure.code;
  };
  assert.deepEqual(given(), ['example.com']);
  assert.deepEqual(given(['a@sub.example.com']), ['a@sub.example.com']);
  assert.equal(given([]), 'FORBIDDEN');
  assert.equal(given(['a@example.com', 'other.example']), 'FORBIDDEN');
  assert.deepEqual(grantedSenders([], ['x.example']), { ok: true, value: ['x.example'] });
});
