/**
 * Observed from outside the process: strace sees the message written to the write-ahead log, the log synced, and only then the first byte
 * of the 202. Also for the blob of a larger message. As a control, the check gets modified traces.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { cannotTrace } from '../kit/requirements.ts';
import { startService } from '../kit/start-service.ts';
import { blobOrderFault, orderFault, parseTrace } from './strace-log.ts';

const CALLS =
  'read,readv,recvfrom,recvmsg,write,writev,pwrite64,sendto,sendmsg,fsync,fdatasync,rename,renameat,renameat2';

test('the 202 is sent after the message is synced', { skip: cannotTrace(), timeout: 170_000 }, async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-trace-'));
  const file = path.join(folder, 'trace');
  const service = await startService({
    wrapper: ['strace', '-f', '-y', '-qq', '-s', '5000', '-o', file, '-e', `trace=${CALLS}`],
  });
  try {
    // Scheduled, so that nothing else is written while the sends are accepted one after another.
    const sendAt = new Date(Date.now() + 3_600_000).toISOString();
    const markers = Array.from({ length: 5 }, (_, index) => `marker${index}x${process.hrtime.bigint()}`);
    const largeMarker = `large${process.hrtime.bigint()}`;
    const mail = (subject: string, text: string) => ({ from: 'a@x.example', to: 'b@x.example', subject, text, sendAt });
    for (const marker of markers) {
      assert.equal((await service.sandboxApi.post('/send', mail(marker, 'small'))).status, 202);
    }
    const large = mail(largeMarker, `${'a line of text that is not long\n'.repeat(20_000)}`);
    assert.equal((await service.sandboxApi.post('/send', large)).status, 202);
    await service.kill('SIGKILL');

    const calls = parseTrace(readFileSync(file, 'utf8'));
    for (const marker of markers) assert.equal(orderFault(calls, marker), undefined, marker);
    assert.equal(blobOrderFault(calls, largeMarker), undefined);

    const unsynced = calls.filter((call) => !/sync/.test(call.name));
    assert.match(orderFault(unsynced, markers[0]!) ?? '', /no sync/, 'control: without its syncs the trace is refused');
    assert.match(blobOrderFault(unsynced, largeMarker) ?? '', /not synced/, 'control');
  } finally {
    await service.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

const good = [
  '10 read(20<socket:[1]>, "POST /send ... m1 ...", 65536) = 300',
  '11 pwrite64(7</d/postrider.db-wal>, "...m1...", 4096, 0) = 4096',
  '11 fdatasync(7</d/postrider.db-wal> <unfinished ...>',
  '12 read(21<socket:[2]>, "GET /health", 65536) = 20',
  '11 <... fdatasync resumed>) = 0',
  '10 write(20<socket:[1]>, "HTTP/1.1 202 Accepted...", 400) = 400',
];
const doctored: [name: string, lines: string[], fault: RegExp | undefined][] = [
  ['a correct trace', good, undefined],
  ['a response before the sync completed', [0, 1, 2, 3, 5, 4].map((index) => good[index]!), /not succeeded/],
  ['a failed sync', good.map((line) => line.replace(/= 0$/, '= -1 EIO (Input/output error)')), /not succeeded/],
  [
    'a sync of another file',
    good.map((line) => line.replace('fdatasync(7</d/postrider.db-wal>', 'fdatasync(8</d/x>')),
    /no sync/,
  ],
  ['a sync that started too early', [0, 2, 1, 3, 4, 5].map((index) => good[index]!), /no sync/],
  ['a write after the sync', [...good.slice(0, 5), good[1]!, good[5]!], /no sync/],
  ['no write', good.filter((line) => !line.includes('pwrite64')), /not written/],
];
for (const [name, lines, fault] of doctored) {
  test(`control: the trace checker: ${name}`, () => {
    const found = orderFault(parseTrace(lines.join('\n')), 'm1');
    if (fault) assert.match(found ?? 'nothing found', fault);
    else assert.equal(found, undefined);
  });
}
