/** `postrider doctor` on a data directory: backups, the secret key, and no network access when offline. */
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';
import { fakeDns } from '../../test/kit/fake-dns.ts';
import { setMetaOperation } from '../storage/meta-store.ts';

interface Check {
  name: string;
  status: string;
  message: string;
  remedy?: string;
}

async function folderWithKey(t: TestContext) {
  const kit = commandFolder(t);
  await kit.json('migrate');
  const { accountId } = await kit.json('account', 'create', '--name', 'Acme');
  await kit.json('domain', 'add', accountId, 'shop.example', '--verified');
  const check = async (name: string): Promise<Check> => {
    const { stdout } = await kit.run(['doctor', '--offline', '--json']);
    const { checks } = JSON.parse(stdout) as { checks: Check[] };
    const found = checks.find((one) => one.name === name);
    assert.ok(found, `${name} in ${checks.map((one) => one.name)}`);
    return found;
  };
  return { ...kit, check };
}

test('the age of the last backup is read from the backup itself', async (t) => {
  const { folder, run, store, check } = await folderWithKey(t);
  const before = await check('backup');
  assert.deepEqual([before.status, before.message], ['warn', 'no backup has been made with postrider backup']);
  assert.equal((await run(['backup', path.join(folder, 'one.backup')])).code, 0);
  assert.deepEqual(await check('backup'), {
    name: 'backup',
    status: 'ok',
    message: 'the last backup is less than a day old',
  });
  const daysAgo = (count: number) => String(Date.now() - count * 86_400_000 - 1_000);
  const ageTo = (count: number) =>
    store(({ database }) => database.execute(setMetaOperation, { key: 'last-backup', value: daysAgo(count) }));
  await ageTo(6);
  assert.equal((await check('backup')).status, 'ok');
  await ageTo(9);
  const old = await check('backup');
  assert.deepEqual([old.status, old.message], ['warn', 'the last backup is 9 days old']);
  // A failed backup does not count.
  assert.equal((await run(['backup', path.join(folder, 'one.backup')])).code, 1);
  assert.equal((await check('backup')).message, 'the last backup is 9 days old');
});

test('a copy of the secret key counts after comparison, unless it is stored next to the key', async (t) => {
  const { folder, dataDir, run, json, check } = await folderWithKey(t);
  const warned = await check('secret key copy');
  assert.equal(warned.status, 'warn');
  assert.match(warned.remedy!, /postrider secret-key compare FILE/);
  const refused = async (file: string): Promise<string> => {
    const ran = await run(['secret-key', 'compare', file, '--json']);
    assert.equal(ran.code, 1, ran.stdout);
    return JSON.parse(ran.stdout).error.code;
  };
  const key = path.join(dataDir, 'secret.key');
  const copy = path.join(folder, 'copy');
  assert.equal(await refused(key), 'NOT_A_COPY');
  assert.equal(await refused(copy), 'NO_FILE');
  for (const text of ['', 'nonsense', Buffer.alloc(32, 7).toString('base64')]) {
    writeFileSync(copy, text);
    assert.equal(await refused(copy), 'ANOTHER_KEY', text);
  }
  assert.equal((await check('secret key copy')).status, 'warn', 'no matching copy so far');
  copyFileSync(key, copy);
  assert.equal((await json('secret-key', 'compare', copy)).fits, true);
  const found = await check('secret key copy');
  assert.deepEqual([found.status, found.message.slice(0, 45)], ['ok', 'a copy was compared with the key in use on 20']);
});

test('a key from the settings is not expected in the data directory', async (t) => {
  const { dataDir, run } = await folderWithKey(t);
  const POSTRIDER_SECRET_KEY = readFileSync(path.join(dataDir, 'secret.key'), 'utf8').trim();
  const { stdout } = await run(['doctor', '--offline', '--json'], { POSTRIDER_SECRET_KEY });
  const { checks } = JSON.parse(stdout) as { checks: Check[] };
  assert.equal(checks.find(({ name }) => name === 'secret key copy')!.status, 'ok');
  assert.doesNotMatch(stdout, new RegExp(POSTRIDER_SECRET_KEY.slice(0, 20).replaceAll('+', '\\+')));
});

test('a missing secret key that serve needs is reported as a failure with the fix', async (t) => {
  const { dataDir, run, check } = await folderWithKey(t);
  const file = path.join(dataDir, 'secret.key');
  const key = readFileSync(file, 'utf8').trim();
  const found = async (env: Record<string, string> = {}): Promise<Check> => {
    const { stdout, code } = await run(['doctor', '--offline', '--json'], env);
    const answer = JSON.parse(stdout) as { healthy: boolean; checks: Check[] };
    const one = answer.checks.find(({ name }) => name === 'secret key')!;
    if (one.status === 'fail') assert.deepEqual([answer.healthy, code], [false, 1]);
    return one;
  };
  assert.equal((await found()).status, 'ok');
  rmSync(file);
  const missing = await found();
  assert.equal(missing.status, 'fail');
  assert.match(missing.message, /secret\.key is missing and POSTRIDER_SECRET_KEY is not set/);
  assert.match(missing.remedy!, /^Restore \S+secret\.key from your copy .*POSTRIDER_SECRET_KEY/);
  assert.equal(existsSync(file), false, 'doctor does not create one');
  assert.equal((await found({ POSTRIDER_SECRET_KEY: key })).status, 'ok');
  const other = await found({ POSTRIDER_SECRET_KEY: Buffer.alloc(32, 7).toString('base64') });
  assert.deepEqual(
    [other.status, /^POSTRIDER_SECRET_KEY is not the secret key of this database/.test(other.message)],
    ['fail', true],
  );
  for (const text of ['', 'nonsense', Buffer.alloc(32, 7).toString('base64')]) {
    writeFileSync(file, text);
    assert.equal((await found()).status, 'fail', JSON.stringify(text));
  }
  writeFileSync(file, `${key}\n`);
  assert.equal((await check('secret key')).status, 'ok');
});

test('no key is required before the first start', async (t) => {
  const { run } = commandFolder(t);
  assert.equal((await run(['migrate'])).code, 0);
  const { stdout } = await run(['doctor', '--offline']);
  assert.match(stdout, /^ok {4}secret key: /m);
});

test('offline mode skips network checks, and otherwise the configured DNS is used', async (t) => {
  const { run } = await folderWithKey(t);
  const dns = await fakeDns({});
  t.after(() => dns.close());
  const settings = {
    POSTRIDER_DNS_SERVERS: dns.server,
    POSTRIDER_SMTP_HOSTNAME: 'mail.shop.example',
    POSTRIDER_DOCTOR_DOMAINS: 'big.example',
    POSTRIDER_DOCTOR_BLOCKLISTS: 'list.example',
    POSTRIDER_DOCTOR_CLOCK_URL: 'http://clock.example',
  };
  const off = [
    await run(['doctor', '--offline'], settings),
    await run(['doctor'], { ...settings, POSTRIDER_DOCTOR_NETWORK: 'off' }),
  ];
  for (const { stdout } of off) assert.match(stdout, /^skip {2}network: skipped: DNS/m);
  assert.equal(dns.questions.length, 0);
  const { stdout, code } = await run(['doctor'], settings);
  assert.equal(code, 1);
  for (const name of ['DNS', 'port 25', 'HELO name', 'reverse DNS', 'clock', 'domain shop.example']) {
    assert.match(stdout, new RegExp(`^(warn|fail|skip)  ${name}:`, 'm'), name);
  }
  for (const asked of ['MX big.example', 'A mail.shop.example', 'A clock.example', 'TXT shop.example']) {
    assert.ok(
      dns.questions.some((one) => one === asked),
      asked,
    );
  }
});

test('invalid doctor settings end with one line', async (t) => {
  const { run } = commandFolder(t);
  const wrong = {
    POSTRIDER_DOCTOR_NETWORK: 'maybe',
    POSTRIDER_DOCTOR_DOMAINS: 'gmail.com,,a b',
    POSTRIDER_DOCTOR_BLOCKLISTS: 'http://list.example',
    POSTRIDER_DOCTOR_CLOCK_URL: 'ntp.example',
  };
  for (const [name, value] of Object.entries(wrong)) {
    const { code, stderr } = await run(['doctor'], { [name]: value });
    assert.notEqual(code, 0, name);
    assert.match(stderr, new RegExp(`${name}="${value}" is not valid; allowed: `));
  }
});
