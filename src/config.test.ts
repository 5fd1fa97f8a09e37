/** Settings that are rejected, and which part of a value the one-line error shows. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { ConfigError, readConfig } from './config.ts';

/** Returns the only line of the error for these variables. */
function refusalOf(environment: Record<string, string>): string {
  try {
    readConfig(environment);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    assert.ok(!error.message.includes('\n'), error.message);
    return error.message;
  }
  return assert.fail(`${JSON.stringify(environment)} was accepted`);
}

function refusal(name: string, value: string): string {
  const message = refusalOf({ [name]: value });
  assert.ok(message.startsWith(`${name}=`), message);
  return message;
}

test('the database password can be a separate, unencoded variable', () => {
  const url = 'postgres://postrider@db/postrider';
  assert.equal(readConfig({ POSTRIDER_DATABASE_URL: url, PGPASSWORD: 'a/b@c %' }).databaseUrl?.password, 'a/b@c %');
  const both = { POSTRIDER_DATABASE_URL: 'postgres://postrider:a%2Fb@db/postrider', PGPASSWORD: 'other' };
  assert.equal(readConfig(both).databaseUrl?.password, 'a/b');
  assert.equal(readConfig({ PGPASSWORD: 'x' }).databaseUrl, undefined);
});

test('DNS servers are addresses with valid ports', () => {
  const wrong = [
    '127.0.0.1:99999',
    '127.0.0.1:0',
    ',',
    ' , ',
    '127.0.0.1:',
    'dns.test',
    '[127.0.0.1]:53',
    '127',
    '[::1',
  ];
  for (const value of wrong) assert.match(refusal('POSTRIDER_DNS_SERVERS', value), /ports from 1 to 65535/);
  const right = ['10.0.0.53', '127.0.0.1:65535', '::1', '[::1]:5353', '[::1]'];
  assert.deepEqual(readConfig({ POSTRIDER_DNS_SERVERS: right.join(' , ') }).dnsServers, right);
});

test('the HTTP port can be bound to an address or a name', () => {
  for (const value of ['not a host', '127.0.0.1:80', 'http://x', '[::1]']) {
    assert.match(refusal('POSTRIDER_HTTP_HOST', value), /127\.0\.0\.1, 0\.0\.0\.0 or ::/);
  }
  for (const value of ['127.0.0.1', '::', 'localhost']) {
    assert.equal(readConfig({ POSTRIDER_HTTP_HOST: value }).httpHost, value);
  }
});

test('TLS reports require a valid sender domain', () => {
  for (const value of [
    'example',
    'a@example.com',
    '192.0.2.1',
    'https://example.com',
    'exa mple.com',
    '.example.com',
  ]) {
    assert.match(refusal('POSTRIDER_REPORT_DOMAIN', value), /a sender domain such as example\.com$/);
  }
  assert.equal(readConfig({ POSTRIDER_REPORT_DOMAIN: 'Reports.Example.com' }).reportDomain, 'reports.example.com');
});

test('postmaster mail is forwarded to an address outside the bounce domain', () => {
  for (const value of [
    'ops',
    'ops@',
    '@example.net',
    'Ops <ops@example.net>',
    'ops@example.net, dev@example.net',
    'a b@c.example',
  ]) {
    assert.match(refusal('POSTRIDER_POSTMASTER', value), /an email address such as postmaster@example\.com$/);
  }
  assert.equal(readConfig({ POSTRIDER_POSTMASTER: 'ops@example.net' }).postmaster, 'ops@example.net');
  const round = { POSTRIDER_POSTMASTER: 'ops@Bounces.example.net', POSTRIDER_BOUNCE_DOMAIN: 'bounces.example.net' };
  assert.throws(
    () => readConfig(round),
    /^ConfigError: POSTRIDER_POSTMASTER="ops@bounces\.example\.net" is not valid.* outside bounces/,
  );
  assert.equal(readConfig({ ...round, POSTRIDER_POSTMASTER: 'ops@example.net' }).postmaster, 'ops@example.net');
});

test('the name of the default is a valid value', () => {
  const words: [string, string][] = [
    ['POSTRIDER_INBOUND_PORT', 'off'],
    ['POSTRIDER_BOUNCE_DOMAIN', 'none'],
    ['POSTRIDER_POSTMASTER', 'none'],
    ['POSTRIDER_REPORT_DOMAIN', 'none'],
    ['POSTRIDER_MX_ALLOW', 'none'],
    ['POSTRIDER_WEBHOOK_ALLOW', 'none'],
    ['POSTRIDER_METRICS_TOKEN', 'none'],
    ['POSTRIDER_RATE_LIMIT', 'off'],
    ['POSTRIDER_DNSSEC', 'off'],
  ];
  for (const [name, value] of words) assert.deepEqual(readConfig({ [name]: value }), readConfig({}), name);
  assert.match(refusal('POSTRIDER_DNSSEC', 'on'), /allowed: off, or trust/);
  assert.match(refusal('POSTRIDER_RATE_LIMIT', '0'), /allowed: off, or a whole number from 1/);
  assert.match(refusal('POSTRIDER_INBOUND_PORT', 'none'), /allowed: off, or a port/);
  assert.match(refusal('POSTRIDER_MX_ALLOW', 'off'), /allowed: none, or a comma-separated list/);
  assert.deepEqual(
    readConfig({ POSTRIDER_SMTP_HOSTNAME: 'none' }).smtpHostname,
    'none',
    'not a keyword for this setting',
  );
});

test('ranges can be single addresses', () => {
  for (const [name, key] of [
    ['POSTRIDER_MX_ALLOW', 'mxAllow'],
    ['POSTRIDER_WEBHOOK_ALLOW', 'webhookAllow'],
  ] as const) {
    const read = readConfig({ [name]: ' 127.0.0.1, ::1,10.0.0.0/8 , fd00::/8' })[key];
    assert.deepEqual(read, ['127.0.0.1/32', '::1/128', '10.0.0.0/8', 'fd00::/8']);
    for (const wrong of ['127.0.0.1/33', '127.1', '010.0.0.0/8', '127.0.0.1;::1', 'localhost', '::1/129', '[::1]']) {
      assert.match(refusal(name, wrong), /CIDRs or addresses such as 10\.0\.0\.0\/8, ::1/);
    }
  }
});

test('a port to connect to cannot be 0, and a token has no minimum length', () => {
  for (const value of ['0', '65536', 'smtp', '-1']) {
    assert.match(refusal('POSTRIDER_MX_PORT', value), /a port from 1 to 65535$/);
  }
  assert.equal(readConfig({ POSTRIDER_MX_PORT: '1' }).mxPort, 1);
  assert.equal(readConfig({ POSTRIDER_HTTP_PORT: '0' }).httpPort, 0);
  assert.equal(readConfig({ POSTRIDER_METRICS_TOKEN: 'x' }).metricsToken, 'x');
  for (const value of ['a b', ' ', 'a\tb']) assert.match(refusal('POSTRIDER_METRICS_TOKEN', value), /white space/);
});

test('source addresses are addresses without duplicates', () => {
  const name = 'POSTRIDER_SOURCE_ADDRESSES';
  for (const value of ['eth0', '192.0.2.1/24', '192.0.2.1;192.0.2.2', ',', '[::1]']) {
    assert.match(refusal(name, value), /allowed: a comma-separated list of addresses of this machine/);
  }
  const read = readConfig({ [name]: '192.0.2.1, 2001:db8::1,192.0.2.1' }).sourceAddresses;
  assert.deepEqual(read, ['192.0.2.1', '2001:db8::1']);
});

test('a warm-up names the day on which each address started to send', () => {
  const name = 'POSTRIDER_WARMUP';
  const firstDay = Date.UTC(2026, 10, 23) / 86_400_000;
  assert.deepEqual(readConfig({ [name]: '2026-11-23' }).warmUp, [{ address: null, firstDay }]);
  const sources = { POSTRIDER_SOURCE_ADDRESSES: '192.0.2.1,2001:db8::1' };
  assert.deepEqual(readConfig({ ...sources, [name]: '192.0.2.1=2026-11-23, 2026-11-24' }).warmUp, [
    { address: '192.0.2.1', firstDay },
    { address: null, firstDay: firstDay + 1 },
  ]);
  for (const value of ['yesterday', '2026-02-30', '2026-11-23,2026-11-24', 'eth0=2026-11-23', '192.0.2.1=', ',']) {
    assert.match(refusal(name, value), /allowed: none, or the day on which the addresses started to send/, value);
  }
  assert.throws(() => readConfig({ ...sources, [name]: '192.0.2.2=2026-11-23' }), {
    message: /^POSTRIDER_WARMUP="192\.0\.2\.2=2026-11-23" is not valid; .* 192\.0\.2\.2 is not one of them$/,
  });
  const relay = { POSTRIDER_ROUTE: 'smtp://relay.test', [name]: '2026-11-23' };
  assert.throws(() => readConfig(relay), { message: /has no effect with a relay/ });
});

test('a certificate requires its key and vice versa', () => {
  for (const name of ['POSTRIDER_SMTP_TLS_CERT', 'POSTRIDER_SMTP_TLS_KEY']) {
    assert.throws(() => readConfig({ [name]: '/etc/one.pem' }), {
      name: 'ConfigError',
      message: new RegExp(`^${name}="/etc/one\\.pem" is set and POSTRIDER_SMTP_TLS_(?:KEY|CERT) is not`),
    });
  }
});

test('backups of the embedded database are refused with a database server', () => {
  const server = { POSTRIDER_DATABASE_URL: 'postgres://user@db.example/postrider' };
  for (const [name, value] of [
    ['POSTRIDER_BACKUP_URL', 'file:///backups'],
    ['POSTRIDER_BACKUP_BEFORE_UPGRADE', 'on'],
  ] as const) {
    assert.throws(() => readConfig({ ...server, [name]: value }), {
      name: 'ConfigError',
      message: new RegExp(`^${name}.* backs up the embedded database, but POSTRIDER_DATABASE_URL names a server`),
    });
  }
  assert.equal(readConfig({ ...server, POSTRIDER_BACKUP_BEFORE_UPGRADE: 'off' }).backupBeforeUpgrade, 'off');
});

test('a certificate authority requires an https URL and accepts a contact address', () => {
  for (const value of ['http://ca.example/dir', 'ca.example', 'https://user:pass@ca.example/dir', 'https://']) {
    assert.match(refusal('POSTRIDER_ACME_DIRECTORY', value), /an https URL, such as/);
  }
  const query = 'https://ca.example/dir?profile=short';
  assert.equal(readConfig({ POSTRIDER_ACME_DIRECTORY: query }).acmeDirectory, query);
  for (const value of ['ann', 'a@b', 'a@b.example,c@d.example', 'mailto:a@b.example?x', 'a b@c.example']) {
    assert.match(refusal('POSTRIDER_ACME_EMAIL', value), /off, or an email address such as postmaster@example\.com/);
  }
});

test('a relay requires a valid port and decodable credentials', () => {
  for (const value of ['smtp://h:0', 'smtps://h:0', 'smtp://h:65536', 'smtp://', 'http://h', 'smtp://u:%zz@h']) {
    assert.match(refusal('POSTRIDER_ROUTE', value), /smtp:\/\/user:pass@host:587/);
  }
  assert.deepEqual(readConfig({ POSTRIDER_ROUTE: 'smtp://u:p%40ss@relay.test:2525' }).route, {
    kind: 'relay',
    relay: { host: 'relay.test', port: 2525, implicitTls: false, auth: { user: 'u', pass: 'p@ss' } },
  });
});

test('the URL of a relay can have limits', () => {
  const limited = 'smtp://relay.test:2525?perMinute=60&perDay=10000';
  const relay = { host: 'relay.test', port: 2525, implicitTls: false, limits: { perMinute: 60, perDay: 10_000 } };
  assert.deepEqual(readConfig({ POSTRIDER_ROUTE: limited }).route, { kind: 'relay', relay });
  assert.deepEqual(readConfig({ POSTRIDER_FALLBACK_ROUTE: limited }).fallbackRoute, relay);
  for (const name of ['POSTRIDER_ROUTE', 'POSTRIDER_FALLBACK_ROUTE']) {
    for (const value of ['0', '1000001', '1.5', '', 'ten', '-1']) {
      const allowed = /perMinute as a whole number from 1 to 1000000, such as \?perMinute=60&perDay=10000$/;
      assert.match(refusal(name, `smtp://h?perMinute=${value}`), allowed);
    }
    assert.match(refusal(name, 'smtp://h?perDay=1000000001'), /perDay as a whole number from 1 to 1000000000/);
    assert.match(
      refusal(name, 'smtp://h?perHour=1'),
      /the parameters perMinute, perDay, tokenUrl, scope, user; "perHour" is not one of them/,
    );
    assert.match(refusal(name, 'smtp://h?perDay=1&perDay=2'), /the parameter perDay once/);
    assert.match(refusal(name, 'smtp://u:p@h?perDay=x'), /^\w+="smtp:\/\/\*\*\*:\*\*\*@h\?perDay=x" is not valid/);
  }
});

test('the URL of a relay can have OAuth 2.0 parameters', () => {
  const tokenUrl = 'https://login.example/t/token';
  const url = `smtp://id:s%40cret@relay.test:587?user=noreply%40example.com&tokenUrl=${encodeURIComponent(tokenUrl)}`;
  const oauth = { user: 'noreply@example.com', tokenUrl, clientId: 'id', clientSecret: 's@cret' };
  const relay = { host: 'relay.test', port: 587, implicitTls: false };
  assert.deepEqual(readConfig({ POSTRIDER_ROUTE: url }).route, { kind: 'relay', relay: { ...relay, oauth } });
  const more = { ...relay, oauth: { ...oauth, scope: 'mail.send' }, limits: { perDay: 5 } };
  assert.deepEqual(readConfig({ POSTRIDER_FALLBACK_ROUTE: `${url}&scope=mail.send&perDay=5` }).fallbackRoute, more);
  const local = 'smtp://id:secret@h?user=u&tokenUrl=http://127.0.0.1:8080/token';
  assert.ok(readConfig({ POSTRIDER_ROUTE: local }));
  const incomplete = [
    'smtp://id:secret@h?user=u',
    `smtp://id:secret@h?tokenUrl=${tokenUrl}`,
    'smtp://id:secret@h?scope=s',
    `smtp://h?user=u&tokenUrl=${tokenUrl}`,
    `smtp://id:secret@h?user=u%01x&tokenUrl=${tokenUrl}`,
    `smtp://id:secret@h?user=no+reply@example.com&tokenUrl=${tokenUrl}`,
  ];
  for (const value of incomplete) assert.match(refusal('POSTRIDER_ROUTE', value), /CLIENT_ID:CLIENT_SECRET@host/);
  for (const value of ['http://login.example/token', 'login.example', 'ftp://x/y'])
    assert.match(
      refusal('POSTRIDER_ROUTE', `smtp://id:secret@h?user=u&tokenUrl=${value}`),
      /a tokenUrl with https, or with http on this machine/,
    );
});

test('temporary credentials for S3 replace the keys', () => {
  const POSTRIDER_BLOB_URL = 's3://mail';
  assert.match(refusalOf({ POSTRIDER_BLOB_URL }), /^AWS_ACCESS_KEY_ID is not set/);
  const file = { AWS_WEB_IDENTITY_TOKEN_FILE: '/run/token' };
  assert.match(refusalOf({ POSTRIDER_BLOB_URL, ...file }), /^AWS_ROLE_ARN is not set/);
  readConfig({ POSTRIDER_BLOB_URL, ...file, AWS_ROLE_ARN: 'arn:aws:iam::1:role/mail' });
  readConfig({ POSTRIDER_BLOB_URL, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: '/v2/credentials/1' });
  readConfig({ POSTRIDER_BLOB_URL: 's3://mail?credentials=instance' });
  assert.match(refusalOf({ POSTRIDER_BLOB_URL: 's3://mail?credentials=keys' }), /credentials must be instance/);
  const uri = (value: string) => ({ POSTRIDER_BLOB_URL, AWS_CONTAINER_CREDENTIALS_FULL_URI: value });
  for (const value of ['https://creds.example/x', 'http://169.254.170.23/v1/credentials', 'http://127.0.0.1:8080/'])
    readConfig(uri(value));
  readConfig({ AWS_CONTAINER_CREDENTIALS_FULL_URI: 'http://creds.example/x' });
  for (const value of ['http://creds.example/x', 'http://169.254.169.254/', 'ftp://x', 'x'])
    assert.match(refusalOf(uri(value)), /^AWS_CONTAINER_CREDENTIALS_FULL_URI="/);
});

test('errors name the value but never include secrets or credentials', () => {
  const shown: [string, string, string][] = [
    ['POSTRIDER_ROUTE', 'smtp://ann:hunter2@h:0', '"smtp://***:***@h:0"'],
    ['POSTRIDER_FALLBACK_ROUTE', 'smtp://ann:hunter2@h:0', '"smtp://***:***@h:0"'],
    ['POSTRIDER_FALLBACK_ROUTE', 'mx', '"mx"'],
    ['POSTRIDER_ROUTE', 'smtp://ann:hunt@er#2@h:0', '"smtp://***:***@h:0"'],
    ['POSTRIDER_ROUTE', 'relay.test', '"relay.test"'],
    ['POSTRIDER_DATABASE_URL', 'mysql://ann:hunter2@db/x', '"mysql://***:***@db/x"'],
    ['POSTRIDER_DATABASE_URL', 'mysql://db/x?password=hunter2', '"mysql://db/x?password=***"'],
    ['POSTRIDER_BASE_URL', 'https://ann:hunter2@h', '"https://***:***@h"'],
    ['POSTRIDER_OTLP_ENDPOINT', 'https://ann:hunter2@h/', '"https://***:***@h/"'],
    ['POSTRIDER_OTLP_HEADERS', 'hunter2', '(not shown)'],
    ['POSTRIDER_SECRET_KEY', 'hunter2', '(not shown)'],
    ['POSTRIDER_METRICS_TOKEN', 'hunter2 hunter2', '(not shown)'],
    ['POSTRIDER_HTTP_PORT', '70000', '"70000"'],
  ];
  for (const [name, value, wanted] of shown) {
    const line = refusal(name, value);
    assert.ok(line.startsWith(`${name}=${wanted} is not valid; allowed: `), line);
    assert.ok(!/hunter2|hunt@/.test(line), line);
  }
});

test('blobs are stored in a folder or in S3, and S3 requires its two variables', () => {
  const url = 's3://mail/a?endpoint=http://minio:9000&region=home';
  const keys = { AWS_ACCESS_KEY_ID: 'AKIA', AWS_SECRET_ACCESS_KEY: 'hunter2' };
  const config = readConfig({ POSTRIDER_BLOB_URL: url, ...keys, AWS_SESSION_TOKEN: 'token' });
  assert.deepEqual(config.blobs, {
    kind: 's3',
    location: { endpoint: 'http://minio:9000', region: 'home', bucket: 'mail', prefix: 'a', style: 'path' },
  });
  assert.deepEqual(
    [config.awsAccessKeyId, config.awsSecretAccessKey, config.awsSessionToken],
    ['AKIA', 'hunter2', 'token'],
  );
  for (const name of Object.keys(keys)) {
    const line = new RegExp(`${name} is not set, but POSTRIDER_BLOB_URL=s3://`);
    assert.throws(() => readConfig({ POSTRIDER_BLOB_URL: url, ...keys, [name]: undefined }), line);
  }
  assert.deepEqual(readConfig({ POSTRIDER_BLOB_URL: 'file:///mnt/mail%20blobs' }).blobs, {
    kind: 'disk',
    folder: '/mnt/mail blobs',
  });
  for (const value of [
    '/mnt/blobs',
    'file://host/mnt',
    'http://minio:9000/mail',
    's3:/mail',
    's3://ann:hunter2@mail/a',
  ]) {
    assert.ok(!refusal('POSTRIDER_BLOB_URL', value).includes('hunter2'));
  }
});

test('the inbound role is added by default if its port is set, and never without a port', () => {
  const rolesOf = (environment: Record<string, string>): string => readConfig(environment).roles.join(',');
  assert.equal(rolesOf({}), 'api,smtp,delivery,webhooks');
  assert.equal(rolesOf({ POSTRIDER_INBOUND_PORT: '25' }), 'api,smtp,delivery,webhooks,inbound');
  assert.equal(rolesOf({ POSTRIDER_INBOUND_PORT: '25', POSTRIDER_ROLES: 'api,smtp' }), 'api,smtp');
  assert.equal(rolesOf({ POSTRIDER_INBOUND_PORT: '25', POSTRIDER_ROLES: 'inbound' }), 'inbound');
  const all = 'webhooks,delivery,api,smtp';
  assert.equal(rolesOf({ POSTRIDER_INBOUND_PORT: '25', POSTRIDER_ROLES: all }), `${all},inbound`);
  assert.equal(rolesOf({ POSTRIDER_INBOUND_PORT: '25', POSTRIDER_ROLES: `inbound,${all}` }), `inbound,${all}`);
  assert.equal(rolesOf({ POSTRIDER_ROLES: all }), all);
  assert.throws(() => readConfig({ POSTRIDER_ROLES: 'inbound' }), /POSTRIDER_INBOUND_PORT is not set/);
});

test('a secret can be read from a file', (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-config-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'secret');
  const key = Buffer.alloc(32, 7).toString('base64');
  writeFileSync(file, `${key}\n`);
  const config = readConfig({
    POSTRIDER_SECRET_KEY_FILE: file,
    PGPASSWORD_FILE: file,
    POSTRIDER_METRICS_TOKEN_FILE: file,
  });
  assert.equal(config.secretKey?.toString('base64'), key);
  assert.deepEqual([config.databasePassword, config.metricsToken], [key, key]);
  assert.deepEqual(config.unknownSettings, []);
  writeFileSync(file, 'smtp://user:pass@relay.example:587\r\n');
  assert.equal(readConfig({ POSTRIDER_ROUTE_FILE: file }).route.kind, 'relay');
  assert.match(refusal('POSTRIDER_SECRET_KEY_FILE', path.join(folder, 'none')), /cannot be read \(ENOENT\); allowed: /);
  assert.match(refusal('POSTRIDER_SECRET_KEY_FILE', folder), /cannot be read \(EISDIR\)/);
  writeFileSync(file, ' \n');
  assert.match(
    refusal('PGPASSWORD_FILE', file),
    /is empty; allowed: a readable file that contains the value of PGPASSWORD$/,
  );
  const both = { POSTRIDER_SECRET_KEY: key, POSTRIDER_SECRET_KEY_FILE: file };
  assert.throws(
    () => readConfig(both),
    /POSTRIDER_SECRET_KEY and POSTRIDER_SECRET_KEY_FILE are both set; allowed: one of them/,
  );
  const misspelt = readConfig({ POSTRIDER_HTTP_PORT_FILE: file });
  assert.deepEqual(misspelt.unknownSettings, ['POSTRIDER_HTTP_PORT_FILE'], 'it is not a secret');
});

test('quotes from an env file and surrounding spaces are removed', () => {
  for (const [name, value] of [
    ['POSTRIDER_SMTP_PORT', '"587"'],
    ['POSTRIDER_DATA_DIR', "'/var/lib/postrider'"],
    ['POSTRIDER_BASE_URL', '"https://mail.example.com"'],
    ['POSTRIDER_SMTP_TLS_CERT', '"/etc/cert.pem"'],
  ] as const) {
    assert.match(refusal(name, value), /allowed: the value without quotes around it$/);
  }
  assert.equal(readConfig({ PGPASSWORD: '"secret"' }).databasePassword, '"secret"', 'valid in a password');
  assert.equal(readConfig({ POSTRIDER_SMTP_PORT: ' 587 ' }).smtpPort, 587);
  assert.match(refusal('POSTRIDER_DATA_DIR', '  '), /allowed: a value that is not blank$/);
});

test('trusted proxies are addresses and ranges, and sizes have units', () => {
  for (const value of ['10.0.0.0/33', 'proxy.example', '10.0.0', '10.0.0.0/8 10.1.0.0/16', 'private', '[::1]']) {
    assert.match(refusal('POSTRIDER_TRUSTED_PROXIES', value), /a comma-separated list of CIDRs or addresses/);
  }
  const { trustedProxies } = readConfig({ POSTRIDER_TRUSTED_PROXIES: '10.0.0.0/8, 127.0.0.1,::1 ,fd00::/8' });
  assert.deepEqual(trustedProxies, ['10.0.0.0/8', '127.0.0.1/32', '::1/128', 'fd00::/8']);
  assert.equal(readConfig({ POSTRIDER_MIN_FREE_BYTES: '500MB' }).minFreeBytes, 500_000_000);
  for (const value of ['500XB', '-1', '10 %', 'lots']) {
    assert.match(refusal('POSTRIDER_MIN_FREE_BYTES', value), /allowed: bytes such as 40000000, or a size such as 40MB/);
  }
});

test('a word that is already among the allowed ones is not named twice', () => {
  assert.throws(
    () => readConfig({ POSTRIDER_MCP: 'yes' }),
    /^ConfigError: POSTRIDER_MCP="yes" is not valid; allowed: one of off, read, on$/,
  );
});
