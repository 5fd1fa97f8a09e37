/**
 * Row "queue of a million": accept and relay rates and memory with a million messages queued for a hundred thousand domains, compared with
 * a thousand. The backlog is written into the data directory beforehand; accepting is measured with the delivery in another role, relaying
 * with all roles until a number of messages have arrived at the sink. With --mx 1 each domain has its own MX host, and so its own limits,
 * pauses and lookups; otherwise all go to one relay.
 *
 * node bench/long-queue.ts [--long 1000000] [--short 1000] [--relayed 5000] [--rounds 3] [--mx 0]
 */
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fakeDns } from '../test/kit/fake-dns.ts';
import { fillQueue } from './fill-queue.ts';
import { freePort, onEnd, pause, readArguments, row, shown, spread, table, WORK } from './lib.ts';
import { startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { type BenchService, residentMegabytes, startService } from './service.ts';

const options = readArguments({ long: 1_000_000, short: 1_000, relayed: 5_000, accepted: 8_000, rounds: 3, mx: 0 });

interface Figures {
  accepted: number[];
  relayed: number[];
  memory: number[];
}

/** Returns an MX host for each domain of the backlog, with its own address. */
async function exchangersAt(port: number): Promise<Record<string, string>> {
  const dns = await fakeDns({});
  onEnd(() => dns.close());
  for (let i = 0; i < options.long / 10; i += 1) {
    dns.zone[`d${i}.example`] = { MX: [[10, `mx.d${i}.example`]], ttl: 3600 };
    dns.zone[`mx.d${i}.example`] = { A: [`127.${80 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`], ttl: 3600 };
  }
  return {
    ...{ POSTRIDER_ROUTE: 'mx', POSTRIDER_MX_PORT: String(port), POSTRIDER_MX_ALLOW: '127.0.0.0/8' },
    POSTRIDER_DNS_SERVERS: dns.server,
  };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

await row('queue of a million', 1_800, async () => {
  const sink = await startSink(await freePort(), options.mx === 0 ? '127.0.0.1' : '0.0.0.0');
  const route = options.mx === 0 ? { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } : await exchangersAt(sink.port);

  const prepare = async (backlog: number): Promise<string> => {
    const folder = mkdtempSync(path.join(WORK, 'queue-'));
    onEnd(() => rmSync(folder, { recursive: true, force: true }));
    const first = await startService({ POSTRIDER_ROLES: 'api' }, folder);
    await first.stop();
    await fillQueue(folder, first.headers['x-id']!, backlog);
    return folder;
  };

  const accept = async (folder: string): Promise<number> => {
    const service = await startService({ POSTRIDER_ROLES: 'api' }, folder);
    const post = (count: number): Promise<void> =>
      postMany({ url: new URL(service.url), headers: service.headers, count, connections: 50, size: 1_500 });
    await post(1_000);
    const rate = options.accepted / (await timed(() => post(options.accepted)));
    await service.stop();
    return rate;
  };

  /** Delivers a part of the backlog; a short one is refilled during the run, so that its length stays constant. */
  const relay = async (folder: string, backlog: number): Promise<{ rate: number; megabytes: number }> => {
    const before = await sink.quiet();
    const service: BenchService = await startService(route, folder);
    const began = performance.now();
    const feed =
      backlog < options.relayed
        ? postMany({
            url: new URL(service.url),
            headers: service.headers,
            count: options.relayed,
            connections: 10,
            size: 100,
            ...(options.mx !== 0 && { recipientOf: (index) => `feed@d${index % (backlog / 10)}.example` }),
          })
        : Promise.resolve();
    if (!(await sink.reached(before + options.relayed, 120_000))) throw new Error('the sink has not seen enough mail');
    const rate = options.relayed / ((performance.now() - began) / 1000);
    const megabytes = residentMegabytes(service.child.process.pid!);
    await feed;
    await service.stop();
    return { rate, megabytes };
  };

  const backlogs = { short: options.short, long: options.long };
  const folders: Record<string, string> = {};
  for (const [name, backlog] of Object.entries(backlogs)) {
    const seconds = await timed(async () => {
      folders[name] = await prepare(backlog);
    });
    console.log(`${backlog} messages queued in ${shown(seconds)} s`);
  }
  const figures: Record<string, Figures> = {};
  for (const name of Object.keys(backlogs)) figures[name] = { accepted: [], relayed: [], memory: [] };
  for (let round = 0; round < options.rounds; round += 1) {
    for (const [name, backlog] of Object.entries(backlogs)) {
      const mine = figures[name]!;
      mine.accepted.push(await accept(folders[name]!));
      const { rate, megabytes } = await relay(folders[name]!, backlog);
      mine.relayed.push(rate);
      mine.memory.push(megabytes);
      await pause(500);
    }
  }
  const ratio = (of: keyof Figures): string =>
    spread(figures.long![of].map((value, i) => (of === 'memory' ? value : figures.short![of][i]! / value)));
  table(
    ['queued', 'accepted/s', 'relayed/s', 'resident MB'],
    Object.entries(backlogs).map(([name, backlog]) => [
      backlog,
      spread(figures[name]!.accepted),
      spread(figures[name]!.relayed),
      spread(figures[name]!.memory),
    ]),
  );
  console.log(`short / long: accept ${ratio('accepted')}, relay ${ratio('relayed')}`);
});
