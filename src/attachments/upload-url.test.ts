import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { newId } from '../base/ids.ts';
import { createUploadUrls, type UploadGrant } from './upload.ts';

const place = { secretKey: randomBytes(32), baseUrl: 'https://mail.test/base' };
const urls = createUploadUrls(place);
const grant: UploadGrant = {
  submissionId: newId('sub'),
  number: 3,
  expiresAt: 1_795_168_740_000,
  sizeBytes: 4_711,
  sha256: randomBytes(32),
  contentType: 'application/pdf',
};

/** Path and query as the server receives them from a proxy. */
const pathOf = (url: string): string => url.slice(place.baseUrl.length);
const opens = (path: string, held: UploadGrant = grant, by = urls): boolean => {
  const claim = by.read(path);
  return claim !== undefined && by.verify(claim, held);
};

test('an upload URL is deterministic and valid only for its own grant', () => {
  const url = urls.url(grant);
  assert.match(url, /^https:\/\/mail\.test\/base\/uploads\/[0-9A-Za-z_-]+$/);
  assert.equal(urls.url({ ...grant }), url);
  assert.ok(opens(pathOf(url)));
});

test('an upload URL with a changed, missing, or added character is rejected', () => {
  const path = pathOf(urls.url(grant));
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./?%&=~ ';
  let tried = 0;
  for (let at = 0; at < path.length; at += 1) {
    assert.ok(!opens(path.slice(0, at) + path.slice(at + 1)), `without character ${at}`);
    for (const character of alphabet) {
      if (character === path[at]) continue;
      assert.ok(!opens(path.slice(0, at) + character + path.slice(at + 1)), `${character} at ${at}`);
      assert.ok(!opens(`${path.slice(0, at)}${character}${path.slice(at)}`), `${character} before ${at}`);
      tried += 1;
    }
  }
  for (const more of ['?', '?x=1', '&x=1', '/', '=', '%00']) assert.ok(!opens(path + more), more);
  assert.ok(tried > 5_000);
});

test('a URL is bound to file, size, digest, type, and expiry, and to the secret key', () => {
  const path = pathOf(urls.url(grant));
  const others: Partial<UploadGrant>[] = [
    { submissionId: newId('sub') },
    { number: 2 },
    { expiresAt: grant.expiresAt + 1 },
    { sizeBytes: 4_712 },
    { sha256: randomBytes(32) },
    { contentType: 'application/PDF' },
  ];
  for (const change of others) assert.ok(!opens(path, { ...grant, ...change }), JSON.stringify(change));
  assert.ok(!opens(path, grant, createUploadUrls({ ...place, secretKey: randomBytes(32) })));
});

test('other URLs are not accepted as upload URLs', () => {
  for (const path of ['', '/', '/uploads/', '/uploads/x', `/uploads/${'a'.repeat(16_000)}`, '/uploads/__proto__']) {
    assert.equal(urls.read(path), undefined);
  }
});
