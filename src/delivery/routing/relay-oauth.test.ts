/** Delivery through a relay that requires an access token, counted at the relay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { relayRig } from '../../../test/kit/relay-rig.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { webhookCatcher } from '../../../test/kit/webhook-catcher.ts';
import { createTokenSource } from '../../net/access-tokens.ts';
import { openDns } from '../../net/dns.ts';
import { openSourceAddresses } from '../../net/source-addresses.ts';

test('mail waits while no token is issued or accepted, and is delivered with a new token', async (t) => {
  const provider = await webhookCatcher({
    script: { status: 401, headers: { 'content-type': 'application/json' }, body: '{"error":"invalid_client"}' },
  });
  t.after(() => provider.close());
  const dns = openDns({ servers: [], timeoutMs: 500 });
  t.after(() => dns.close());
  const valid = new Set<string>();
  const oauth = {
    user: 'noreply@example.com',
    tokenUrl: `${provider.url}/token`,
    clientId: 'id',
    clientSecret: 'secret',
  };
  let nowMs = 0;
  const source = createTokenSource(oauth, () => nowMs);
  const relay = { host: '127.0.0.1', port: 0, implicitTls: false, oauth };
  const routing = {
    route: { kind: 'relay' as const, relay },
    tokensOf: () => source,
    dns,
    sources: openSourceAddresses([]),
  };
  const sinkOptions = {
    oauth: { user: oauth.user, mechanism: 'XOAUTH2' as const, isValid: (token: string) => valid.has(token) },
  };
  const { sink, rig } = await relayRig(t, sinkOptions, { routing });
  relay.port = sink.port;

  const [id] = await rig.send({ to: ['ann@example.org'] });
  await waitUntil('the first attempt', () => rig.attempts(id!).length === 1);
  const lastReply = (): string => JSON.stringify(rig.attempts(id!).at(-1));
  assert.match(lastReply(), /issued no access token: invalid_client/);
  assert.equal(sink.commands.filter((line) => line.startsWith('AUTH') || line.startsWith('MAIL')).length, 0);

  provider.answer(() => ({
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ access_token: `token${provider.requests.length}`, token_type: 'Bearer', expires_in: 3_600 }),
  }));
  const retry = async (count: number): Promise<void> => {
    rig.clock.advance(3_600_000);
    rig.delivery.nudge();
    await waitUntil(`attempt ${count}`, () => rig.attempts(id!).length >= count || rig.status(id!) === 'delivered');
  };
  nowMs += 10_000;
  await retry(2);
  assert.match(lastReply(), /535 5\.7\.3 Authentication unsuccessful/);
  valid.add('token3');
  await retry(3);
  await waitUntil('the delivery', () => rig.status(id!) === 'delivered');
  assert.equal(sink.messages.length, 1);
  assert.equal(sink.messages[0]!.auth, 'noreply@example.com');
  assert.deepEqual(sink.violations, []);
});
