/**
 * SIGTERM while SMTP sessions are open: idle ones are told with 421, a mail that is coming in is finished and answered, nothing
 * new begins, and the process ends with 0.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { startService } from '../kit/start-service.ts';

test('a planned stop loses no mail that is under way', { timeout: 60_000 }, async (t) => {
  const service = await startService();
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const open = async (): Promise<Talker> => {
    const talker = await connectTalker(service.smtpPort);
    await talker.reply();
    await talker.logIn(service.smtpCredential);
    return talker;
  };
  const [idle, busy] = [await open(), await open()];
  busy.send('MAIL FROM:<shop@shop.example>\r\nRCPT TO:<ann@example.invalid>\r\nDATA\r\n');
  for (let i = 0; i < 3; i += 1) await busy.reply();
  busy.send('From: shop@shop.example\r\nSubject: under way\r\n\r\nfirst half\r\n');
  const ended = service.kill('SIGTERM');
  assert.match((await idle.line()) ?? '', /^421 4\.3\.2 /);
  await idle.closed();
  await assert.rejects(connectTalker(service.smtpPort), /ECONNREFUSED/);
  busy.send('second half\r\n.\r\n');
  const id = /^250 2\.0\.0 queued as (msg_\w+)$/.exec(await busy.reply())?.[1];
  assert.ok(id);
  assert.match((await busy.line()) ?? '', /^421 4\.3\.2 /);
  assert.deepEqual(await ended, { code: 0, signal: null }, service.log.slice(-2_000));
  await service.restart();
  const { text } = await service.api.get(`/messages/${id}/content`);
  assert.ok(text.endsWith('first half\r\nsecond half\r\n'));
});
