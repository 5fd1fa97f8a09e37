/** Reports on the inbound port: size limits, and what is stored of reports and of postmaster mail. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bringMail, type InboundRig, inboundRig, openInbound } from '../../test/kit/inbound-rig.ts';
import { returning } from '../../test/kit/report-mail.ts';
import { connectTalker } from '../../test/kit/smtp-talker.ts';
import { readReport } from '../mail/report/report.ts';

let rig: InboundRig;
let bounce: string;
before(async () => {
  rig = await inboundRig();
  bounce = `${rig.words.bounce}@bounces.example`;
});
after(() => rig.close());

async function countBlobs(): Promise<number> {
  let count = 0;
  for await (const _ of rig.blobs.list()) count += 1;
  return count;
}

test('a report of 50,000,000 bytes is accepted, and a larger one is rejected', async () => {
  const { port } = await rig.listen();
  const talker = await connectTalker(port);
  await talker.reply();
  assert.match(await talker.say('EHLO mx.example'), /^250[ -]SIZE 50000000$/m);
  const before = rig.accepted.length;
  const blobs = await countBlobs();
  const whole = returning(50_000_000).toString('latin1');
  assert.equal(whole.length, 50_000_000);
  assert.match(await bringMail(talker, bounce, whole), /^250 /);
  assert.match(await bringMail(talker, bounce, whole.replace('Subject: ', 'Subject: x')), /^552 5\.3\.4 /);
  assert.match(await talker.say(`MAIL FROM:<> SIZE=50000001`), /^552 5\.3\.4 /);
  const [stored, ...more] = rig.accepted.slice(before);
  assert.deepEqual(more, []);
  const report = await readReport(stored!.content!);
  assert.ok(report.kind === 'bounce');
  assert.deepEqual(
    [report.recipients[0]!.finalRecipient, report.mail.messageId],
    ['ann@example.com', '<m@shop.example>'],
  );
  assert.ok(stored!.sizeBytes < 2_000 && stored!.sizeBytes === stored!.content!.length, `${stored!.sizeBytes} bytes`);
  assert.equal(await countBlobs(), blobs, 'nothing of the returned message is stored');
  talker.destroy();
});

test('postmaster mail is stored unchanged up to 10,000,000 bytes, and condensed above', async () => {
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  const before = rig.accepted.length;
  const letter = (bytes: number): string => {
    const head = 'From: ann@provider.example\r\nSubject: your mail\r\n\r\n';
    return head.padEnd(bytes - 2, `${'x'.repeat(98)}\r\n`).concat('\r\n');
  };
  for (const bytes of [500, 10_000_000, 10_000_001])
    assert.match(await bringMail(talker, 'postmaster@bounces.example', letter(bytes)), /^250 /);
  const mails = rig.accepted.slice(before);
  assert.deepEqual(
    mails.map(({ use, sizeBytes, content }) => [use, sizeBytes, content === null]),
    [
      [{ kind: 'postmaster' }, 500, false],
      [{ kind: 'postmaster' }, 10_000_000, true],
      [{ kind: 'postmaster', receivedBytes: 10_000_001 }, mails[2]!.sizeBytes, false],
    ],
  );
  assert.ok(mails[2]!.sizeBytes < 65_000);
  assert.equal((await rig.blobs.get(mails[1]!.blobKey!))!.toString('latin1'), letter(10_000_000));
  talker.destroy();
});

test('mail to a return path and a route is stored in full for the route and as a report', async () => {
  const { port } = await rig.listen();
  const talker = await openInbound(port);
  const before = rig.accepted.length;
  const content = returning(200_000).toString('latin1');
  await talker.say(`MAIL FROM:<> SIZE=${content.length}`);
  for (const to of [bounce, 'support@in.example']) assert.match(await talker.say(`RCPT TO:<${to}>`), /^250 /);
  assert.match(await talker.say('DATA'), /^354 /);
  talker.send(`${content}.\r\n`);
  assert.match(await talker.reply(), /^250 /);
  const [report, whole] = rig.accepted.slice(before);
  assert.ok(report!.use.kind === 'return-path' && report!.sizeBytes < 2_000);
  assert.equal((await rig.blobs.get(whole!.blobKey!))!.toString('latin1'), content);
  talker.destroy();
});
