/**
 * A planned stop during an upload waits for it, and answers 503 before the deadline if it does not finish. Nothing of such an upload is
 * stored.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import test, { type TestContext } from 'node:test';
import { readAnswers } from '../kit/http-shell.ts';
import { againIfPaused } from '../kit/running-time.ts';
import { manifestEntry, someBytes } from '../kit/upload.ts';
import { uploadApp } from '../kit/upload-app.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a stop answers unfinished uploads with 503 and finished ones with 200', (t) =>
  againIfPaused(() => stopAmidTwo(t)));

async function stopAmidTwo(t: TestContext): Promise<void> {
  const app = await uploadApp();
  t.after(() => app.close());
  const bytes = someBytes(200_000);
  const { body } = await app.register('acc_1', [manifestEntry(bytes), manifestEntry(bytes, { name: 'other.pdf' })]);
  const uploads = body.attachmentUploads as { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  const before = app.stored();
  const begin = (number: number) => {
    const { uploadUrl, requiredHeaders } = uploads[number]!;
    const headers = Object.entries(requiredHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
    const { pathname } = new URL(uploadUrl);
    const socket = connect(app.port, '127.0.0.1');
    socket.write(`PUT ${pathname} HTTP/1.1\r\nHost: a\r\n${headers.join('')}Content-Length: ${bytes.length}\r\n\r\n`);
    socket.write(bytes.subarray(0, 150_000));
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    const said = new Promise<string>((resolve) => socket.on('close', () => resolve(text)));
    return { said, finish: () => socket.write(bytes.subarray(150_000)) };
  };
  const [stalled, slow] = [begin(0), begin(1)];
  await waitUntil('both uploads', () => app.stored().length === before.length + 2);
  const stopping = app.stop({ deadlineMs: 2_500 });
  slow.finish();
  assert.equal(readAnswers(await slow.said)[0]?.status, 200);
  const [answer] = readAnswers(await stalled.said);
  assert.equal(answer?.status, 503);
  assert.equal((JSON.parse(answer?.body ?? '{}') as { reasonCode: string }).reasonCode, 'OVERLOADED');
  assert.ok(answer?.headers['retry-after']);
  await stopping;
  assert.equal(app.stored().length, before.length + 1, 'nothing of the other one is stored');
}
