/**
 * Messages per second that the delivery sends through one relay, with RSA-2048 signatures, including the storage of the same messages:
 * Postfix's smtp-sink accepts them, the real database records them. Prints rate and CPU of the main thread.
 *
 * node bench/delivery.ts [messages] [bytes of content] [recipient domains]
 */
import { spawn } from 'node:child_process';
import { createPrivateKey } from 'node:crypto';
import net from 'node:net';
import { systemClock } from '../src/base/clock.ts';
import { generateDkimKeys } from '../src/mail/compose/dkim-sign.ts';
import { deliveryRig } from '../test/kit/delivery-rig.ts';
import { waitUntil } from '../test/kit/wait-until.ts';

const messages = Number(process.argv[2] ?? 10_000);
const bytes = Number(process.argv[3] ?? 2_000);
const IN_FLIGHT = 100;
const LANES = Number(process.argv[4] ?? 1);

const port = await new Promise<number>((resolve) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port: free } = probe.address() as net.AddressInfo;
    probe.close(() => resolve(free));
  });
});
const sink = spawn('smtp-sink', ['-u', 'postfix', `127.0.0.1:${port}`, '1000'], { stdio: 'ignore' });
const { rsa } = await generateDkimKeys();
const keys = [{ algorithm: 'rsa' as const, selector: 's', privateKey: createPrivateKey(rsa.privateKeyPem) }];
await waitUntil(
  'smtp-sink',
  () =>
    new Promise<boolean>((resolve) => {
      const socket = net.connect(port, '127.0.0.1', () => resolve(socket.destroy() !== undefined));
      socket.on('error', () => resolve(false));
    }),
);
const rig = await deliveryRig({
  relayPort: port,
  clock: systemClock,
  deps: { keysFor: () => Promise.resolve({ domain: 'shop.example', keys }), pollMs: 1_000, random: Math.random },
});
const content = `From: orders@shop.example\r\nTo: a@x.example\r\nSubject: Hello\r\nMessage-ID: <1@shop.example>\r\nDate: Fri, 20 Nov 2026 09:44:00 +0000\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n${'Hello, this is your order.\r\n'.repeat(Math.ceil(bytes / 28))}`;

const started = performance.now();
const cpu = process.threadCpuUsage();
const allCpu = process.cpuUsage();
let sent = 0;
let peak = 0;
await Promise.all(
  Array.from({ length: IN_FLIGHT }, async () => {
    while (sent < messages) {
      sent += 1;
      const free = rig.delivery.hasCapacity(1, content.length);
      await (free ? rig.send : rig.store)({ to: [`user${sent}@x${sent % LANES}.example`], content });
      peak = Math.max(peak, rig.delivery.state().window);
    }
  }),
);
const stored = performance.now();
await waitUntil(
  'everything to be delivered',
  () => rig.rows<{ n: number }>('SELECT count(*) AS n FROM work')[0]!.n === 0,
  120_000,
);
const seconds = (performance.now() - started) / 1000;
const used = process.threadCpuUsage(cpu);
const micros = (used.user + used.system) / messages;
const all = process.cpuUsage(allCpu);
const { n } = rig.rows<{ n: number }>("SELECT count(*) AS n FROM message WHERE status = 'delivered'")[0]!;
console.log(
  `${n} of ${messages} delivered in ${seconds.toFixed(2)} s: ${Math.round(messages / seconds)}/s (stored in ${((stored - started) / 1000).toFixed(2)} s); ` +
    `main thread ${micros.toFixed(0)} µs per message, whole process ${((all.user + all.system) / messages).toFixed(0)} µs, of which storing is a part; window peak ${peak}`,
);
await rig.close();
sink.kill();
