/** The output of a first start. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { welcome } from './serve.ts';

const first = {
  operatorUserId: 'usr_1',
  createdAt: '2026-11-27T00:00:00.000Z',
  accountId: 'acc_0Vc8D1Ax0qGW6fkFHTKAe',
  apiKey: `pr_live_${'x'.repeat(57)}`,
  sandboxApiKey: `pr_test_${'x'.repeat(57)}`,
  smtpUsername: `smtp_${'x'.repeat(21)}`,
  smtpPassword: 'p'.repeat(32),
  sandboxSmtpUsername: `smtp_${'y'.repeat(21)}`,
  sandboxSmtpPassword: 'q'.repeat(32),
  operatorEmail: 'operator@localhost',
  signInUrl: `http://localhost:3000/welcome#token=${'t'.repeat(43)}`,
};
const ports = { httpPort: 3000, smtpPort: 2587 };

test('a terminal shows one box of 80 columns, with the portal link first', () => {
  const text = welcome(first, ports, '/data/first-run.json', true);
  const lines = text.trim().split('\n');
  assert.match(lines[0]!, /^┌─ Postrider: first start ─+┐$/);
  assert.match(lines.at(-1)!, /^└─+┘$/);
  for (const line of lines) assert.ok(line.length <= 80, line);
  const outside = lines.slice(1, -1).filter((line) => !/^│ .* │$/.test(line));
  assert.deepEqual(outside, [first.signInUrl], 'the text can be selected as it is');
  const { operatorUserId: _, createdAt: __, ...printed } = first;
  const secrets = Object.values(printed);
  for (const secret of secrets) assert.ok(text.includes(secret), secret);
  const firstSecret = secrets
    .filter((one) => one !== 'operator@localhost')
    .sort((a, b) => text.indexOf(a) - text.indexOf(b))[0];
  assert.equal(firstSecret, first.signInUrl);
  assert.ok(text.includes('/data/first-run.json'));
});

test('other outputs show only the path', () => {
  const text = welcome(first, ports, '/data/first-run.json', false);
  assert.equal(text, '\nFirst start: the credentials are in /data/first-run.json\n\n');
});
