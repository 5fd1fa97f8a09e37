/** Which parts of a refusal are kept, and which never are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Detail } from '../base/failure.ts';
import { newId, randomText } from '../base/ids.ts';
import { redactDetails, redactMessage, redactPath, redactUserAgent } from './redact.ts';

const detailsOf = (...details: Detail[]): Detail[] => JSON.parse(redactDetails(details)) as Detail[];

test('secrets are redacted anywhere, but IDs and ordinary words are kept', () => {
  const id = newId('msg');
  for (const secret of [
    `pr_live_${randomText(21)}_${randomText(32)}`,
    'pr_test_x',
    `pr_operator_${randomText(21)}_${randomText(32)}`,
    `whsec_${randomText(32)}`,
    'aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE',
    Buffer.from('user\0password-1').toString('base64'),
  ]) {
    const kept = redactMessage(`The value ${secret}, of ${id}, is not known.`);
    assert.equal(kept, `The value …, of ${id}, is not known.`);
  }
  const plain = 'Use company_registration_number_html of GET /account, at most 2,000,000 bytes.';
  assert.equal(redactMessage(plain), plain);
});

test('a secret ends where its characters end, and a prefix alone is no secret', () => {
  const ours = 'This call requires a sandbox key (pr_test_…); this key is live.';
  assert.equal(redactMessage(ours), ours);
  for (const secret of [`pr_test_${randomText(21)}_${randomText(32)}`, 'pr_live_x', `whsec_${randomText(8)}+/=`])
    assert.equal(redactMessage(`the key (${secret}); send another`), 'the key (…); send another');
});

test('removes quoted request values and template sources', () => {
  assert.equal(redactMessage('is not "my secret": a list'), 'is not "…": a list');
  assert.deepEqual(
    detailsOf({
      field: 'html',
      code: 'TEMPLATE_INVALID',
      message: 'is not a valid template: tag s3cret\nnot found (line 2, column 7)',
      line: 2,
    }),
    [{ field: 'html', code: 'TEMPLATE_INVALID', message: 'is not a valid template (line 2, column 7)', line: 2 }],
  );
  assert.equal(
    redactMessage('html has an invalid tag {% s3cret %}: there is no tag s3cret (line 1, column 1). Fix it.'),
    'html has an invalid tag (line 1, column 1). Fix it.',
  );
});

test('texts are short, well-formed, and storable in every database', () => {
  const long = redactMessage(`\0${'ö'.repeat(5_000)}\ud800`);
  assert.ok(Buffer.byteLength(long) < 1_010 && long.isWellFormed() && long.endsWith('ö…'), long.slice(-5));
  assert.equal(redactMessage('a\0b\r\nc\ud800'), 'a b c\ufffd');
  const many = redactDetails(
    Array.from({ length: 100 }, () => ({
      field: 'x'.repeat(5_000),
      code: 'INVALID_VALUE' as const,
      message: 'ü'.repeat(900),
    })),
  );
  assert.ok(Buffer.byteLength(many) <= 2_500);
  assert.ok((JSON.parse(many) as Detail[]).length >= 5);
});

test('a path has the ids of its parameters, and no other values', () => {
  const [message, other] = [newId('msg'), newId('dom')];
  assert.equal(redactPath('/messages/:id/content', { id: message }), `/messages/${message}/content`);
  assert.equal(redactPath('/a/:one/:two', { one: other, two: 'ann@example.com' }), `/a/${other}/:two`);
  for (const value of ['ann@example.com', `pr_live_${randomText(21)}`, `${message}x`, 'shop.example'])
    assert.equal(redactPath('/suppressions/:email', { email: value }), undefined);
  assert.equal(redactPath('/send', {}), undefined);
});

test('user agents are short, and without addresses', () => {
  assert.equal(
    redactUserAgent('Shop/1.2 (+https://shop.example; ops@shop.example)'),
    'Shop/1.2 (+https://shop.example; …)',
  );
  assert.equal(redactUserAgent('axios/1.7.9'), 'axios/1.7.9');
  assert.ok(Buffer.byteLength(redactUserAgent('ö'.repeat(5_000))) <= 204);
});
