/** Failure messages: the first issue, the number of other issues, and bounded length. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCatalog, failure, type Issue, invalid } from './failure.ts';

const hex: Issue = { field: 'attachments[0].sha256', message: 'must be 64 hex characters' };
const other = (index: number): Issue => ({ field: `tags[${index}]`, message: 'is empty' });

test('the message names the first issue', () => {
  assert.equal(invalid([hex]).message, 'attachments[0].sha256 must be 64 hex characters.');
  assert.match(invalid([hex, other(0)]).message, /hex characters \(and 1 more error, see details\)\.$/);
  const three = invalid([hex, other(0), other(0), other(1)]);
  assert.match(three.message, /\(and 2 more errors, see details\)/, 'each is counted once');
  assert.equal(three.details.length, 3);
  assert.equal(invalid([{ field: '', message: 'is empty; send JSON' }]).message, 'The body is empty; send JSON.');
});

test('the catalog text is appended if the issues do not include a fix', () => {
  const { text } = errorCatalog.ATTACHMENT_UPLOAD_INCOMPLETE;
  assert.equal(failure('ATTACHMENT_UPLOAD_INCOMPLETE').message, text);
  assert.equal(
    failure('ATTACHMENT_UPLOAD_INCOMPLETE', { details: [{ field: 'a.pdf', message: 'was not uploaded' }] }).message,
    `a.pdf was not uploaded. ${text}`,
  );
  assert.equal(failure('CONFLICT', { message: 'It is so.', details: [hex] }).message, 'It is so.');
});

test('long field names are cut at character boundaries', () => {
  const { message, details } = invalid([{ field: '😀'.repeat(5_000), message: 'is not a known field' }]);
  assert.ok(message.length < 300 && message.isWellFormed(), message);
  assert.match(message, /… is not a known field\.$/);
  assert.equal(details.length, 1);
});
