/**
 * The process is killed after bounces were acknowledged with 250, half of them so large that they are processed later: each takes effect
 * once after the next start. Bounces of one copy that arrive twice are one Bounce. Counted in the event log.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const COUNT = 20;

function report(recipient: string, isLarge: boolean): string {
  return [
    'From: MAILER-DAEMON@mx.example',
    'Subject: Undelivered Mail Returned to Sender',
    'MIME-Version: 1.0',
    'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
    '',
    '--b',
    'Content-Type: text/plain',
    '',
    'It could not be delivered.',
    ...(isLarge ? Array.from({ length: 2_500 }, () => 'All that is known of it follows.') : []),
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.example',
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    'Action: failed',
    'Status: 5.1.1',
    'Diagnostic-Code: smtp; 550 5.1.1 no such user',
    '',
    '--b--',
    '',
  ].join('\r\n');
}

test('kill -9 between 250 and processing: each bounce is one event', { timeout: 600_000 }, async (t) => {
  const sink = await smtpSink();
  t.after(() => sink.close());
  const env = {
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    POSTRIDER_BOUNCE_DOMAIN: 'bounces.example',
    POSTRIDER_INBOUND_PORT: '0',
  };
  const service = await startService({ env });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const port = (): number =>
    (JSON.parse(readFileSync(path.join(service.dataDir, 'serving.json'), 'utf8')) as { inboundPort: number })
      .inboundPort;
  const to = Array.from({ length: COUNT }, (_, index) => `r${index}@x.example`);
  for (const address of to) {
    const json = { from: 'a@shop.example', to: address, subject: 'x', text: 'x' };
    assert.equal((await service.api.post('/send', json)).status, 202);
  }
  await waitUntil('the deliveries', () => sink.messages.length === COUNT);
  assert.ok(sink.messages.every((mail) => /^b\+[a-z2-7]{45}@bounces\.example$/.test(mail.from)));
  let answered = 0;
  for (const half of [sink.messages.slice(0, COUNT / 2), sink.messages]) {
    const talker = await connectTalker(port());
    await talker.reply();
    await talker.say('EHLO mx.example');
    for (const [index, mail] of half.entries()) {
      talker.send(`MAIL FROM:<>\r\nRCPT TO:<${mail.from}>\r\nDATA\r\n`);
      for (let step = 0; step < 3; step += 1) assert.match(await talker.reply(), /^[23]/);
      talker.send(`${report(mail.to[0]!, index % 2 === 0)}.\r\n`);
      assert.match(await talker.reply(), /^250 2\.0\.0 queued as inb_/);
      answered += 1;
    }
    assert.deepEqual(await service.kill('SIGKILL'), { code: null, signal: 'SIGKILL' });
    talker.destroy();
    await service.restart({ env });
  }
  assert.equal(answered, COUNT * 1.5);
  const bounces = async (): Promise<Record<string, unknown>[]> =>
    (await service.api.get('/events?eventType=Bounce&limit=100')).body as unknown as Record<string, unknown>[];
  await waitUntil('every bounce', async () => new Set((await bounces()).map((one) => one.recipient)).size === COUNT);
  // The last messages were processed by this process or by a killed one; nothing is left.
  await waitUntil('all inbound mail to be processed', () => {
    const database = new DatabaseSync(path.join(service.dataDir, 'postrider.db'), { readOnly: true });
    const row = database.prepare("SELECT count(*) AS n FROM work WHERE kind = 'inbound'").get() as { n: number };
    database.close();
    return row.n === 0;
  });
  assert.equal((await bounces()).length, COUNT, 'one event each, though half arrived twice');
});
