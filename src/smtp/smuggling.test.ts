/**
 * Inbound SMTP smuggling (SEC Consult 2023, CVE-2023-51764 to -51766): every published sequence that some server accepts as the end of a
 * message. Here each sequence is content, its message is rejected at the real end, and the smuggled commands never run. The control is a
 * vulnerable server, which reads two messages from the same bytes.
 */
import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { SENDER, type SmtpRig, smtpRig } from '../../test/kit/smtp-rig.ts';
import { connectTalker } from '../../test/kit/smtp-talker.ts';
import { SMUGGLING } from '../../test/kit/smuggling.ts';

const FORGED = 'From: <boss@verified.example>\r\nSubject: smuggled\r\n\r\nsmuggled\r\n';

function mailWith(sequence: string): string {
  const smuggled = `MAIL FROM:<${SENDER}>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\n${FORGED}`;
  return `From: ${SENDER}\r\nSubject: outer\r\n\r\nouter${sequence}${smuggled}.\r\n`;
}

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

for (const sequence of SMUGGLING) {
  test(`${JSON.stringify(sequence)} does not end a message, unlike on a lax server`, async (t) => {
    const { port, server } = await rig.listen();
    const talker = await connectTalker(port);
    await talker.reply();
    await talker.logIn(rig.credentials.live);
    const before = rig.accepted.length;
    // In one piece, in several, and byte by byte, to check that the session is unaffected.
    for (const pieces of [1, 7, Number.POSITIVE_INFINITY]) {
      talker.send(`MAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
      for (let i = 0; i < 3; i += 1) await talker.reply();
      const mail = Buffer.from(mailWith(sequence), 'latin1');
      const step = Math.max(1, Math.ceil(mail.length / pieces));
      for (let at = 0; at < mail.length; at += step) talker.send(mail.subarray(at, at + step));
      assert.match(await talker.reply(), /^5(50|54) 5\.6\.0 /);
      assert.equal(await talker.say('NOOP'), '250 2.0.0 OK');
    }
    assert.equal(rig.accepted.length, before);
    talker.destroy();
    await server.stop({ deadlineMs: 100 });

    const lax = await laxServer();
    t.after(lax.close);
    const client = await connectTalker(lax.port);
    client.send(
      `EHLO a\r\nMAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n${mailWith(sequence)}QUIT\r\n`,
    );
    await client.closed();
    assert.deepEqual(
      lax.recipients,
      ['ann@example.com', 'victim@example.com'],
      'the control server accepts the smuggled message',
    );
  });
}

test('control: the lax server reads an ordinary message as one', async (t) => {
  const lax = await laxServer();
  t.after(lax.close);
  const client = await connectTalker(lax.port);
  const mail = mailWith('\r\n');
  client.send(`EHLO a\r\nMAIL FROM:<${SENDER}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n${mail}QUIT\r\n`);
  await client.closed();
  assert.deepEqual(lax.recipients, ['ann@example.com']);
});

/** Drops NULs, accepts a lone CR or LF as a line break, and a line with one dot as the end, like vulnerable servers did. */
async function laxServer(): Promise<{ port: number; recipients: string[]; close(): void }> {
  const recipients: string[] = [];
  const server = net.createServer((socket) => {
    let text = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!text.endsWith('QUIT\r\n')) return;
      let inData = false;
      for (const line of text.replaceAll('\0', '').split(/[\r\n]+/)) {
        if (inData) inData = line !== '.';
        else if (/^DATA$/i.test(line)) inData = true;
        else if (/^RCPT TO:/i.test(line)) recipients.push(/<(.*)>/.exec(line)![1]!);
      }
      socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, recipients, close: () => void server.close() };
}
