/**
 * Row "accept (HTTP)": durable POST /send over 50 connections, with delivery in another role, compared with two baselines of plain Node in
 * the same run. With --postgres 1 the row "accept (HTTP), PostgreSQL": the same with its own server, compared with the baseline that stores
 * the bodies there in groups.
 *
 * node bench/accept-http.ts [--rounds 5] [--seconds 4] [--connections 50] [--postgres 1]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { tempPostgres } from '../test/kit/temp-postgres.ts';
import {
  freePort,
  machineBusySeconds,
  median,
  onEnd,
  pause,
  readArguments,
  row,
  run,
  shown,
  spread,
  start,
  table,
  WORK,
  waitForPort,
} from './lib.ts';
import { startService } from './service.ts';

const options = readArguments({ rounds: 5, seconds: 4, connections: 50, postgres: 0 });
const line = 'Hello {{name}}, your order has shipped and will arrive on Tuesday. ';
const body = JSON.stringify({
  from: 'Shop <orders@bench.example>',
  to: ['rcpt@sink.example'],
  subject: 'Your order has shipped',
  text: line.repeat(8),
  html: `<html><body><p>${line.repeat(15)}</p></body></html>`,
  templateVariables: { name: 'Ada' },
  headers: { 'X-Order': '12345' },
  tags: ['order'],
});

interface Measured {
  rate: number;
  p50: number;
  p99: number;
  cpu: number;
}

function script(folder: string, name: string, headers: Record<string, string>): string {
  const file = path.join(folder, `${name}.lua`);
  const lines = Object.entries({ 'content-type': 'application/json', ...headers }).map(
    ([header, value]) => `wrk.headers[${JSON.stringify(header)}] = ${JSON.stringify(value)}`,
  );
  writeFileSync(path.join(folder, 'body.json'), body);
  writeFileSync(
    file,
    `local f = io.open("${folder}/body.json", "rb")\nwrk.method = "POST"\nwrk.body = f:read("*a")\n${lines.join('\n')}\n`,
  );
  return file;
}

async function measure(url: string, lua: string, seconds: number): Promise<Measured> {
  const busy = machineBusySeconds();
  const { out, err } = await run(
    'wrk',
    ['-t1', `-c${options.connections}`, `-d${seconds}s`, '--latency', '-s', lua, url],
    {
      timeoutMs: (seconds + 20) * 1000,
    },
  );
  if (/Non-2xx/.test(out) || !/Requests\/sec/.test(out)) throw new Error(`${url}: ${out} ${err}`);
  const ms = (pattern: RegExp): number => {
    const found = pattern.exec(out);
    return found ? Number(found[1]) * { us: 0.001, ms: 1, s: 1000 }[found[2] as 'us' | 'ms' | 's'] : Number.NaN;
  };
  const total = Number(/(\d+) requests in/.exec(out)?.[1]);
  return {
    rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(out)?.[1]),
    p50: ms(/50%\s+([\d.]+)(us|ms|s)/),
    p99: ms(/99%\s+([\d.]+)(us|ms|s)/),
    cpu: ((machineBusySeconds() - busy) / total) * 1e6,
  };
}

await row(options.postgres ? 'accept (HTTP), PostgreSQL' : 'accept (HTTP)', 600, async () => {
  const folder = mkdtempSync(path.join(WORK, 'accept-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  const targets: Record<string, { url: string; lua: string }> = {};
  const databases = options.postgres ? [await tempPostgres(), await tempPostgres()] : [];
  for (const mode of options.postgres ? ['pg-group'] : ['bare', 'sqlite-tick']) {
    const port = await freePort();
    const place = databases[0]?.url ?? folder;
    start(process.execPath, [fileURLToPath(new URL('./floor-http.ts', import.meta.url)), mode, String(port), place]);
    await waitForPort(port);
    targets[mode] = {
      url: `http://127.0.0.1:${port}/send`,
      lua: script(folder, mode, { 'x-api-key': 'bench-key-0123456789', 'x-id': 'acct_1' }),
    };
  }
  const ours = databases[1] ? { POSTRIDER_DATABASE_URL: databases[1].url } : {};
  const service = await startService({ POSTRIDER_ROLES: 'api', ...ours });
  targets.postrider = { url: `${service.url}/send`, lua: script(folder, 'postrider', service.headers) };
  console.log(
    `body ${body.length} bytes, ${options.connections} connections, ${options.rounds} rounds of ${options.seconds} s`,
  );
  const names = Object.keys(targets);
  const measured: Record<string, Measured[]> = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = -1; round < options.rounds; round += 1) {
    for (const name of round % 2 ? [...names].reverse() : names) {
      const target = targets[name]!;
      const result = await measure(target.url, target.lua, round < 0 ? 2 : options.seconds);
      if (round >= 0) measured[name]!.push(result);
      await pause(300);
    }
  }
  const base = names[0]!;
  const floor = measured[base]!;
  table(
    ['target', 'req/s', `x ${base}`, 'p50 ms', 'p99 ms', 'cpu us/req'],
    names.map((name) => [
      name,
      spread(measured[name]!.map((one) => one.rate)),
      spread(measured[name]!.map((one, i) => one.rate / floor[i]!.rate)),
      shown(median(measured[name]!.map((one) => one.p50))),
      spread(measured[name]!.map((one) => one.p99)),
      shown(median(measured[name]!.map((one) => one.cpu))),
    ]),
  );
});
