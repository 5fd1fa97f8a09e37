/**
 * One sender of the row "large delivery", in its own process: sends a 40 MB message with a 29 MB file on request, and returns the duration.
 * Modules, keys and the stored file are loaded beforehand, as in a running service.
 *
 *   postrider    from the stored message to the recorded delivery: queue, DKIM, SMTP, settling
 *   nodemailer   the file as attachment, DKIM, its SMTP transport
 *   ready bytes  the entire message in memory, written to the wire: the lower bound of any sender
 */
import { createPrivateKey } from 'node:crypto';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { systemClock } from '../src/base/clock.ts';
import { generateDkimKeys } from '../src/mail/compose/dkim-sign.ts';
import { deliveryRig } from '../test/kit/delivery-rig.ts';
import { base64Text, largeMail } from '../test/kit/large-mail.ts';

const RECIPIENT = 'a@x.example';

type Sender = () => Promise<void>;

const [kind, sinkPort, folder] = process.argv.slice(2);
const port = Number(sinkPort);
const { rsa } = await generateDkimKeys();

async function postrider(): Promise<Sender> {
  const keys = [{ algorithm: 'rsa' as const, selector: 's', privateKey: createPrivateKey(rsa.privateKeyPem) }];
  let settled = (): void => {};
  const rig = await deliveryRig({
    relayPort: port,
    clock: systemClock,
    deps: {
      keysFor: async () => ({ domain: 'shop.example', keys }),
      pollMs: 1_000,
      random: Math.random,
      onSettled: () => settled(),
    },
  });
  process.on('exit', () => rmSync(rig.storage.folder, { recursive: true, force: true }));
  const mail = await largeMail(rig.blobs, [{ bytes: await readFile(path.join(folder!, 'file.bin')) }]);
  return async () => {
    const done = new Promise<void>((resolve) => {
      settled = resolve;
    });
    const [id] = await rig.send({
      to: [RECIPIENT],
      content: mail.content.toString('latin1'),
      sizeBytes: mail.sizeBytes,
      options: { files: mail.files },
    });
    await done;
    if (rig.status(id!) !== 'delivered') throw new Error(`the mail is ${rig.status(id!)}`);
  };
}

async function nodemailer(): Promise<Sender> {
  const { createTransport } = await import('nodemailer');
  const dkim = { domainName: 'shop.example', keySelector: 's', privateKey: rsa.privateKeyPem };
  return async () => {
    const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true, dkim });
    await transport.sendMail({
      from: 'Shop <orders@shop.example>',
      to: RECIPIENT,
      subject: 'Your files',
      text: 'Hello, the files are attached.',
      attachments: [{ filename: 'file.bin', path: path.join(folder!, 'file.bin') }],
    });
    transport.close();
  };
}

async function readyBytes(): Promise<Sender> {
  const lines = Buffer.from(base64Text(await readFile(path.join(folder!, 'file.bin'))));
  return async () => {
    const socket = net.connect(port, '127.0.0.1');
    await once(socket, 'data');
    for (const command of ['EHLO x', 'MAIL FROM:<a@shop.example>', `RCPT TO:<${RECIPIENT}>`, 'DATA']) {
      socket.write(`${command}\r\n`);
      await once(socket, 'data');
    }
    socket.write('From: a@shop.example\r\n\r\n');
    for (let from = 0; from < lines.length; from += 262_144) {
      if (!socket.write(lines.subarray(from, from + 262_144))) await once(socket, 'drain');
    }
    socket.write('.\r\n');
    await once(socket, 'data');
    socket.destroy();
  };
}

const makers: Record<string, () => Promise<Sender>> = { postrider, nodemailer, ready: readyBytes };
const send = await makers[kind!]!();
process.on('message', async () => {
  const cpu = process.cpuUsage();
  const began = performance.now();
  await send();
  const seconds = (performance.now() - began) / 1000;
  const used = process.cpuUsage(cpu);
  const peakMegabytes = (process.resourceUsage().maxRSS * 1024) / 1e6;
  process.send!({ seconds, cpuSeconds: (used.user + used.system) / 1e6, peakMegabytes });
});
process.on('disconnect', () => process.exit(0));
process.send!('ready');
