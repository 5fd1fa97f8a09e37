/**
 * Floods at the submission port: many idle connections, 1,000 slow clients, and a process without file descriptors. A well-behaved client
 * from another address is served as usual.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { after, before, test } from 'node:test';
import { runningMs } from '../kit/running-time.ts';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let service: Service;
before(async () => {
  service = await startService();
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(() => service?.close());

async function honest(localAddress: string): Promise<Talker> {
  const since = runningMs();
  const talker = await connectTalker(service.smtpPort, { localAddress });
  assert.match(await talker.reply(), /^220 /);
  assert.ok(runningMs() - since < 5_000, 'greeted late');
  await talker.logIn(service.smtpCredential);
  return talker;
}

/** Milliseconds from MAIL to 250. */
async function timeMail(talker: Talker): Promise<number> {
  const since = runningMs();
  talker.send('MAIL FROM:<shop@shop.example>\r\nRCPT TO:<ann@example.invalid>\r\nDATA\r\n');
  for (let i = 0; i < 3; i += 1) assert.match(await talker.reply(), /^(250|354) /);
  talker.send('From: shop@shop.example\r\n\r\nx\r\n.\r\n');
  assert.match(await talker.reply(), /^250 2\.0\.0 /);
  return runningMs() - since;
}

const p95 = (all: number[]): number => all.sort((a, b) => a - b)[Math.floor(all.length * 0.95)]!;

test('2,000 idle connections from one address: 50 are served, and others are greeted soon', async () => {
  const codes = new Map<string, number>();
  const sockets: net.Socket[] = [];
  for (let batch = 0; batch < 20; batch += 1) {
    await Promise.all(
      Array.from({ length: 100 }, () => {
        const socket = net.connect({ port: service.smtpPort, host: '127.0.0.1', localAddress: '127.0.0.5' });
        sockets.push(socket);
        socket.on('error', () => undefined);
        return new Promise<void>((resolve) => {
          socket.once('data', (text) => {
            const code = text.toString('latin1', 0, 3);
            codes.set(code, (codes.get(code) ?? 0) + 1);
            resolve();
          });
          socket.once('close', () => resolve());
        });
      }),
    );
  }
  assert.deepEqual(Object.fromEntries(codes), { 220: 50, 421: 1950 });
  const talker = await honest('127.0.0.6');
  assert.ok((await timeMail(talker)) < 5_000);
  talker.destroy();
  for (const socket of sockets) socket.destroy();
});

test('1,000 slow clients block no one else', { timeout: 150_000 }, async () => {
  const talker = await honest('127.0.0.6');
  const before: number[] = [];
  for (let i = 0; i < 40; i += 1) before.push(await timeMail(talker));
  const slow: net.Socket[] = [];
  for (let address = 20; address < 40; address += 1) {
    await Promise.all(
      Array.from({ length: 50 }, () => {
        const socket = net.connect({ port: service.smtpPort, host: '127.0.0.1', localAddress: `127.0.1.${address}` });
        slow.push(socket);
        socket.on('error', () => undefined);
        return new Promise<void>((resolve) => socket.once('data', () => resolve()));
      }),
    );
  }
  const drip = setInterval(() => {
    for (const socket of slow) socket.write('N');
  }, 100);
  const meanwhile: number[] = [];
  for (let i = 0; i < 40; i += 1) meanwhile.push(await timeMail(talker));
  clearInterval(drip);
  const [quiet, loud] = [p95(before), p95(meanwhile)];
  // Generous, since both ends and the slow clients share this machine; a blocked session would wait for seconds.
  assert.ok(loud < 20 * quiet + 250, `p95 was ${quiet} ms, and ${loud} ms under load`);
  talker.destroy();
  for (const socket of slow) socket.destroy();
});

test('running out of file descriptors loses connections, but not the listener', { timeout: 150_000 }, async (t) => {
  const small = await startService({
    wrapper: ['sh', '-c', 'ulimit -n 150; exec "$@"', 'sh'],
    env: { POSTRIDER_SMTP_MAX_CONNECTIONS_PER_ADDRESS: '1000' },
  });
  t.after(() => small.close());
  assert.match(readFileSync(`/proc/${small.pid}/limits`, 'utf8'), /Max open files\s+150 /);
  const sockets: net.Socket[] = [];
  let lost = 0;
  for (let i = 0; i < 300; i += 1) {
    const socket = net.connect(small.smtpPort, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('close', () => {
      lost += 1;
    });
    sockets.push(socket);
  }
  const isFull = (): boolean => readdirSync(`/proc/${small.pid}/fd`).length >= 148;
  // Further connections are lost, or wait unaccepted if another thread used the descriptor that libuv reserves for rejecting them.
  await waitUntil('connections to be lost, or none to be left', () => lost > 100 || isFull());
  for (const socket of sockets) socket.destroy();
  await waitUntil('the listener to greet again', async () => {
    const talker = await connectTalker(small.smtpPort);
    const line = await talker.line(5_000).catch(() => undefined);
    talker.destroy();
    return line?.startsWith('220 ');
  });
  const answers = (): Promise<boolean> =>
    small.api.get('/account').then(
      ({ status }) => status === 200,
      () => false,
    );
  await waitUntil('the API to answer again', answers);
});
