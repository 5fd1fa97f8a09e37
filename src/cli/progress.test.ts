import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressLine, startProgress } from './send-files.ts';

test('the progress line shows the progress and speed of this run', () => {
  const at = { doneBytes: 15_000_000, totalBytes: 30_000_000, fromBytes: 10_000_000, seconds: 2 };
  assert.equal(progressLine('Uploading', at), 'Uploading [############............]  50%  15.0 of 30.0 MB  2.5 MB/s');
  const none = { doneBytes: 0, totalBytes: 0, fromBytes: 0, seconds: 0 };
  assert.equal(progressLine('Reading', none), 'Reading [########################] 100%  0.0 of 0.0 MB');
});

test('a terminal shows one line that is removed at the end, and other outputs show nothing', () => {
  const shown: string[] = [];
  const streams = {
    out: () => assert.fail('stdout is for the response'),
    err: (text: string) => void shown.push(text),
  };
  const quiet = startProgress(streams, 'Uploading', { totalBytes: 10 });
  quiet.show(5);
  quiet.end();
  assert.equal(shown.length, 0);
  const drawn = startProgress({ ...streams, errIsTerminal: true }, 'Uploading', { totalBytes: 10 });
  for (let bytes = 0; bytes <= 10; bytes += 1) drawn.show(bytes);
  drawn.end();
  assert.ok(shown.length >= 3 && shown.length < 11, 'the line is not drawn for every byte, but at the end');
  assert.ok(shown.every((text) => text.startsWith('\r\u001b[K') && !text.includes('\n')));
  assert.match(shown.at(-2) ?? '', /100%/);
  assert.equal(shown.at(-1), '\r\u001b[K');
});
