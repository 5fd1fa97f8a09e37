/**
 * Row "large delivery": a 40 MB message with a 29 MB file, from the file to the wire, signed with RSA-2048, compared with nodemailer with
 * DKIM and the same file, and with writing prepared bytes. Each in its own process, warmed up, interleaved.
 *
 * node bench/large-delivery.ts [--rounds 5]
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, onEnd, pause, readArguments, row, spread, start, table, WORK } from './lib.ts';

const options = readArguments({ rounds: 5 });
const FILE_BYTES = 29_000_000;
const SENDER = fileURLToPath(new URL('./large-sender.ts', import.meta.url));

interface Sent {
  seconds: number;
  cpuSeconds: number;
  peakMegabytes: number;
}

function answer<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as T));
    child.once('exit', (code) => reject(new Error(`a sender ended with ${code}`)));
  });
}

async function startSender(kind: string, port: number, folder: string): Promise<() => Promise<Sent>> {
  const child = spawn(process.execPath, [SENDER, kind, String(port), folder], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  onEnd(() => child.kill('SIGKILL'));
  await answer(child);
  return () => {
    child.send('send');
    return answer<Sent>(child);
  };
}

await row('large delivery', 300, async () => {
  const folder = mkdtempSync(path.join(WORK, 'large-'));
  onEnd(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'file.bin'), randomBytes(FILE_BYTES));
  const port = await freePort();
  start(process.execPath, [fileURLToPath(new URL('./large-sink.ts', import.meta.url)), String(port)]);
  await reachable(port);
  const kinds = ['postrider', 'nodemailer', 'ready'];
  const senders = new Map<string, () => Promise<Sent>>();
  for (const kind of kinds) senders.set(kind, await startSender(kind, port, folder));
  for (const send of senders.values()) await send();
  const all: Record<string, Sent[]> = Object.fromEntries(kinds.map((kind) => [kind, []]));
  for (let round = 0; round < options.rounds; round += 1) {
    for (const kind of round % 2 ? [...kinds].reverse() : kinds) {
      all[kind]!.push(await senders.get(kind)!());
      await pause(200);
    }
  }
  const ours = all.postrider!;
  const rows = kinds.map((kind) => {
    const seconds = all[kind]!.map((one) => one.seconds);
    const cpu = all[kind]!.map((one) => one.cpuSeconds);
    return [
      kind,
      spread(seconds),
      spread(cpu),
      kind === 'postrider' ? '1' : spread(seconds.map((one, i) => one / ours[i]!.seconds)),
      kind === 'postrider' ? '1' : spread(cpu.map((one, i) => one / ours[i]!.cpuSeconds)),
      spread(all[kind]!.map((one) => one.peakMegabytes)),
    ];
  });
  table(['system', 'seconds', 'cpu seconds', 'postrider is x', 'in cpu x', 'peak MB'], rows);
});

async function reachable(port: number): Promise<void> {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    const connected = await new Promise<boolean>((resolve) => {
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    });
    socket.destroy();
    if (connected) return;
    await pause(20);
  }
}
