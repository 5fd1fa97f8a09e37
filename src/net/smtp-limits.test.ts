import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limitsOf } from './smtp-limits.ts';

const read = (parameters: string) => limitsOf(new Map([['LIMITS', parameters]]));
const NONE = { mailMax: Infinity, rcptMax: Infinity, rcptDomainMax: Infinity };

test('limits of RFC 9422 are read, and unknown or malformed ones are ignored', () => {
  assert.deepEqual(limitsOf(new Map()), NONE);
  assert.deepEqual(read(''), NONE);
  assert.deepEqual(read('MAILMAX=20 RCPTMAX=100 RCPTDOMAINMAX=1'), { mailMax: 20, rcptMax: 100, rcptDomainMax: 1 });
  assert.deepEqual(read('rcptmax=5 SOMETHING=3'), { ...NONE, rcptMax: 5 });
  for (const value of ['0', '007', '-1', '1000000', 'x', '', '1.5']) assert.deepEqual(read(`RCPTMAX=${value}`), NONE);
});
