/** Records of `_smtp._tls`, as people write them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reportAddresses } from './record.ts';

const uris = (...texts: string[]): string[] => reportAddresses(texts).map(({ uri }) => uri);

test('addresses of both kinds are parsed, in one or several fields, with any whitespace', () => {
  assert.deepEqual(uris('v=TLSRPTv1; rua=mailto:a@x.example'), ['mailto:a@x.example']);
  assert.deepEqual(uris('v=TLSRPTv1;rua=mailto:a@x.example , https://x.example/v1?a=b=c ;'), [
    'mailto:a@x.example',
    'https://x.example/v1?a=b=c',
  ]);
  assert.deepEqual(uris('v=TLSRPTv1 ; foo=bar; rua = mailto:a@x.example; rua=mailto:b@x.example'), [
    'mailto:a@x.example',
    'mailto:b@x.example',
  ]);
  assert.deepEqual(uris('v=spf1 -all', 'v=TLSRPTv1; rua=mailto:a@x.example', 'v=TLSRPTv2; rua=mailto:b@x.example'), [
    'mailto:a@x.example',
  ]);
});

test('a mailto address is decoded', () => {
  const [encoded] = reportAddresses(['v=TLSRPTv1; rua=mailto:tls%21reports%2Ba@X.example?subject=x']);
  assert.equal(encoded?.kind === 'mail' && encoded.address.address, 'tls!reports+a@x.example');
});

test('returns nothing for invalid or duplicate records or unreachable addresses', () => {
  for (const texts of [
    [],
    ['v=TLSRPTv1'],
    ['v=tlsrptv1; rua=mailto:a@x.example'],
    ['rua=mailto:a@x.example; v=TLSRPTv1;'],
    ['v=TLSRPTv1; rua=mailto:a@x.example', 'v=TLSRPTv1; rua=mailto:b@x.example'],
    ['v=TLSRPTv1; rua=http://x.example/'],
    ['v=TLSRPTv1; rua=ftp://x.example/,mailto:nobody,mailto:%zz@x.example,https://'],
    ['v=TLSRPTv1; rua=mailto:a@x.example%0d%0aBcc:%20b@x.example'],
  ]) {
    assert.deepEqual(reportAddresses(texts), [], texts.join(' | '));
  }
});

test('returns each address once, up to ten', () => {
  const many = Array.from({ length: 50 }, (_, index) => `mailto:${index}@x.example`);
  assert.equal(uris(`v=TLSRPTv1; rua=${many.join()}`).length, 10);
  assert.deepEqual(uris('v=TLSRPTv1; rua=mailto:a@x.example,mailto:a@x.example'), ['mailto:a@x.example']);
});
