/** Parsing of the record and the policy, and matching of names. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseStsPolicy, stsId, stsNames } from './mta-sts.ts';

test('the policy ID is read from exactly one valid record', () => {
  for (const [records, id] of [
    [['v=STSv1; id=20160831085700Z;'], '20160831085700Z'],
    [['v=STSv1;id=1'], '1'],
    [['other', 'v=STSv1 ; id = abc ; more=1'], 'abc'],
    [['v=STSv1; more=1; id=7'], '7'],
    [[], undefined],
    [['v=STSv1; id=1', 'v=STSv1; id=2'], undefined],
    [['v=STSv2; id=1'], undefined],
    [['v=STSv1'], undefined],
    [['v=STSv1; id=with-hyphen'], undefined],
    [[`v=STSv1; id=${'a'.repeat(33)}`], undefined],
    [[' v=STSv1; id=1'], undefined],
  ] as const) {
    assert.equal(stsId(records), id, JSON.stringify(records));
  }
});

test('parses a policy as in RFC 8461, in any order, with unknown fields', () => {
  const text =
    'version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\nmx: *.Example.net\r\nmx: backupmx.example.com\r\nmax_age: 604800\r\n';
  assert.deepEqual(parseStsPolicy(text), {
    ok: true,
    policy: {
      mode: 'enforce',
      mx: ['mail.example.com', '*.example.net', 'backupmx.example.com'],
      maxAgeSeconds: 604_800,
    },
  });
  const other = 'max_age:9999999999\nfuture: x\nmx:  a.example  \nmode:testing\nmode: enforce\nversion:STSv1';
  assert.deepEqual(parseStsPolicy(other), {
    ok: true,
    policy: { mode: 'testing', mx: ['a.example'], maxAgeSeconds: 31_557_600 },
  });
  const none = parseStsPolicy('version: STSv1\nmode: none\nmax_age: 86400\n');
  assert.ok(none.ok && none.policy.mode === 'none');
});

test('rejects an invalid policy with the reason', () => {
  for (const [text, reason] of [
    ['', /version/],
    ['version: STSv2\nmode: enforce\nmx: a.example\nmax_age: 1', /version/],
    ['version: STSv1\nmode: strict\nmx: a.example\nmax_age: 1', /mode/],
    ['version: STSv1\nmode: enforce\nmax_age: 1', /the mx field is missing/],
    ['version: STSv1\nmode: enforce\nmx: a.example', /max_age/],
    ['version: STSv1\nmode: enforce\nmx: a.example\nmax_age: -1', /max_age/],
    ['version: STSv1\nmode: enforce\nmx: a.*.example\nmax_age: 1', /mx/],
    ['version: STSv1\nmode: enforce\nmx: *\nmax_age: 1', /mx/],
    ['<html>not found</html>', /name: value/],
  ] as const) {
    const parsed = parseStsPolicy(text);
    assert.equal(parsed.ok, false, text);
    if (!parsed.ok) assert.match(parsed.reason, reason);
  }
});

test('parses a hostile policy of 64 KB quickly', () => {
  const blanks = ' \t'.repeat(32_000);
  const startMs = performance.now();
  for (const line of [
    `mx:${blanks}\rx`,
    `mx:${blanks}\u2028x`,
    `${blanks}mx${blanks}x`,
    `mx: ${'a-'.repeat(32_000)}`,
  ]) {
    assert.equal(parseStsPolicy(`version: STSv1\n${line}`).ok, false);
  }
  assert.ok(performance.now() - startMs < 1_000);
});

test('a wildcard matches exactly one label', () => {
  const policy = { mx: ['mail.example.com', '*.example.net'] };
  for (const host of ['mail.example.com', 'MAIL.example.com.', 'mx1.example.net'])
    assert.ok(stsNames(policy, host), host);
  for (const host of [
    'example.com',
    'x.mail.example.com',
    'example.net',
    'a.b.example.net',
    'mx1.example.net.evil.example',
  ])
    assert.equal(stsNames(policy, host), false, host);
});
