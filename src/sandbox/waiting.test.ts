/** Waiting for messages: each new message is matched against every waiting call. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { tempDatabase } from '../../test/kit/temp-database.ts';
import { createFollowers } from '../events/events.ts';
import { createWaitForMail } from './waiting.ts';

const SPELT: [recipient: string, asked: string[]][] = [
  ['deliv@bücher.example', ['deliv@xn--bcher-kva.example', 'DELIV@BÜCHER.example', 'deliv@bücher.example']],
  ['Ann@xn--mnchen-3ya.example', ['ann@münchen.example', 'ANN@XN--MNCHEN-3YA.EXAMPLE', ' "ann"@münchen.example']],
  ['Жанна@пример.example', ['жанна@пример.example', 'ЖАННА@ПРИМЕР.example', 'жанна@xn--e1afmkfd.example']],
];

test('finds a new message by any spelling of its address, or by its subject without case', async (t) => {
  const { database, close } = await tempDatabase();
  t.after(close);
  const waitForMail = createWaitForMail({ database, followers: createFollowers({ database, pollMs: 10 }) });
  const stop = new AbortController();
  const waitFor = async (to: string | null, subject: string | null = null) => {
    const begun = Promise.withResolvers<undefined>();
    const came = waitForMail({
      accountId: 'acc_a',
      filter: { to, subject, tag: null, sinceMs: null },
      signal: stop.signal,
      timeoutMs: 20_000,
      look: async () => begun.resolve(undefined) as undefined,
    });
    await begun.promise;
    return { to: to ?? subject!, came };
  };
  const others = await Promise.all(
    ['deliv@bucher.example', 'deliv', 'nn@münchen.example', 'анна@пример.example'].map((to) => waitFor(to)),
  );
  others.push(await waitFor(null, 'strasse'));
  const bySubject = await waitFor(null, 'ärger STRAß');
  for (const [recipient, asked] of SPELT) {
    const waiting = await Promise.all(asked.map((to) => waitFor(to)));
    const seeded = await seedMail(database, { accountId: 'acc_a', mode: 'sandbox', recipients: [recipient] });
    for (const { to, came } of waiting) assert.equal(await came, seeded.recipients[0]!.messageId, to);
  }
  const mail = { accountId: 'acc_a', mode: 'sandbox' as const, subject: 'ÄRGER Straße' };
  const seeded = await seedMail(database, mail);
  assert.equal(await bySubject.came, seeded.recipients[0]!.messageId);
  stop.abort();
  for (const { to, came } of others) assert.equal(await came, undefined, to);
});
