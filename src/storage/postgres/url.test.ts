/** Addresses of PostgreSQL: what is read of them, what is refused; and statements as PostgreSQL wants them. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { statementNames, translate } from './transaction.ts';
import { connectionKinds, parsePostgresUrl, shownAddress, tlsOptions } from './url.ts';

const DEFAULTS = {
  sslMode: 'disable',
  sslRootCert: undefined,
  sslCert: undefined,
  sslKey: undefined,
  channelBinding: 'prefer',
  applicationName: 'postrider',
  connectTimeoutMs: 5_000,
  options: undefined,
};

test('an address is read as libpq reads it', () => {
  assert.deepEqual(parsePostgresUrl('postgres://ada:p%40ss%3A@db.internal/mail'), {
    ...DEFAULTS,
    user: 'ada',
    password: 'p@ss:',
    hosts: [{ host: 'db.internal', port: 5432 }],
    database: 'mail',
  });
  const socket = parsePostgresUrl('postgresql://ada@%2Fvar%2Frun%2Fpostgresql:5433/mail');
  assert.deepEqual([socket.hosts, socket.password], [[{ host: '/var/run/postgresql', port: 5433 }], undefined]);
  const six = parsePostgresUrl('postgres://ada:x@[::1]:6432/mail?sslmode=verify-full');
  assert.deepEqual(six.hosts, [{ host: '::1', port: 6432 }]);
  assert.equal(shownAddress(six), 'postgres://ada@[::1]:6432/mail', 'without the password');
});

test('several hosts, with a port of their own or one for all', () => {
  const hostsOf = (url: string) => parsePostgresUrl(url).hosts.map(({ host, port }) => `${host} ${port}`);
  assert.deepEqual(hostsOf('postgres://a@h1:5433,h2,[::1]:6432/d'), ['h1 5433', 'h2 5432', '::1 6432']);
  assert.deepEqual(hostsOf('postgres://a@h1,h2/d?port=6000'), ['h1 6000', 'h2 6000']);
  assert.deepEqual(hostsOf('postgres://a@/d?host=h1,h2&port=1,2&target_session_attrs=read-write'), ['h1 1', 'h2 2']);
  assert.deepEqual(hostsOf('postgres:///d?host=/var/run/postgresql&user=a'), ['/var/run/postgresql 5432']);
  assert.equal(shownAddress(parsePostgresUrl('postgres://a@h1,h2/d')), 'postgres://a@h1:5432,h2:5432/d');
});

test('the URLs of managed services are accepted as they are handed out', () => {
  const given = {
    neon: 'postgresql://o:npg_x@ep-cool-1.eu-central-1.aws.neon.tech/neondb?sslmode=require&channel_binding=require',
    supabase: 'postgresql://postgres.ref:p@aws-0-eu.pooler.supabase.com:6543/postgres?pgbouncer=true',
    digitalOcean: 'postgresql://doadmin:p@db-1.b.db.ondigitalocean.com:25060/defaultdb?sslmode=require',
    aiven: 'postgres://avnadmin:p@pg-1.aivencloud.com:12691/defaultdb?sslmode=require',
    azure: 'postgres://u%40srv:p@srv.postgres.database.azure.com:5432/d?sslmode=verify-full&sslrootcert=system',
    heroku: 'postgres://u:p@ec2-1.compute-1.amazonaws.com:5432/d1',
    crunchy:
      'postgres://application:p@p.id.db.postgresbridge.com:5432/postgres?application_name=mail&connect_timeout=10',
    patroni: 'postgres://u:p@pg1:5432,pg2:5432,pg3:5432/mail?target_session_attrs=primary&keepalives_idle=30',
    options: 'postgres://u:p@h/d?options=-c%20search_path%3Dmail%20-c%20geqo%3Doff&gssencmode=disable',
  };
  const read = Object.fromEntries(Object.entries(given).map(([name, url]) => [name, parsePostgresUrl(url)]));
  assert.equal(read.neon!.channelBinding, 'require');
  assert.equal(read.azure!.user, 'u@srv');
  assert.deepEqual([read.crunchy!.applicationName, read.crunchy!.connectTimeoutMs], ['mail', 10_000]);
  assert.equal(read.patroni!.hosts.length, 3);
  assert.equal(read.options!.options, '-c search_path=mail -c geqo=off');
});

test('TLS judges the server as the mode says', () => {
  const judged = (mode: string) => tlsOptions(parsePostgresUrl(`postgres://a@h/d?sslmode=${mode}`));
  const kinds = (mode: string) => connectionKinds(parsePostgresUrl(`postgres://a@h/d?sslmode=${mode}`)).join(' ');
  assert.deepEqual(['disable', 'allow', 'prefer', 'require', 'verify-full'].map(kinds), [
    'plain',
    'plain tls',
    'tls plain',
    'tls',
    'tls',
  ]);
  assert.deepEqual(judged('verify-full'), { rejectUnauthorized: true });
  for (const mode of ['prefer', 'require']) assert.equal(judged(mode).rejectUnauthorized, false);
  assert.ok(judged('verify-ca').rejectUnauthorized && judged('verify-ca').checkServerIdentity);
});

test('what is not an address, or not known, is refused with what is allowed', () => {
  for (const [wrong, wanted] of [
    ['mysql://a@h/d', /postgres:\/\/user/],
    ['postgres://h/d', /user, host and database/],
    ['postgres://a@h', /user, host and database/],
    ['postgres://a@h1,,h2/d', /user, host and database/],
    ['postgres://a:b/c@h/d', /special characters as %XX|user, host and database/],
    ['postgres://a@h/d?sslmode=maybe', /sslmode is one of disable, allow, prefer, require/],
    ['postgres://a@h/d?pool=9', /the option pool is not known here; leave it out/],
    ['postgres://a@h/d?connection_limit=5', /the option connection_limit is not known/],
    ['postgres://a@h/d?target_session_attrs=standby', /target_session_attrs is one of read-write/],
    ['postgres://a@h/d?channel_binding=require', /channel_binding=require needs an sslmode/],
    ['postgres://a@h/d?connect_timeout=soon', /connect_timeout is a number of seconds/],
    ['postgres://a@h:0/d', /a port from 1/],
    ['postgres://a@h1,h2/d?port=1,2,3', /one port for all hosts/],
    ['postgres://a@h/d?sslrootcert=system', /sslrootcert and sslcert need an sslmode/],
    ['postgres://a@h/d?sslmode=require&sslrootcert=system', /sslrootcert=system needs sslmode=verify-full/],
    [
      'postgres://a@h/d?sslmode=verify-full&sslrootcert=/nope.pem',
      /the file \/nope\.pem of sslrootcert cannot be read \(ENOENT\)/,
    ],
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
