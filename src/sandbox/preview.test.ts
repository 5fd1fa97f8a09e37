/** Previews of captured messages are cheap for any content. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runningMs } from '../../test/kit/running-time.ts';
import { previewOf } from './preview.ts';

const HEAD = 'From: a@x.example\r\nTo: b@x.example\r\nSubject: Code\r\nMIME-Version: 1.0\r\n';
/** Takes 0.4 s on an idle machine, and took 15.9 s when every nested message was parsed. */
const BOUND_MS = 5_000;

async function timed(mail: string) {
  const began = runningMs();
  const preview = await previewOf(Buffer.from(mail));
  const ms = runningMs() - began;
  assert.ok(ms < BOUND_MS, `${Math.round(ms)} ms`);
  return preview;
}

test('deeply nested messages are not parsed, but the text before them is', async () => {
  const nested = `${'Content-Type: message/rfc822\r\n\r\n'.repeat(98)}${'\r\n'.repeat(500_000)}`;
  assert.equal((await timed(`${HEAD}${nested}`)).headers.Subject, 'Code');
  const mixed = `${HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nYour code is 123456.\r\n--b\r\n${nested}\r\n--b--\r\n`;
  const preview = await timed(mixed);
  assert.equal(preview.text, 'Your code is 123456.');
  assert.deepEqual(preview.codes, ['123456']);
});

test('only the first of a million short lines are included', async () => {
  const { text } = await timed(`${HEAD}\r\nYour code is 123456.\r\n${'a\r\n'.repeat(700_000)}`);
  assert.match(text!, /^Your code is 123456\.\r?\na\r?\n/);
  assert.ok(text!.length < 400_000);
});

test('a link that is followed by much punctuation is found in linear time', async () => {
  const { links } = await timed(`${HEAD}\r\nhttps://a.test/x${','.repeat(300_000)}y https://b.test/.,!\r\n`);
  assert.deepEqual([links.length, links[1]], [2, 'https://b.test/']);
});
