/** Access tokens of a relay, from a provider on loopback that counts its requests. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type CatcherScript, webhookCatcher } from '../../test/kit/webhook-catcher.ts';
import { createRelayTokens, createTokenSource } from './access-tokens.ts';

async function provider(t: TestContext, script?: CatcherScript) {
  const server = await webhookCatcher();
  t.after(() => server.close());
  const json = { 'content-type': 'application/json' };
  const issue = () => {
    const token = `token${server.requests.length}`;
    return { headers: json, body: JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3_600 }) };
  };
  server.answer(script ?? issue);
  const client = { tokenUrl: `${server.url}/token`, clientId: 'id', clientSecret: 's@cret &', scope: 'mail.send' };
  return { server, client, json, issue };
}

test('one request serves all sessions until shortly before the token ends', async (t) => {
  const { server, client } = await provider(t);
  let nowMs = 1_000;
  const source = createTokenSource(client, () => nowMs);
  assert.deepEqual(await Promise.all([source.get(), source.get(), source.get()]), ['token1', 'token1', 'token1']);
  assert.deepEqual(Object.fromEntries(new URLSearchParams(server.requests[0]!.body)), {
    grant_type: 'client_credentials',
    client_id: 'id',
    client_secret: 's@cret &',
    scope: 'mail.send',
  });
  nowMs += 3_300_000 - 1;
  assert.equal(await source.get(), 'token1');
  nowMs += 1;
  assert.equal(await source.get(), 'token2');
  assert.equal(server.requests.length, 2);
});

test('a token that the relay refused is replaced once, however many sessions report it', async (t) => {
  const { server, client } = await provider(t);
  const source = createTokenSource(client);
  const token = await source.get();
  source.reject(token);
  const next = source.get();
  source.reject(token);
  assert.equal(await next, 'token2');
  source.reject(token);
  assert.equal(await source.get(), 'token2');
  assert.equal(server.requests.length, 2);
});

test('a failure says why, and the provider is not asked again for some seconds', async (t) => {
  const { server, client, json, issue } = await provider(t, () => ({
    status: 401,
    headers: json,
    body: '{"error":"invalid_client","error_description":"the secret has expired"}',
  }));
  let nowMs = 1_000;
  const source = createTokenSource(client, () => nowMs);
  const reason = /^Error: 127\.0\.0\.1:\d+ issued no access token: invalid_client$/;
  await assert.rejects(source.get(), reason);
  nowMs += 4_999;
  await assert.rejects(source.get(), reason);
  assert.equal(server.requests.length, 1);
  server.answer(issue);
  nowMs += 1;
  assert.equal(await source.get(), 'token2');
});

test('answers that are no token are failures', async (t) => {
  const { server, client, json } = await provider(t);
  const answers = [
    { status: 500, body: 'oops' },
    { headers: json, body: '{}' },
    { headers: json, body: '{"access_token":"x","token_type":"mac"}' },
    { headers: { 'content-type': 'text/html' }, body: '<html>' },
    { reset: true },
  ];
  for (const answer of answers) {
    server.answer(answer);
    await assert.rejects(createTokenSource(client).get(), /issued no access token: ./, JSON.stringify(answer));
  }
});

test('a relay has one token source for all its sessions', () => {
  const tokensOf = createRelayTokens();
  const oauth = { tokenUrl: 'https://login.example/token', clientId: 'id', clientSecret: 'secret' };
  assert.equal(tokensOf({ oauth }), tokensOf({ oauth }));
  assert.equal(tokensOf({}), undefined);
});
