/** Recipients at the return path of a sending domain, before and after the domain was found to belong to a customer. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { newId } from '../base/ids.ts';
import type { ReturnPathState } from '../domains/domains.ts';
import { createTokenAddresses } from '../mail/token-address.ts';
import { createRecipients } from './recipients.ts';

test('a token is accepted at every return path, a name only at that of a customer', async () => {
  const nowMs = Date.UTC(2026, 0, 1);
  const tokens = createTokenAddresses(randomBytes(32));
  const token = tokens.make('bounce', { messageId: newId('msg', nowMs), isShared: false }, nowMs);
  const kindsAt = async (state: ReturnPathState) => {
    const recipients = createRecipients({
      tokens,
      clock: { now: () => nowMs },
      bounceDomain: 'bounces.example',
      hostname: 'postrider.test',
      returnPathState: async () => state,
      findRoute: async () => undefined,
    });
    const kindOf = async (local: string) =>
      (await recipients.find({ local, domain: 'bounces.shop.example' }))?.use.kind;
    return [await kindOf(token), await kindOf('abuse'), await kindOf('postmaster')];
  };
  assert.deepEqual(await kindsAt('confirmed'), ['return-path', 'abuse', 'postmaster']);
  assert.deepEqual(await kindsAt('unconfirmed'), ['return-path', undefined, undefined]);
  assert.deepEqual(await kindsAt('none'), [undefined, undefined, undefined]);
});
