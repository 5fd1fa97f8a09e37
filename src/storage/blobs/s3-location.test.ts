import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketUrl, describeS3Location, objectName, parseS3Url } from './s3-location.ts';

test('parses the location of blobs', () => {
  for (const [text, url, object] of [
    ['s3://mail', 'https://mail.s3.us-east-1.amazonaws.com', 'k'],
    ['s3://mail/?region=eu-west-1', 'https://mail.s3.eu-west-1.amazonaws.com', 'k'],
    ['s3://mail/a/b/?region=eu-west-1&style=path', 'https://s3.eu-west-1.amazonaws.com/mail', 'a/b/k'],
    ['s3://mail/a?endpoint=http://minio:9000', 'http://minio:9000/mail', 'a/k'],
    ['s3://mail/a?endpoint=https%3A%2F%2Fs3.example.com%2F&style=virtual', 'https://mail.s3.example.com', 'a/k'],
    ['s3://mail/a?endpoint=https://x.example.com/storage/v1/s3', 'https://x.example.com/storage/v1/s3/mail', 'a/k'],
    ['s3://my_old.bucket/a?endpoint=http://[::1]:9000', 'http://[::1]:9000/my_old.bucket', 'a/k'],
  ] as const) {
    const location = parseS3Url(text);
    assert.equal(bucketUrl(location), url, text);
    assert.equal(objectName(location, 'k'), object, text);
  }
  const location = parseS3Url('s3://mail/a?endpoint=http://minio:9000&region=home');
  assert.equal(describeS3Location(location), 'bucket mail under a/ at http://minio:9000, region home, path style');
});

test('rejects an invalid location with the accepted form', () => {
  for (const [text, why] of [
    ['s3:mail', /s3:\/\/bucket\/prefix/],
    ['s3://', /./],
    ['s3://ab', /3 to 63/],
    ['s3://Mail', /3 to 63/],
    ['s3://mail/a//b', /the prefix can have/],
    ['s3://mail/a b', /the prefix can have/],
    ['s3://mail/ä', /the prefix can have/],
    ['s3://key:secret@mail/a', /AWS_ACCESS_KEY_ID/],
    ['s3://mail:9000/a', /./],
    ['s3://mail/a#b', /./],
    ['s3://mail/a?endpont=http://x', /the option endpont is not supported/],
    ['s3://mail/a?region=x&region=y', /once/],
    ['s3://mail/a?endpoint=', /must occur once and have a value/],
    ['s3://mail/a?endpoint=ftp://x', /must be an http or https URL/],
    ['s3://mail/a?endpoint=https://u:p@x', /without credentials/],
    ['s3://mail/a?endpoint=minio:9000', /must be an http or https URL/],
    ['s3://mail/a?region=a/b', /the region can have/],
    ['s3://mail/a?style=host', /path or virtual/],
    ['s3://mail/a?endpoint=http://127.0.0.1:9000&style=virtual', /instead of an IP address/],
  ] as const) {
    assert.throws(() => parseS3Url(text), why, text);
  }
  // Resolved when the URL is parsed, as in every URL, so nothing of it remains.
  for (const text of ['s3://mail/a/../b', 's3://mail/a/%2e%2e/b']) assert.equal(parseS3Url(text).prefix, 'b');
});
