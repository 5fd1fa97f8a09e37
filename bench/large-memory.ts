/**
 * Row "memory under large mail": resident memory of the entire service at rest, and its peak while 64 files of 29 MB are uploaded and 16
 * messages of 40 MB are delivered at the same time, with the event loop delay.
 *
 * node bench/large-memory.ts [--uploads 64] [--deliveries 16] [--settle 10]
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { freePort, onEnd, pause, readArguments, row, shown, start, table, waitForPort } from './lib.ts';
import { type BenchService, residentMegabytes } from './service.ts';
import { call, register, startLargeService, upload } from './uploading.ts';

const options = readArguments({ uploads: 64, deliveries: 16, settle: 10 });
const bytes = randomBytes(29_000_000);

async function lag(service: BenchService): Promise<{ p99Ms: number; maxMs: number }> {
  const text = await (await fetch(`${service.url}/metrics`)).text();
  // Each sample includes the histogram's own interval of 10 ms.
  const of = (name: string): number =>
    Number(new RegExp(`^nodejs_eventloop_lag_${name}_seconds (\\S+)`, 'm').exec(text)?.[1]) * 1000 - 10;
  return { p99Ms: of('p99'), maxMs: of('max') };
}

/** Returns the kernel's peak value since the last reset, in MB. */
function peakMegabytes(pid: number): number {
  return (Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / 1e6;
}

await row('memory under large mail', 300, async () => {
  const port = await freePort();
  start(process.execPath, [fileURLToPath(new URL('./large-sink.ts', import.meta.url)), String(port)]);
  await waitForPort(port);
  const service = await startLargeService({ POSTRIDER_ROUTE: `smtp://127.0.0.1:${port}` });
  const pid = service.child.process.pid!;
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, residentMegabytes(pid));
  }, 10);
  onEnd(() => clearInterval(watch));

  await pause(options.settle * 1000);
  const idle = residentMegabytes(pid);
  const ready = [];
  for (let i = 0; i < options.deliveries; i += 1) {
    const registered = await register(service, bytes);
    await upload(registered.url, registered.headers, bytes);
    ready.push(registered);
  }
  const uploads = [];
  for (let i = 0; i < options.uploads; i += 1) uploads.push(await register(service, bytes));
  const prepared = { resident: residentMegabytes(pid), peak };

  await lag(service);
  peak = 0;
  const began = performance.now();
  const ids: string[] = [];
  const send = async (submissionId: string): Promise<void> => {
    const sent = await call<{ data: { messageId: string } }>(service, 'POST', '/send', {
      ...{ from: 'bench@bench.example', to: 'rcpt@sink.example', subject: 'bench', text: 'The file is attached.' },
      attachmentSubmissionId: submissionId,
    });
    ids.push(sent.data.messageId);
  };
  await Promise.all([
    ...uploads.map(({ url, headers }) => upload(url, headers, bytes)),
    ...ready.map(({ submissionId }) => send(submissionId)),
  ]);
  const uploaded = (performance.now() - began) / 1000;
  for (const id of ids) {
    for (;;) {
      const { status } = await call<{ status: string }>(service, 'GET', `/messages/${id}`);
      if (status === 'delivered') break;
      if (status === 'bounced') throw new Error('a mail bounced');
      await pause(20);
    }
  }
  const seconds = (performance.now() - began) / 1000;
  const { p99Ms, maxMs } = await lag(service);
  const highest = Math.max(peak, residentMegabytes(pid));
  await pause(options.settle * 1000);
  const after = residentMegabytes(pid);
  table(
    ['what', 'MB', 'above idle'],
    [
      ['idle', shown(idle), '0'],
      [
        `peak while ${options.deliveries} files are uploaded one by one`,
        shown(prepared.peak),
        shown(prepared.peak - idle),
      ],
      [
        `peak of ${options.uploads} uploads and ${options.deliveries} deliveries at once`,
        shown(highest),
        shown(highest - idle),
      ],
      [`${options.settle} s later`, shown(after), shown(after - idle)],
      ['highest of all, by the kernel', shown(peakMegabytes(pid)), shown(peakMegabytes(pid) - idle)],
    ],
  );
  console.log(
    `all in ${shown(seconds)} s (uploads ${shown(uploaded)} s); event-loop lag p99 ${shown(p99Ms)} ms, highest ${shown(maxMs)} ms`,
  );
});
