/** The advice of a dry run about the sender's domain, with a scripted DNS server. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import test from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FakeZone, fakeDns } from '../../test/kit/fake-dns.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createAccount } from '../accounts/accounts.ts';
import { openDns } from '../net/dns.ts';
import { recordCheckOperation } from './check-store.ts';
import { addDomain, createSenderAdvice } from './domains.ts';

const HOST = 'mail.sender.example';
const GOOD: FakeZone = {
  'shop.example': { TXT: [`v=spf1 a:${HOST} ~all`] },
  '_dmarc.shop.example': { TXT: ['v=DMARC1; p=reject; adkim=s'] },
};

test('advice covers missing or unpublished records, strict policies, and SPF failures', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const fake = await fakeDns();
  t.after(fake.close);
  const clock = fakeClock();
  const { account } = await createAccount({ database, clock }, { name: 'One', plan: 'paid' });
  const added = await addDomain(
    { database, clock, secretKey: randomBytes(32) },
    { accountId: account.id, domain: 'shop.example', verified: true },
  );
  assert.ok(added.ok);
  const { id, keys } = added.value.domain;
  const codes = async (from: string, zone: FakeZone, host: string | undefined = HOST) => {
    fake.zone = zone;
    const dns = openDns({ servers: [fake.server], timeoutMs: 10_000, tries: 1 });
    const advise = createSenderAdvice({ database, dns, sendingHost: host === 'relay' ? undefined : host });
    const warnings = await advise(account.id, from);
    dns.close();
    for (const { message, remedy } of warnings) assert.match(`${message} ${remedy}`, /\..*\S$/);
    return warnings.map(({ code }) => code).sort();
  };
  const check = (status: 'verified' | 'failing', isPublished: boolean) => {
    const found = [{ selector: keys[0]!.selector, isPublished, isEverywhere: isPublished }];
    return database.execute(recordCheckOperation, {
      id,
      status,
      nowMs: clock.now(),
      keys: found,
      isReturnPath: null,
      promotes: false,
    });
  };
  assert.deepEqual(await codes('shop.example', GOOD), ['DKIM_NOT_VERIFIED']);
  await check('verified', true);
  assert.deepEqual(await codes('shop.example', GOOD), []);
  assert.deepEqual(await codes('other.example', GOOD), [], 'the missing verification is reported separately');
  const child = { ...GOOD, 'news.shop.example': GOOD['shop.example']! };
  assert.deepEqual(await codes('news.shop.example', child), ['DKIM_NOT_ALIGNED']);
  const relaxed = { ...child, '_dmarc.news.shop.example': { TXT: ['v=DMARC1; p=none; adkim=r'] } };
  assert.deepEqual(await codes('news.shop.example', relaxed), [], 'its own policy applies');
  const alone = { ...relaxed, '_dmarc.shop.example': {} };
  assert.deepEqual(await codes('news.shop.example', alone), ['DKIM_NOT_ALIGNED'], 'a separate organization');
  const apart = { ...child, '_dmarc.news.shop.example': { TXT: ['v=DMARC1; p=none; psd=n'] } };
  assert.deepEqual(await codes('news.shop.example', apart), ['DKIM_NOT_ALIGNED'], 'psd=n');
  assert.deepEqual(await codes('shop.example', {}), ['RETURN_PATH_NOT_ALIGNED']);
  assert.deepEqual(await codes('shop.example', { 'shop.example': { TXT: ['v=spf1 -all'] } }), [
    'RETURN_PATH_NOT_ALIGNED',
  ]);
  assert.deepEqual(await codes('shop.example', {}, 'relay'), []);
  assert.deepEqual(await codes('shop.example', {}, 'localhost'), []);
  assert.deepEqual(await codes('shop.example', { 'shop.example': { fail: 'SERVFAIL' } }), []);
  const startedAt = performance.now();
  assert.deepEqual(await codes('shop.example', { 'shop.example': { fail: 'timeout' } }), []);
  assert.ok(performance.now() - startedAt < 6_000, 'an unresponsive DNS delays the response by three seconds');
  await check('failing', false);
  assert.deepEqual(await codes('shop.example', GOOD), ['DKIM_RECORD_GONE']);
});
