/** Database URLs, and the translation of statements for PostgreSQL. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { statementNames, translate } from './transaction.ts';
import { parsePostgresUrl, shownAddress, tlsAttempts, tlsOptions } from './url.ts';

test('a URL is parsed as libpq does', () => {
  assert.deepEqual(parsePostgresUrl('postgres://ada:p%40ss%3A@db.internal/mail'), {
    user: 'ada',
    password: 'p@ss:',
    hosts: [{ host: 'db.internal', port: 5432 }],
    database: 'mail',
    sslMode: 'disable',
    sslRootCert: undefined,
    sslCert: undefined,
    minTlsVersion: undefined,
    channelBinding: 'prefer',
    applicationName: 'postrider',
    connectTimeoutMs: undefined,
    keepAliveIdleMs: undefined,
    options: undefined,
  });
  const six = parsePostgresUrl('postgres://ada:x@[::1]:6432/mail?sslmode=verify-full');
  assert.equal(shownAddress(six), 'postgres://ada@[::1]:6432/mail', 'without the password');
});

test('hosts and ports can be lists', () => {
  for (const [authority, query, hosts] of [
    ['%2Fvar%2Frun:5433', '', ['/var/run:5433']],
    ['', 'host=/tmp', ['/tmp:5432']],
    ['a,b', '', ['a:5432', 'b:5432']],
    ['a:1,b:2', 'target_session_attrs=read-write', ['a:1', 'b:2']],
    ['a,[::1]:7', 'target_session_attrs=primary', ['a:5432', '::1:7']],
    ['', 'host=a,b&port=9', ['a:9', 'b:9']],
    ['', 'host=a,b&port=9,8', ['a:9', 'b:8']],
  ] as const) {
    const read = parsePostgresUrl(`postgresql://ada@${authority}/mail?${query}`).hosts;
    assert.deepEqual(
      read.map(({ host, port }) => `${host}:${port}`),
      hosts,
    );
  }
});

test('the URLs of managed services are accepted', () => {
  const of = (rest: string) => parsePostgresUrl(`postgresql://ada:x@h/d?${rest}`);
  const neon = of('sslmode=require&channel_binding=require&options=endpoint%3Dep-1');
  assert.deepEqual([neon.sslMode, neon.channelBinding, neon.options], ['require', 'require', 'endpoint=ep-1']);
  const tuned = of('application_name=mail&connect_timeout=7&keepalives=1&keepalives_idle=30&gssencmode=disable');
  assert.deepEqual([tuned.applicationName, tuned.connectTimeoutMs, tuned.keepAliveIdleMs], ['mail', 7_000, 30_000]);
  assert.equal(of('pgbouncer=true&schema=public&connection_limit=5&sslmode=prefer').sslMode, 'prefer');
  assert.equal(of('ssl=true').sslMode, 'require');
  assert.equal(of('sslrootcert=system').sslMode, 'verify-full');
  for (const mode of ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'])
    assert.equal(of(`sslmode=${mode}`).sslMode, mode);
});

test('TLS verifies the server according to the mode', () => {
  const attempts = (mode: string, host = 'h') => {
    const address = parsePostgresUrl(`postgres://a@${host}/d?sslmode=${mode}`);
    return tlsAttempts(address, address.hosts[0]!).map((tls) => tls !== false && tls.rejectUnauthorized);
  };
  assert.deepEqual(attempts('disable'), [false]);
  assert.deepEqual(
    tlsAttempts(parsePostgresUrl('postgres://a@h/d?sslmode=prefer'), { host: 'h', port: 1 }).map(
      (tls) => tls !== false,
    ),
    [true, false],
  );
  assert.deepEqual(
    tlsAttempts(parsePostgresUrl('postgres://a@h/d?sslmode=allow'), { host: 'h', port: 1 }).map((tls) => tls !== false),
    [false, true],
  );
  assert.deepEqual(attempts('verify-full'), [true]);
  assert.deepEqual(attempts('verify-full', '%2Ftmp'), [false], 'a local socket');
  const judged = (mode: string) => tlsOptions(parsePostgresUrl(`postgres://a@h/d?sslmode=${mode}`));
  assert.deepEqual(judged('verify-full'), { rejectUnauthorized: true });
  const [encrypted, chained] = [judged('require'), judged('verify-ca')];
  assert.ok(encrypted !== false && !encrypted.rejectUnauthorized);
  assert.ok(chained !== false && chained.rejectUnauthorized && chained.checkServerIdentity);
});

test('rejects an invalid or unknown option with the accepted form', () => {
  for (const [wrong, wanted] of [
    ['mysql://a@h/d', /postgres:\/\/user/],
    ['postgres://h/d', /must contain a user, a host, and a database/],
    ['postgres://a@h', /must contain a user, a host, and a database/],
    ['postgres://a@h,/d', /must contain a user, a host, and a database/],
    [
      'postgres://a@h/d?sslmode=maybe',
      /sslmode must be one of disable, allow, prefer, require, verify-ca, verify-full/,
    ],
    ['postgres://a@h/d?pool=9', /the option pool is unknown; the options are application_name, channel_binding/],
    ['postgres://a@h/d?schema=mail', /schema=mail is not supported.*search_path/],
    ['postgres://a@h/d?target_session_attrs=standby', /target_session_attrs must be one of read-write, primary, any/],
    ['postgres://a@h/d?gssencmode=require', /gssencmode must be one of disable, prefer/],
    ['postgres://a@h/d?connect_timeout=5s', /connect_timeout must be a whole number, not 5s/],
    ['postgres://a@h:0/d', /each port must be a number from 1/],
    ['postgres://a@h:1,i:2,j:3/d?host=a,b', /3 ports for 2 hosts/],
    ['postgres://a@h/d?sslrootcert=ca.pem', /sslrootcert requires TLS; set sslmode/],
    ['postgres://a@h/d?channel_binding=require', /channel_binding requires TLS; set sslmode/],
    ['postgres://a@h/d?sslrootcert=system&sslmode=require', /system requires sslmode=verify-full/],
    ['postgres://a@h/d?sslmode=verify-full&sslrootcert=/nope.pem', /sslrootcert=\/nope\.pem cannot be read: ENOENT/],
    ['postgres://a@h/d?sslmode=verify-full&sslrootcert=/dev/null', /sslrootcert=\/dev\/null is not a PEM file/],
    ['postgres://a@h/d?sslmode=require&sslcert=/c.pem', /sslcert and sslkey must be set together/],
    ['postgres://a:%zz@h/d', /a literal % as %25/],
  ] as const) {
    assert.throws(() => parsePostgresUrl(wrong), wanted, wrong);
  }
});

test('question marks become numbered parameters, except in literals and quoted names', () => {
  assert.equal(
    translate(`SELECT '?', "a?" FROM t WHERE a = ? AND b IN (?, ?)`),
    `SELECT '?', "a?" FROM t WHERE a = $1 AND b IN ($2, $3)`,
  );
  assert.equal(translate("SELECT 'it''s ?' || ?"), "SELECT 'it''s ?' || $1");
});

test('only repeated statements are prepared by name', () => {
  const statementOf = statementNames();
  const names = Array.from({ length: 5 }, () => statementOf('SELECT 1').name);
  assert.deepEqual(names.slice(0, 2), [undefined, undefined]);
  assert.ok(names[2] !== undefined && names[3] === names[2] && names[4] === names[2]);
});
