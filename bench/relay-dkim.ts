/**
 * Row "relay with DKIM, HTTP in": from the first request to the last message counted by the sink, every message signed with RSA-2048,
 * compared with Postfix with OpenDKIM and Haraka with two workers, interleaved in one run. The compared systems receive messages of the
 * same size over SMTP from Postfix's smtp-source. The system postrider-postgres is Postrider with its own PostgreSQL server: row
 * "PostgreSQL relay" with --systems postrider,postrider-postgres.
 *
 * node bench/relay-dkim.ts [--rounds 5] [--count 3000] [--sessions 10,50] [--systems postrider,postfix-dkim,haraka-x2-dkim]
 */
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import { freePort, machineBusySeconds, median, pause, readArguments, row, run, shown, spread, table } from './lib.ts';
import { type Sink, startHaraka, startPostfix, startSink } from './peers.ts';
import { postMany } from './post-many.ts';
import { startService } from './service.ts';

const options = readArguments({
  rounds: 5,
  count: 3000,
  sessions: '10,50',
  size: 5120,
  systems: 'postrider,postfix-dkim,haraka-x2-dkim',
});

type Load = (count: number, sessions: number) => Promise<void>;

function smtpLoad(port: number): Load {
  return async (count, sessions) => {
    const args = ['-4', '-d', '-s', String(sessions), '-m', String(count), '-l', String(options.size)];
    const done = await run('smtp-source', [
      ...args,
      '-M',
      'bench.example',
      '-f',
      'bench@bench.example',
      '-t',
      'rcpt@sink.example',
      `127.0.0.1:${port}`,
    ]);
    if (done.process.exitCode !== 0) throw new Error(`smtp-source: ${done.err}`);
  };
}

async function measure(
  load: Load,
  sink: Sink,
  count: number,
  sessions: number,
): Promise<{ rate: number; cpuMs: number }> {
  const before = await sink.quiet();
  const busy = machineBusySeconds();
  const began = performance.now();
  await load(count, sessions);
  if (!(await sink.reached(before + count, 60_000)))
    throw new Error(`the sink saw ${sink.seen() - before} of ${count}`);
  const seconds = (performance.now() - began) / 1000;
  return { rate: count / seconds, cpuMs: ((machineBusySeconds() - busy) / count) * 1000 };
}

await row('relay with DKIM (HTTP in)', 1500, async () => {
  const sink = await startSink(await freePort());
  const systems: Record<string, Load> = {};
  for (const name of options.systems.split(',')) {
    const port = await freePort();
    if (name === 'postfix-dkim') {
      await startPostfix({ name, port, sinkPort: sink.port, dkim: true });
      systems[name] = smtpLoad(port);
    } else if (name === 'haraka-x2-dkim') {
      await startHaraka({ name, port, sinkPort: sink.port, dkim: true });
      systems[name] = smtpLoad(port);
    } else {
      const database = name === 'postrider-postgres' ? { POSTRIDER_DATABASE_URL: (await tempPostgres()).url } : {};
      const service = await startService({ POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, ...database });
      systems[name] = (count, sessions) =>
        postMany({
          url: new URL(service.url),
          headers: service.headers,
          count,
          connections: sessions,
          size: options.size,
        });
    }
  }
  const names = Object.keys(systems);
  for (const name of names) await measure(systems[name]!, sink, 300, 10);
  const rows: string[][] = [];
  for (const sessions of options.sessions.split(',').map(Number)) {
    const rates: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
    const cpu: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]));
    for (let round = 0; round < options.rounds; round += 1) {
      for (const name of round % 2 ? [...names].reverse() : names) {
        const result = await measure(systems[name]!, sink, options.count, sessions);
        rates[name]!.push(result.rate);
        cpu[name]!.push(result.cpuMs);
        await pause(500);
      }
    }
    const ours = rates.postrider ?? [];
    for (const name of names) {
      const ratios = rates[name]!.map((rate, i) => (ours[i] ?? Number.NaN) / rate);
      rows.push([
        name,
        String(sessions),
        spread(rates[name]!),
        name === 'postrider' ? '1' : spread(ratios),
        shown(median(cpu[name]!)),
      ]);
    }
  }
  table(['system', 'sessions', 'relayed/s', 'postrider is x', 'cpu ms/msg'], rows);
});
