/** Recipients: mail to one person is read as all other mail is. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Fault } from '../base/failure.ts';
import { readRecipients } from './recipients.ts';
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
