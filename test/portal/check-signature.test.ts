/** The causes that the signature checker reports, for requests signed by the service: the headers, the clock, the secret, or the body. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { checkSignature, type GivenRequest } from '../../portal/src/pages/webhooks/check-signature.ts';
import { newSecret, secretKeyOf, signatureOf, signedHeaders } from '../../src/webhooks/sign.ts';

const nowMs = Date.UTC(2026, 10, 20, 9, 44);
const nowSeconds = nowMs / 1000;
const secret = newSecret();
const body = JSON.stringify({ eventId: 'evt_1', subject: 'Grüße – 100 % "fein"', delivery: { reply: '250 OK' } });

const lines = (headers: Record<string, string>): string =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n');
const signed = (atMs = nowMs, keys = [secretKeyOf(secret)!]) =>
  signedHeaders({ id: 'evt_1', body }, keys, atMs) as Record<string, string>;

/** The finding and the mismatch for a genuine request with some parts changed. */
async function checked(change: Partial<GivenRequest>, atSeconds = nowSeconds): Promise<string[]> {
  const { finding, ...parts } = await checkSignature({ headers: lines(signed()), body, secret, ...change }, atSeconds);
  const { headers, clock, secret: ofSecret, body: ofBody } = parts;
  const wrong = [headers, clock, ofSecret, ofBody].filter(({ state }) => state !== 'right');
  return [finding, ...wrong.map(({ code, about }) => (about === undefined ? code : `${code}: ${about}`))];
}

test('a genuine request is valid, however its headers are written', async () => {
  const headers = signed();
  const written = [
    lines(headers),
    JSON.stringify(headers),
    JSON.stringify(headers, null, 2),
    Object.entries(headers)
      .map(([name, value]) => `< ${name.toUpperCase()}: ${value}\r`)
      .join('\n'),
    JSON.stringify(Object.entries(headers).flat()),
    Object.entries(headers)
      .map(([name, value]) => `[HTTP_${name.toUpperCase().replace('-', '_')}] => ${value}`)
      .join('\n'),
    JSON.stringify({ ...headers, 'webhook-timestamp': nowSeconds }),
  ];
  for (const one of written) assert.deepEqual(await checked({ headers: one }), ['genuine'], one);
  for (const given of [`"${secret}"`, ` ${secret}\n`, secret.slice(6)])
    assert.deepEqual(await checked({ secret: given }), ['genuine'], given);
});

test('during a rotation either secret is valid', async () => {
  const next = newSecret();
  const headers = lines(signed(nowMs, [secretKeyOf(next)!, secretKeyOf(secret)!]));
  assert.deepEqual(await checked({ headers }), ['genuine']);
  assert.deepEqual(await checked({ headers, secret: next }), ['genuine']);
});

test("the receiver's expected signature is that of the pasted request", async () => {
  const changed = `${body} `;
  const { expected } = await checkSignature({ headers: lines(signed()), body: changed, secret }, nowSeconds);
  const signature = signatureOf({ id: 'evt_1', timestampSeconds: nowSeconds, body: changed }, [secretKeyOf(secret)!]);
  assert.equal(expected, signature);
});

test('missing, cut, or unknown headers are reported by name', async () => {
  const { 'webhook-timestamp': time, 'webhook-signature': signature, ...rest } = signed();
  const cases: [string, ...string[]][] = [
    [
      'content-type: application/json',
      'headers-missing: webhook-id, webhook-timestamp, webhook-signature',
      'clock-none',
    ],
    [lines({ ...rest, 'webhook-timestamp': time! }), 'headers-missing: webhook-signature'],
    [lines({ ...signed(), 'webhook-signature': `sha256=${signature!.slice(3)}` }), 'headers-no-v1'],
    [lines({ ...signed(), 'webhook-signature': signature!.slice(0, -4) }), 'headers-cut'],
    [lines({ ...signed(), 'webhook-timestamp': 'yesterday' }), 'clock-no-number'],
    [lines({ ...signed(), 'webhook-timestamp': `${time}000` }), 'clock-milliseconds'],
  ];
  for (const [headers, ...wrong] of cases)
    assert.deepEqual(await checked({ headers }), ['headers', ...wrong, 'secret-formed', 'body-untouched'], headers);
});

test('a timestamp is valid within five minutes in either direction', async () => {
  for (const seconds of [-300, 0, 300]) assert.deepEqual(await checked({}, nowSeconds + seconds), ['genuine']);
  assert.deepEqual(await checked({}, nowSeconds + 301), ['stale', 'clock-old: 301']);
  assert.deepEqual(await checked({}, nowSeconds - 301), ['stale', 'clock-future: 301']);
});

test('a secret is malformed or a different one', async () => {
  const cases: [string, string][] = [
    ['pr_live_abcdefgh', 'secret-api-key'],
    ['whsec_not base64!', 'secret-not-base64'],
    [`whsec_${Buffer.alloc(16).toString('base64')}`, 'secret-length: 16'],
  ];
  for (const [given, code] of cases)
    assert.deepEqual(await checked({ secret: given }), ['secret', code, 'body-untouched']);
  assert.deepEqual(await checked({ secret: newSecret() }), ['secret', 'secret-other', 'body-untouched']);
});

test('a body changed in transit is detected, with the kind of change', async () => {
  const value = JSON.parse(body) as object;
  const asLatin1 = Buffer.from(body).toString('latin1');
  const ascii = body.replace(/[^\0-\x7f]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const cases: [string, string][] = [
    [JSON.stringify(value, null, 2), 'body-reprinted'],
    [ascii, 'body-reprinted'],
    [body.replaceAll('":', '": ').replaceAll(',"', ', "'), 'body-reprinted'],
    [`${body}\n`, 'body-trimmed'],
    [JSON.stringify(body), 'body-quoted'],
    [asLatin1, 'body-encoding'],
  ];
  for (const [given, code] of cases) assert.deepEqual(await checked({ body: given }), ['body', code], given);
  const ends = lines(
    signedHeaders({ id: 'evt_1', body: `${body}\n` }, [secretKeyOf(secret)!], nowMs) as Record<string, string>,
  );
  assert.deepEqual(await checked({ headers: ends }), ['body', 'body-untrimmed']);
});

test('a mismatch is explained by the text of the body', async () => {
  const unknown = 'secret-formed';
  assert.deepEqual(await checked({ body: body.slice(0, 40) }), ['body', unknown, 'body-no-json']);
  assert.deepEqual(await checked({ body: '[object Object]' }), ['body', unknown, 'body-no-json']);
  const other = body.replace('evt_1', 'evt_2');
  assert.deepEqual(await checked({ body: other }), ['body', unknown, 'body-other-event: evt_2']);
  const printed = JSON.stringify(JSON.parse(body), null, 1);
  assert.deepEqual(await checked({ body: printed, secret: newSecret() }), ['both', unknown, 'body-rewritten']);
});

test('empty fields are not errors', async () => {
  assert.deepEqual(await checked({ headers: '', body: '', secret: '' }), [
    'incomplete',
    'headers-none',
    'clock-none',
    'secret-none',
    'body-none',
  ]);
  assert.deepEqual(await checked({ secret: '' }), ['incomplete', 'secret-none', 'body-untouched']);
  assert.deepEqual(await checked({ body: '' }), ['incomplete', 'secret-formed', 'body-none']);
});

test('the receiver code is the same as in the guide, which is tested', () => {
  const root = path.resolve(import.meta.dirname, '../..');
  const guide = readFileSync(path.join(root, 'docs/guides/webhooks.md'), 'utf8');
  for (const [name, language] of Object.entries({ node: 'js', python: 'python', php: 'php', go: 'go' })) {
    const code = readFileSync(path.join(root, `portal/src/pages/webhooks/verify/${name}.txt`), 'utf8');
    assert.ok(guide.includes(`\`\`\`${language}\n${code}\`\`\``), name);
  }
});
