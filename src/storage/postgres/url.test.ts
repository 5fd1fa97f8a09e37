/** Addresses of PostgreSQL: what is read of them, what is refused; and statements as PostgreSQL wants them. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { statementNames, translate } from './transaction.ts';
import { parsePostgresUrl, shownAddress, tlsOptions } from './url.ts';

test('an address is read as libpq reads it', () => {
  assert.deepEqual(parsePostgresUrl('postgres://ada:p%40ss%3A@db.internal/mail'), {
    ...{ user: 'ada', password: 'p@ss:', host: 'db.internal', port: 5432, database: 'mail' },
    ...{ sslMode: 'disable', sslRootCert: undefined },
  });
  const socket = parsePostgresUrl('postgresql://ada@%2Fvar%2Frun%2Fpostgresql:5433/mail');
  assert.deepEqual([socket.host, socket.port, socket.password], ['/var/run/postgresql', 5433, undefined]);
  const six = parsePostgresUrl('postgres://ada:x@[::1]:6432/mail?sslmode=verify-full');
  assert.equal(six.host, '::1');
  assert.equal(shownAddress(six), 'postgres://ada@[::1]:6432/mail', 'without the password');
});

test('TLS judges the server as the mode says', () => {
  const judged = (mode: string) => tlsOptions(parsePostgresUrl(`postgres://a@h/d?sslmode=${mode}`));
  assert.equal(judged('disable'), false);
  assert.deepEqual(judged('verify-full'), { rejectUnauthorized: true });
  const [encrypted, chained] = [judged('require'), judged('verify-ca')];
  assert.ok(encrypted !== false && !encrypted.rejectUnauthorized);
  assert.ok(chained !== false && chained.rejectUnauthorized && chained.checkServerIdentity);
});

test('what is not an address, or not known, is refused with what is allowed', () => {
  for (const [wrong, wanted] of [
    ['mysql://a@h/d', /postgres:\/\/user/],
    ['postgres://h/d', /user, host and database/],
    ['postgres://a@h', /user, host and database/],
    ['postgres://a@h/d?sslmode=maybe', /sslmode is one of disable, require/],
    ['postgres://a@h/d?pool=9', /the option pool is not known/],
    ['postgres://a@h:0/d', /a port from 1/],
    ['postgres://a@h/d?sslrootcert=ca.pem', /sslrootcert needs an sslmode/],
    ['postgres://a:%zz@h/d', /a % that stands for itself/],
  ] as const) {
    assert.throws(() => parsePostgresUrl(wrong), wanted, wrong);
  }
});

test('question marks become numbers, but for those in texts and quoted names', () => {
  assert.equal(
    translate(`SELECT '?', "a?" FROM t WHERE a = ? AND b IN (?, ?)`),
    `SELECT '?', "a?" FROM t WHERE a = $1 AND b IN ($2, $3)`,
  );
  assert.equal(translate("SELECT 'it''s ?' || ?"), "SELECT 'it''s ?' || $1");
});

test('only what is used again and again gets a name', () => {
  const statementOf = statementNames();
  const names = Array.from({ length: 5 }, () => statementOf('SELECT 1').name);
  assert.deepEqual(names.slice(0, 2), [undefined, undefined]);
  assert.ok(names[2] !== undefined && names[3] === names[2] && names[4] === names[2]);
});
