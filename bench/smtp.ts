/**
 * The rows of SMTP submission, with STARTTLS and AUTH PLAIN for every system, interleaved in one run:
 *
 *   accept       until the client has its last 250, sessions kept, nothing delivered; compared with Postfix that holds its mail
 *   connections  the same with one connection per message
 *   relay        from the first connection to the last message at the sink; Postrider signs with DKIM, Postfix does not sign
 *   dkim         the same compared with Postfix with OpenDKIM and Haraka with two workers, which sign too
 *
 *   node bench/smtp.ts --row accept [--rounds 5] [--sessions 1,10,50] [--count 3000] [--size 5120] [--systems …]
 *
 * Also shows the CPU time per message of the entire machine (including load generator and sink), and for Postrider that of the service
 * alone.
 */
import { fileURLToPath } from 'node:url';
import { freePort, machineBusySeconds, median, pause, readArguments, row, run, shown, spread, table } from './lib.ts';
import { PEER_LOGIN, type Sink, startHaraka, startPostfix, startSink } from './peers.ts';
import { processorSeconds, startService } from './service.ts';

const ROWS: Record<string, { title: string; systems: string; sessions: string }> = {
  accept: { title: 'SMTP accept', systems: 'postfix,postrider', sessions: '1,10,50' },
  connections: { title: 'SMTP accept, one message per TLS connection', systems: 'postfix,postrider', sessions: '10' },
  relay: { title: 'SMTP relay', systems: 'postfix,postrider', sessions: '10,50' },
  dkim: {
    title: 'relay with DKIM (SMTP in)',
    systems: 'postfix-dkim,haraka-x2-dkim,postrider',
    sessions: '10,50',
  },
};

const options = readArguments({ row: 'accept', rounds: 5, sessions: '', count: 3000, size: 5120, systems: '' });
const chosen = ROWS[options.row];
if (chosen === undefined) throw new Error(`unknown row ${options.row}; known: ${Object.keys(ROWS).join(', ')}`);
const isRelay = options.row === 'relay' || options.row === 'dkim';
const isEach = options.row === 'connections';

interface System {
  port: number;
  login: { username: string; password: string };
  /** CPU seconds so far, if known. */
  spent?(): number;
  /** Discards held mail. */
  clear?(): Promise<unknown>;
}

interface Measured {
  rate: number;
  p50: number;
  p99: number;
  machineMs: number;
  ownMs: number;
}

async function startSystem(name: string, sinkPort: number): Promise<System> {
  if (name.startsWith('postrider')) {
    const service = await startService({
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sinkPort}`,
      POSTRIDER_SMTP_MAX_CONNECTIONS_PER_ADDRESS: '1000',
      POSTRIDER_ROLES: isRelay ? 'api,smtp,delivery,webhooks' : 'api,smtp',
    });
    const { pid } = service.child.process;
    return { port: service.smtpPort, login: service.smtpLogin, spent: () => processorSeconds(pid!) };
  }
  const peer = {
    name: `smtp-${name}`,
    port: await freePort(),
    sinkPort,
    submission: true,
    hold: !isRelay,
    dkim: name.includes('dkim'),
  };
  const { port } = peer;
  if (name.startsWith('haraka')) {
    await startHaraka(peer);
    return { port, login: PEER_LOGIN };
  }
  const { clear } = await startPostfix(peer);
  return { port, login: PEER_LOGIN, ...(!isRelay && { clear }) };
}

async function submit(
  system: System,
  count: number,
  sessions: number,
): Promise<{ beganAt: number; p50Ms: number; p99Ms: number; seconds: number }> {
  const load = fileURLToPath(new URL('./smtp-load.ts', import.meta.url));
  const given = {
    ...{ port: system.port, username: system.login.username, password: system.login.password },
    ...{ count, sessions, size: options.size, each: isEach ? 1 : 0 },
  };
  const args = Object.entries(given).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const done = await run(process.execPath, [load, ...args]);
  if (done.process.exitCode !== 0) throw new Error(`smtp-load: ${done.out} ${done.err}`);
  return JSON.parse(done.out) as { beganAt: number; p50Ms: number; p99Ms: number; seconds: number };
}

async function measure(system: System, sink: Sink, count: number, sessions: number): Promise<Measured> {
  const before = await sink.quiet();
  const busy = machineBusySeconds();
  const spent = system.spent?.() ?? Number.NaN;
  const load = await submit(system, count, sessions);
  if (isRelay && !(await sink.reached(before + count, 60_000)))
    throw new Error(`the sink saw ${sink.seen() - before} of ${count}`);
  // The start of the generator is not counted.
  const seconds = isRelay ? (Date.now() - load.beganAt) / 1000 : load.seconds;
  const perMail = (total: number): number => (total / count) * 1000;
  const measured = {
    rate: count / seconds,
    p50: load.p50Ms,
    p99: load.p99Ms,
    machineMs: perMail(machineBusySeconds() - busy),
    ownMs: perMail((system.spent?.() ?? Number.NaN) - spent),
  };
  await system.clear?.();
  return measured;
}

await row(chosen.title, 1800, async () => {
  const sink = await startSink(await freePort());
  const names = (options.systems || chosen.systems).split(',');
  const systems: Record<string, System> = {};
  for (const name of names) systems[name] = await startSystem(name, sink.port);
  // A warm-up round without results.
  for (const name of names) await measure(systems[name]!, sink, options.count, 10);
  const rows: string[][] = [];
  for (const sessions of (options.sessions || chosen.sessions).split(',').map(Number)) {
    // A single session waits for a sync between any two messages, so fewer are enough.
    const count = sessions === 1 || isEach ? Math.ceil(options.count / 3) : options.count;
    const measured: Record<string, Measured[]> = Object.fromEntries(names.map((name) => [name, []]));
    for (let round = 0; round < options.rounds; round += 1) {
      for (const name of round % 2 ? [...names].reverse() : names) {
        measured[name]!.push(await measure(systems[name]!, sink, count, sessions));
        await pause(500);
      }
    }
    const ours = measured.postrider ?? [];
    for (const name of names) {
      const all = measured[name]!;
      rows.push([
        name,
        String(sessions),
        spread(all.map((one) => one.rate)),
        name === 'postrider' ? '1' : spread(all.map((one, i) => (ours[i]?.rate ?? Number.NaN) / one.rate)),
        shown(median(all.map((one) => one.p50))),
        spread(all.map((one) => one.p99)),
        shown(median(all.map((one) => one.machineMs))),
        shown(median(all.map((one) => one.ownMs))),
      ]);
    }
  }
  const what = isRelay ? 'relayed/s' : 'accepted/s';
  table(['system', 'sessions', what, 'postrider is x', 'p50 ms', 'p99 ms', 'machine ms/mail', 'own ms/mail'], rows);
});
