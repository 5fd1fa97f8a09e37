/** The path of a base URL: removed from requests, and added to URLs for clients. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { basePathOf, withBasePath, withoutBasePath } from './base-path.ts';

test('the path of a base URL has no trailing slash', () => {
  for (const [baseUrl, basePath] of [
    ['https://mail.example', ''],
    ['https://mail.example/', ''],
    ['https://tools.example/mail', '/mail'],
    ['https://tools.example/a/b/', '/a/b'],
    ['http://localhost:3000', ''],
  ] as const)
    assert.equal(basePathOf(baseUrl), basePath);
});

test('the base path is removed from requests that have it', () => {
  for (const [url, stripped] of [
    ['/mail', '/'],
    ['/mail/', '/'],
    ['/mail?a=b', '/?a=b'],
    ['/mail/send?a=/mail', '/send?a=/mail'],
    ['/send', '/send'],
    ['/mailbox', '/mailbox'],
    ['/', '/'],
  ] as const)
    assert.equal(withoutBasePath(url, '/mail'), stripped);
  assert.equal(withoutBasePath('/mail/send', ''), '/mail/send');
});

test('the base path is added to paths in Link and Location, but not to other addresses', () => {
  const next = '</messages?cursor=a>; rel="next"';
  assert.deepEqual(withBasePath({ Link: next, 'X-Next-Cursor': 'a' }, '/mail'), {
    Link: '</mail/messages?cursor=a>; rel="next"',
    'X-Next-Cursor': 'a',
  });
  assert.deepEqual(withBasePath({ Location: '/' }, '/mail'), { Location: '/mail/' });
  for (const url of ['https://shop.example/', '//shop.example/'])
    assert.deepEqual(withBasePath({ Location: url }, '/mail'), { Location: url });
  assert.deepEqual(withBasePath({ Link: next }, ''), { Link: next });
  assert.equal(withBasePath(undefined, '/mail'), undefined);
});
