/** Every operation does and answers the same on the embedded database and on PostgreSQL, both executed for real. */
import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import '../../src/roles/operations.ts';
import { operationNames } from '../../src/storage/operation.ts';
import * as accounts from './accounts.ts';
import * as mail from './mail.ts';
import { closeAll, compare, covered } from './stage.ts';

after(closeAll);

const scenarios = {
  'accounts and the first run': accounts.accounts,
  keys: accounts.keys,
  'credentials and users': accounts.credentials,
  approvals: accounts.approvals,
  'sender domains': accounts.domains,
  suppressions: accounts.suppressions,
  'facts and nodes': accounts.facts,
  accepting: mail.accepting,
  'accepting at once': mail.atOnce,
  idempotency: mail.idempotency,
  delivering: mail.delivering,
  'content that is not kept': mail.contentOf,
  'changes before a message leaves': mail.changing,
  lists: mail.lists,
  'the sandbox': mail.sandbox,
};

for (const [name, scenario] of Object.entries(scenarios)) test(name, () => compare(scenario));

test('every operation took part on every database', () => {
  const names = operationNames();
  assert.ok(names.length > 50);
  for (const [dialect, taken] of Object.entries(covered)) {
    assert.deepEqual(
      names.filter((name) => !taken.has(name)),
      [],
      `not run on ${dialect}; add them to a scenario`,
    );
  }
});
