/**
 * The examples that AWS publishes for Signature Version 4: the walk-through of its documentation, and requests of its test suite
 * (AKIDEXAMPLE, 2015-08-30). The others are canonical forms of paths, queries, and headers.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import test from 'node:test';
import {
  amzDateOf,
  canonicalHeader,
  canonicalPath,
  canonicalQuery,
  canonicalRequest,
  isSignature,
  parseAuthorization,
  signingKey,
  stringToSign,
  timeOfAmzDate,
} from './signature.ts';

const SECRET = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY';
const DATE = '20150830T123600Z';
const scope = (service: string) => ({ date: '20150830', region: 'us-east-1', service });
const EMPTY = hash('sha256', '', 'hex');

test('the signing key and signature match the AWS example', () => {
  const key = signingKey(SECRET, scope('iam'));
  assert.equal(key.toString('hex'), 'c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9');
  const canonical = canonicalRequest(
    {
      method: 'GET',
      path: '/',
      search: 'Action=ListUsers&Version=2010-05-08',
      payloadHash: EMPTY,
      header: (name) =>
        ({
          'content-type': ['application/x-www-form-urlencoded; charset=utf-8'],
          host: ['iam.amazonaws.com'],
          'x-amz-date': [DATE],
        })[name],
    },
    ['content-type', 'host', 'x-amz-date'],
  );
  assert.equal(hash('sha256', canonical, 'hex'), 'f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59');
  const signed = stringToSign(canonical, DATE, scope('iam'));
  assert.ok(isSignature('5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7', key, signed));
  assert.ok(!isSignature('5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d8', key, signed));
});

type Headers = Record<string, string[]>;

test('requests of the AWS test suite have the expected signatures', () => {
  const cases: [name: string, method: string, target: string, headers: Headers, body: string, signature: string][] = [
    ['get-vanilla', 'GET', '/', {}, '', '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
    [
      'get-vanilla-query-order-key-case',
      'GET',
      '/?Param2=value2&Param1=value1',
      {},
      '',
      'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
    ],
    [
      'get-header-value-trim',
      'GET',
      '/',
      { 'my-header1': [' value1'], 'my-header2': [' "a   b   c"'] },
      '',
      'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
    ],
    [
      'get-header-key-duplicate',
      'GET',
      '/',
      { 'my-header1': ['value2', 'value2', 'value1'] },
      '',
      'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
    ],
    [
      'get-header-value-order',
      'GET',
      '/',
      { 'my-header1': ['value4', 'value1', 'value3', 'value2'] },
      '',
      '08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01',
    ],
    ['post-vanilla', 'POST', '/', {}, '', '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'],
    [
      'post-x-www-form-urlencoded',
      'POST',
      '/',
      { 'content-type': ['application/x-www-form-urlencoded'] },
      'Param1=value1',
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
    [
      'normalize-path: get-relative',
      'GET',
      '/example/..',
      {},
      '',
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    ],
    [
      'normalize-path: get-slashes',
      'GET',
      '//example//',
      {},
      '',
      '9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84',
    ],
  ];
  for (const [name, method, target, headers, body, signature] of cases) {
    const [path = '', search = ''] = target.split('?');
    const all: Headers = { ...headers, host: ['example.amazonaws.com'], 'x-amz-date': [DATE] };
    const canonical = canonicalRequest(
      { method, path, search, payloadHash: hash('sha256', body, 'hex'), header: (one) => all[one] },
      Object.keys(all).sort(),
    );
    const key = signingKey(SECRET, scope('service'));
    assert.ok(isSignature(signature, key, stringToSign(canonical, DATE, scope('service'))), `${name}\n${canonical}`);
  }
});

test('paths are normalized and encoded once more', () => {
  const cases: [path: string, canonical: string][] = [
    ['', '/'],
    ['/', '/'],
    ['/.', '/'],
    ['/./', '/'],
    ['/a/../b', '/b'],
    ['/../a', '/a'],
    ['//a//b//', '/a/b/'],
    ['/a/', '/a/'],
    ['/v2/email/identities/a%40b.example', '/v2/email/identities/a%2540b.example'],
    ['/v2/email/identities/a@b.example', '/v2/email/identities/a%40b.example'],
    ['/a%2Fb', '/a%252Fb'],
    ['/-._~', '/-._~'],
    ["/!*'()", '/%21%2A%27%28%29'],
    ['/a:b+c', '/a%3Ab%2Bc'],
  ];
  for (const [path, canonical] of cases) assert.equal(canonicalPath(path), canonical, path);
});

test('queries are decoded, encoded, and sorted by name and value', () => {
  const cases: [search: string, canonical: string][] = [
    ['', ''],
    ['a', 'a='],
    ['a=', 'a='],
    ['&a=1&&', 'a=1'],
    ['b=1&a=2&a=1&A=3', 'A=3&a=1&a=2&b=1'],
    ['a=x%20y', 'a=x%20y'],
    ['a=x+y', 'a=x%2By'],
    ['a=%2b%2B', 'a=%2B%2B'],
    ['a=1=2', 'a=1%3D2'],
    ['%C3%A9=%c3%a9', '%C3%A9=%C3%A9'],
    ['a=%zz%', 'a=%25zz%25'],
    ['a-b=1&a=2', 'a=2&a-b=1'],
    ['a=~-._/', 'a=~-._%2F'],
  ];
  for (const [search, canonical] of cases) assert.equal(canonicalQuery(search), canonical, search);
});

test('header values are trimmed and joined', () => {
  assert.equal(canonicalHeader(['  a   b\t c ']), 'a b c');
  assert.equal(canonicalHeader(['b', ' a ']), 'b,a');
  assert.equal(canonicalHeader([]), '');
});

test('an Authorization header is parsed strictly', () => {
  const signature = 'a'.repeat(64);
  const credential = 'AKIDEXAMPLE/20150830/eu-central-1/ses/aws4_request';
  const parsed = {
    ok: true,
    value: {
      accessKeyId: 'AKIDEXAMPLE',
      date: '20150830',
      region: 'eu-central-1',
      service: 'ses',
      signedHeaders: ['host', 'x-amz-date'],
      signature,
    },
  };
  for (const written of [
    `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=host;x-amz-date, Signature=${signature}`,
    `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=host;x-amz-date,Signature=${signature}`,
    `AWS4-HMAC-SHA256   Signature=${signature} , SignedHeaders=x-amz-date;host, Credential=${credential} `,
  ])
    assert.deepEqual(parseAuthorization(written), parsed, written);
  const refused: [header: string, reason: RegExp][] = [
    ['', /must use the algorithm AWS4-HMAC-SHA256/],
    ['Bearer x', /must use the algorithm AWS4-HMAC-SHA256, and not Bearer/],
    [`AWS4-ECDSA-P256-SHA256 Credential=${credential}`, /and not AWS4-ECDSA-P256-SHA256/],
    ['AWS4-HMAC-SHA256', /invalid part/],
    [`AWS4-HMAC-SHA256 Credential=${credential}`, /requires 'SignedHeaders' and 'Signature'/],
    [`AWS4-HMAC-SHA256 Credential=${credential}, Credential=${credential}`, /invalid part/],
    [
      `AWS4-HMAC-SHA256 Credential=AK/1/x/ses/aws4_request, SignedHeaders=a, Signature=${signature}`,
      /Credential of the form/,
    ],
    [
      `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=Host, Signature=${signature}`,
      /SignedHeaders in lower case/,
    ],
    [`AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=host, Signature=AB`, /Signature of 64/],
  ];
  for (const [header, reason] of refused) {
    const result = parseAuthorization(header);
    assert.ok(!result.ok, header);
    assert.match(result.reason, reason);
  }
});

test('times are read and written as X-Amz-Date', () => {
  assert.equal(timeOfAmzDate(DATE), Date.parse('2015-08-30T12:36:00Z'));
  assert.equal(amzDateOf(Date.parse('2015-08-30T12:36:00.999Z')), DATE);
  for (const text of ['', '2015-08-30T12:36:00Z', '20151330T123600Z', '20150830T123600', `${DATE} `])
    assert.equal(timeOfAmzDate(text), undefined, text);
});
