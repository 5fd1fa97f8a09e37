/** Sender domains: names, records, verification against a scripted DNS, coverage of subdomains, sealed keys. */
import assert from 'node:assert/strict';
import { createPublicKey, randomBytes, sign, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { type TestContext } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { foundAnswer } from '../../test/kit/fake-dns.ts';
import { scriptedDns } from '../../test/kit/scripted-dns.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccountOperation } from '../accounts/store.ts';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { domainNoticesOperation } from './check-store.ts';
import {
  addDomain,
  createDkimKeyring,
  createSenderCheck,
  knownRecords,
  senderDomainName,
  verifyDomain,
} from './domains.ts';
import { deleteDomainOperation, domainOperation } from './store.ts';
import { rotateKeys } from './verify.ts';

const HOST = 'mail.sender.test';

async function setup(t: TestContext) {
  const temp = await tempDatabase();
  t.after(temp.close);
  const clock = fakeClock();
  for (const id of ['acc_a', 'acc_b']) {
    await temp.database.execute(createAccountOperation, {
      account: {
        id,
        name: id,
        plan: 'paid',
        status: 'active',
        approvedEmailBytes: 2_000_000,
        limits: {},
        protectionStatus: 'good',
        twoFactorRequired: false,
        timeZone: 'UTC',
        settings: { variables: {}, missingVariables: 'error', retainContent: '30d', defaultFrom: null },
        createdAt: clock.now(),
      },
      keys: [],
    });
  }
  const secretKey = randomBytes(32);
  const add = async (domain: string, verified = false, accountId = 'acc_a') => {
    const added = await addDomain({ database: temp.database, clock, secretKey }, { accountId, domain, verified });
    assert.ok(added.ok);
    return added.value;
  };
  return { ...temp, clock, secretKey, add };
}

test('sender domain names are validated', () => {
  const good: [string, string][] = [
    ['Example.COM', 'example.com'],
    ['example.com.', 'example.com'],
    ['a.b-c.example', 'a.b-c.example'],
    ['bücher.de', 'xn--bcher-kva.de'],
    ['example.co.uk', 'example.co.uk'],
  ];
  for (const [typed, kept] of good) assert.deepEqual(senderDomainName(typed), { ok: true, domain: kept });
  const bad = [
    '',
    'com',
    '.com',
    'a..b',
    '-a.com',
    'a-.com',
    'a_b.com',
    'co.uk',
    'com.au',
    '127.0.0.1',
    '[::1]',
    '::1',
    'a@b.com',
    'a b.com',
    'a.com/x',
    'a.1',
    `${'a'.repeat(64)}.com`,
    `${'a.'.repeat(120)}com`,
    'a\n.com',
    'x.c\0m',
  ];
  for (const typed of bad) assert.equal(senderDomainName(typed).ok, false, JSON.stringify(typed));
});

test('adding a domain is idempotent and creates two keys, encrypted on disk', async (t) => {
  const { add, database, folder, secretKey, clock } = await setup(t);
  const first = await add('Example.com');
  assert.equal(first.created, true);
  assert.equal(first.domain.status, 'pending');
  assert.deepEqual(
    first.domain.keys.map((key) => key.algorithm),
    ['rsa', 'ed25519'],
  );
  const again = await add('example.com');
  assert.equal(again.created, false);
  assert.deepEqual(again.domain, first.domain);
  const forced = await add('example.com', true);
  assert.equal(forced.domain.status, 'verified');
  assert.deepEqual(forced.domain.keys, first.domain.keys);
  const foreign = await add('example.com', false, 'acc_b');
  assert.equal(foreign.created, true);
  assert.notEqual(foreign.domain.keys[0]?.selector, first.domain.keys[0]?.selector);
  const unknown = await addDomain(
    { database, clock, secretKey },
    { accountId: 'acc_0', domain: 'x.com', verified: false },
  );
  assert.ok(!unknown.ok && unknown.failure.code === 'NOT_FOUND');
  for (const name of ['postrider.db', 'postrider.db-wal']) {
    assert.ok(!readFileSync(path.join(folder, name)).includes('PRIVATE KEY'));
  }
});

test('the RSA record determines the status, and a failed DNS lookup changes nothing', async (t) => {
  const { add, database, clock } = await setup(t);
  const { domain } = await add('example.com');
  const records = new Map<string, DnsAnswer<string[]>>();
  const verifying = { database, clock, dns: scriptedDns(records), sendingHost: HOST };
  const check = async () => {
    const current = await database.execute(domainOperation, { id: domain.id, accountId: null });
    assert.ok(current);
    const result = await verifyDomain(verifying, current);
    const stored = await database.execute(domainOperation, { id: domain.id, accountId: 'acc_a' });
    assert.equal(stored?.status, result.status);
    assert.equal(stored?.checkedAt, clock.now());
    return result;
  };
  const [rsa, ed] = domain.keys;
  assert.ok(rsa && ed);
  const rsaName = `${rsa.selector}._domainkey.example.com`;

  const missing = await check();
  assert.deepEqual([missing.success, missing.status], [false, 'pending']);
  assert.ok(missing.message.includes(rsaName));
  assert.deepEqual(new Set(missing.records.map((record) => record.status)), new Set(['missing']));

  records.set(rsaName, foundAnswer([ed.publicKey]));
  assert.match((await check()).message, /a different key/);
  records.set(rsaName, foundAnswer([rsa.publicKey.slice(0, -20)]));
  assert.equal((await check()).success, false);

  records.set(rsaName, foundAnswer(['unrelated', ` v=DKIM1;k=rsa ;p= ${rsa.publicKey.split('p=')[1]}`]));
  records.set('example.com', foundAnswer(['v=spf1 -all']));
  records.set('_dmarc.example.com', foundAnswer(['v=DMARC1; p=reject']));
  const found = await check();
  assert.deepEqual([found.success, found.status], [true, 'verified']);
  assert.deepEqual(
    found.records.map((record) => record.status),
    ['verified', 'missing', 'different', 'verified'],
  );

  records.set(rsaName, { status: 'temporary', cause: 'ESERVFAIL' });
  const silent = await check();
  assert.deepEqual([silent.success, silent.status], [false, 'verified']);
  records.delete(rsaName);
  assert.equal((await check()).status, 'failing');
  const failing = await database.execute(domainOperation, { id: domain.id, accountId: null });
  assert.ok(failing);
  assert.equal(knownRecords(failing, { sendingHost: HOST })[0]?.status, 'missing');
});

test('a verified domain covers its subdomains, for its own account only, until it is deleted', async (t) => {
  const { add, database, clock, secretKey } = await setup(t);
  const sender = createSenderCheck({ database, clock });
  const keyring = createDkimKeyring({ database, clock, secretKey });
  assert.equal(await sender.isVerified('acc_a', 'example.com'), false);
  const parent = await add('example.com', true);
  const child = await add('deep.mail.example.com', true);
  await add('pending.test');
  const covered: [string, string, string | undefined][] = [
    ['acc_a', 'example.com', 'example.com'],
    ['acc_a', 'mail.example.com', 'example.com'],
    ['acc_a', 'x.deep.mail.example.com', 'deep.mail.example.com'],
    ['acc_a', 'notexample.com', undefined],
    ['acc_a', 'com', undefined],
    ['acc_a', '', undefined],
    ['acc_a', 'pending.test', undefined],
    ['acc_b', 'example.com', undefined],
  ];
  for (const [accountId, domain, expected] of covered) {
    assert.equal(await sender.isVerified(accountId, domain), expected !== undefined, `${accountId} ${domain}`);
    assert.equal((await keyring.keysFor(accountId, domain))?.domain, expected, `${accountId} ${domain}`);
  }

  const signing = await keyring.keysFor('acc_a', 'x.deep.mail.example.com');
  assert.deepEqual(
    signing?.keys.map((key) => [key.algorithm, key.selector]),
    [['rsa', child.domain.keys[0]!.selector]],
    'the DNS was never queried for the Ed25519 key',
  );
  const [rsa] = signing?.keys ?? [];
  assert.ok(rsa);
  const published = `${child.domain.keys[0]?.publicKey.split('p=')[1]}`;
  const publicKey = createPublicKey({ key: Buffer.from(published, 'base64'), format: 'der', type: 'spki' });
  const text = Buffer.from('text');
  assert.ok(verify('sha256', text, publicKey, sign('sha256', text, rsa.privateKey)));

  await database.execute(deleteDomainOperation, { id: parent.domain.id, accountId: 'acc_b' });
  clock.advance(5_000);
  assert.equal(await sender.isVerified('acc_a', 'example.com'), true);
  await database.execute(deleteDomainOperation, { id: parent.domain.id, accountId: 'acc_a' });
  clock.advance(1_000);
  assert.equal(await sender.isVerified('acc_a', 'example.com'), false);
  assert.equal(await keyring.keysFor('acc_a', 'mail.example.com'), undefined);
});

test('a message is signed with Ed25519 if the last check found the key', async (t) => {
  const { add, database, clock, secretKey } = await setup(t);
  const keyring = createDkimKeyring({ database, clock, secretKey });
  const { domain } = await add('example.com');
  const [rsa, ed] = domain.keys;
  const records = new Map<string, DnsAnswer<string[]>>();
  const verifying = { database, clock, dns: scriptedDns(records), sendingHost: HOST };
  const algorithms = async () => (await keyring.keysFor('acc_a', 'example.com'))?.keys.map((key) => key.algorithm);
  const check = async () => {
    clock.advance(1_000);
    const current = await database.execute(domainOperation, { id: domain.id, accountId: null });
    await verifyDomain(verifying, current!);
    return algorithms();
  };
  const nameOf = (key: { selector: string }): string => `${key.selector}._domainkey.example.com`;
  records.set(nameOf(rsa!), foundAnswer([rsa!.publicKey]));
  assert.deepEqual(await check(), ['rsa']);
  records.set(nameOf(ed!), foundAnswer([ed!.publicKey]));
  assert.deepEqual(await check(), ['rsa', 'ed25519']);
  records.set(nameOf(ed!), { status: 'temporary', cause: 'ETIMEOUT' });
  assert.deepEqual(await check(), ['rsa', 'ed25519'], 'an unresponsive DNS changes nothing');
  records.set(nameOf(ed!), foundAnswer([rsa!.publicKey]));
  assert.deepEqual(await check(), ['rsa'], 'another key');
  records.set(nameOf(ed!), foundAnswer([ed!.publicKey, rsa!.publicKey]));
  assert.deepEqual(await check(), ['rsa'], 'two keys at one selector');
  records.set(nameOf(ed!), foundAnswer([ed!.publicKey]));
  assert.deepEqual(await check(), ['rsa', 'ed25519']);
  records.delete(nameOf(ed!));
  records.delete(nameOf(rsa!));
  assert.deepEqual(await check(), ['rsa'], 'a failing domain still signs with RSA');
  // Another process verified it: this takes effect within a second, although the keys are cached.
  const other = { ...verifying, database: { ...database, execute: database.execute.bind(database) } };
  records.set(nameOf(ed!), foundAnswer([ed!.publicKey]));
  records.set(nameOf(rsa!), foundAnswer([rsa!.publicKey]));
  const current = await database.execute(domainOperation, { id: domain.id, accountId: null });
  await verifyDomain(other, current!);
  clock.advance(1_000);
  assert.deepEqual(await algorithms(), ['rsa', 'ed25519']);
});

test('a domain that an operator verified is listed as such until its DNS is checked', async (t) => {
  const { add, database, clock } = await setup(t);
  const { domain } = await add('example.com', true);
  const [rsa, ed] = domain.keys;
  const [known, other] = knownRecords(domain, { sendingHost: HOST });
  assert.deepEqual([domain.status, known!.status, other!.status], ['verified', 'pending', 'pending']);
  assert.match(known!.note!, /operator marked this domain as verified without a DNS check/);
  const records = new Map<string, DnsAnswer<string[]>>([
    [`${rsa!.selector}._domainkey.example.com`, foundAnswer([rsa!.publicKey])],
  ]);
  await verifyDomain({ database, clock, dns: scriptedDns(records), sendingHost: HOST }, domain);
  const checked = await database.execute(domainOperation, { id: domain.id, accountId: null });
  assert.deepEqual(
    knownRecords(checked!, { sendingHost: HOST }).map((one) => [one.status, one.note]),
    [
      ['verified', null],
      ['missing', null],
      ['pending', null],
      ['pending', null],
    ],
  );
  assert.equal(ed!.publishedAt, null);
});

test('a domain that an operator verified stays verified until its record was found once', async (t) => {
  const { add, database, clock } = await setup(t);
  const { domain } = await add('example.com', true);
  const [rsa, ed] = domain.keys;
  const records = new Map<string, DnsAnswer<string[]>>();
  const check = async () => {
    clock.advance(1_000);
    const current = await database.execute(domainOperation, { id: domain.id, accountId: null });
    const { success, message, status } = await verifyDomain(
      { database, clock, dns: scriptedDns(records), sendingHost: HOST },
      current!,
    );
    const stored = await database.execute(domainOperation, { id: domain.id, accountId: null });
    assert.equal(stored!.status, status);
    return { success, status, failingSince: stored!.failingSince, message };
  };
  const nameOf = (key: { selector: string }): string => `${key.selector}._domainkey.example.com`;
  const marked = { success: false, status: 'verified', failingSince: null };
  const { message, ...missing } = await check();
  assert.deepEqual(missing, marked);
  assert.match(message, /You can still send, because an operator marked the domain as verified\.$/);
  // The record of the Ed25519 key does not decide.
  records.set(nameOf(ed!), foundAnswer([ed!.publicKey]));
  const { message: _, ...undecided } = await check();
  assert.deepEqual(undecided, marked);
  records.set(nameOf(rsa!), foundAnswer([ed!.publicKey]));
  const { message: __, ...different } = await check();
  assert.deepEqual(different, marked);
  records.set(nameOf(rsa!), foundAnswer([rsa!.publicKey]));
  assert.equal((await check()).success, true);
  records.delete(nameOf(rsa!));
  const lost = await check();
  assert.deepEqual([lost.success, lost.status, lost.failingSince], [false, 'failing', clock.now()]);
  assert.doesNotMatch(lost.message, /operator/);
});

/** Checks of one domain, each with the DNS as it was when the check started, and with changes while its lookups are in progress. */
async function overlappingChecks(t: TestContext) {
  const rig = await setup(t);
  const { database, clock, add } = rig;
  const { domain } = await add('example.com');
  const [rsa] = domain.keys;
  const current = async () => (await database.execute(domainOperation, { id: domain.id, accountId: null }))!;
  const check = async (isPublished: boolean, during: () => Promise<unknown> = async () => undefined) => {
    const records = new Map<string, DnsAnswer<string[]>>();
    if (isPublished) records.set(`${rsa!.selector}._domainkey.example.com`, foundAnswer([rsa!.publicKey]));
    const dns = scriptedDns(records);
    let isFirst = true;
    const resolveTxt: Dns['resolveTxt'] = async (name) => {
      const found = await dns.resolveTxt(name);
      if (isFirst) {
        isFirst = false;
        clock.advance(1_000);
        await during();
        clock.advance(1_000);
      }
      return found;
    };
    clock.advance(1_000);
    const checked = await verifyDomain(
      { database, clock, dns: { ...dns, resolveTxt }, sendingHost: HOST },
      await current(),
    );
    assert.equal(checked.status, (await current()).status);
    return checked.status;
  };
  const notices = async () => (await database.execute(domainNoticesOperation, 9)).map(({ kind }) => kind);
  return { ...rig, domain, current, check, notices };
}

test('a domain that an operator marks as verified during a check stays verified', async (t) => {
  const { add, check } = await overlappingChecks(t);
  const mark = () => add('example.com', true);
  assert.equal(await check(false, mark), 'verified', 'the check read it as pending');
  assert.equal(await check(true), 'verified');
  assert.equal(await check(false), 'failing');
  assert.equal(await check(false, mark), 'verified', 'the check read it as failing');
});

test('of overlapping checks, the one that started last decides', async (t) => {
  const { check, notices, current } = await overlappingChecks(t);
  assert.equal(await check(true), 'verified');
  assert.equal(await check(false, () => check(true)), 'verified', 'the earlier check ended last');
  assert.deepEqual([await notices(), (await current()).failingSince], [[], null]);
  let inner = Promise.resolve<unknown>(undefined);
  const outer = check(true, async () => {
    inner = check(false, () => outer);
  });
  assert.deepEqual([await outer, await inner], ['verified', 'failing'], 'the earlier check ended first');
  assert.deepEqual(await notices(), ['failing']);
});

test('a check is recorded although the clock was set back since the previous one', async (t) => {
  const { check, clock } = await overlappingChecks(t);
  assert.equal(await check(true), 'verified');
  clock.advance(-86_400_000);
  assert.equal(await check(false), 'failing');
});

test('a check is made again if the keys were rotated in the meantime', async (t) => {
  const { check, current, database, clock, secretKey } = await overlappingChecks(t);
  const rotating = { database, clock, secretKey, isNoticed: false };
  assert.equal(await check(true, async () => rotateKeys(rotating, await current())), 'verified');
  assert.equal((await current()).keys.length, 4);
});

test('an internationalized domain is one domain in either spelling', async (t) => {
  const { add, database, clock } = await setup(t);
  await add('bücher.example', true);
  const sender = createSenderCheck({ database, clock });
  assert.equal(await sender.isVerified('acc_a', 'bücher.example'), true);
  assert.equal(await sender.isVerified('acc_a', 'shop.xn--bcher-kva.example'), true);
});
