/** Every operation has the same effect and result on the embedded database and on PostgreSQL, both executed for real. */
import assert from 'node:assert/strict';
import test, { after } from 'node:test';
import '../../src/roles/operations.ts';
import { operationNames } from '../../src/storage/operation.ts';
import { scenarios } from './scenarios.ts';
import { closeAll, compare, covered } from './stage.ts';

after(closeAll);

/** Run on PostgreSQL only, with tests of their own: a report about the server, and a commit that its standby confirms. */
const OF_POSTGRES = new Set(['storage.serverHealth', 'idempotency.confirmedAnswer']);

for (const [name, scenario] of Object.entries(scenarios)) test(name, () => compare(scenario));

test('every operation runs on every database', () => {
  // Operations of the kit are registered if another test of this process uses them.
  const names = operationNames().filter((name) => !name.startsWith('test.') && !OF_POSTGRES.has(name));
  assert.ok(names.length > 50);
  for (const [variant, taken] of covered) {
    assert.deepEqual(
      names.filter((name) => !taken.has(name)),
      [],
      `not run on ${variant}; add them to a scenario`,
    );
  }
});
