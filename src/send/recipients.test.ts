/** Who a mail is from and to, and the headers that might say otherwise. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fault } from '../base/failure.ts';
import { readHeaders } from './extra-headers.ts';
import { readFrom, readRecipients } from './recipients.ts';
import type { SendBody } from './request.ts';

function read(body: SendBody): unknown {
  const faults: Fault[] = [];
  return { recipients: readRecipients(body, faults), faults };
}

test('one recipient is read in the same way with empty lists beside it', () => {
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

test('faults of a list name the place in it, also in a list of one', () => {
  const faults: Fault[] = [];
  readRecipients({ to: ['x'], cc: 'y', bcc: ['a@b.example', 'z'] }, faults);
  assert.deepEqual(
    faults.map((fault) => fault.field),
    ['to[0]', 'cc', 'bcc[1]'],
  );
});

test('a display name that is an address of another domain is refused, however it is disguised', () => {
  const faultsOf = (from: string): string[] => {
    const faults: Fault[] = [];
    readFrom(from, faults);
    return faults.map((fault) => fault.message);
  };
  for (const name of ['"ceo@bank.example"', `"'ceo@bank.example'"`, '"ceo@ba\u200cnk.example"', 'ceo＠bank.example'])
    assert.match(faultsOf(`${name} <a@mine.example>`).join() || 'taken', /another/, name);
  assert.match(faultsOf('=?utf-8?q?ceo=40bank=2Eexample?= <a@mine.example>').join() || 'taken', /hides another/);
  for (const name of ['"a@mine.example"', '"b@sub.mine.example"', '"Ann (ann@home.example) via Mine"', 'Ann'])
    assert.deepEqual(faultsOf(`${name} <a@mine.example>`), [], name);
});

test('fields that the service writes, or that speak for others, are not taken from headers', () => {
  for (const name of ['Sender', 'Resent-From', 'Resent-Sender', 'Authentication-Results', 'ARC-Seal']) {
    const faults: Fault[] = [];
    readHeaders({ [name]: 'ceo@bank.example' }, { mode: 'live', hasReplyTo: false }, faults);
    assert.deepEqual(faults, [{ field: `headers.${name}`, message: 'is written by the service and may not be set' }]);
  }
});
