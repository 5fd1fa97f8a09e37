/**
 * SIGTERM with open SMTP sessions: a message in transit is finished and answered, nothing new starts on existing and new connections (451
 * and 421), all sessions end with 421, and the process exits 0.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('a planned stop loses no message in transit', { timeout: 150_000 }, async (t) => {
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
  await waitUntil('the stop', () => service.log.includes('"stopping"'));
  const late = await connectTalker(service.smtpPort);
  assert.match(await late.reply(), /^421 4\.3\.2 /);
  await late.closed();
  assert.match(await idle.say('MAIL FROM:<shop@shop.example>'), /^451 4\.3\.2 /);
  assert.equal((await service.api.get('/ready')).status, 503);
  busy.send('second half\r\n.\r\n');
  const id = /^250 2\.0\.0 queued as (msg_\w+)$/.exec(await busy.reply())?.[1];
  assert.ok(id);
  for (const one of [busy, idle]) {
    assert.match((await one.line()) ?? '', /^421 4\.3\.2 /);
    await one.closed();
  }
  assert.deepEqual(await ended, { code: 0, signal: null }, service.log.slice(-2_000));
  await service.restart();
  const { text } = await service.api.get(`/messages/${id}/content`);
  assert.ok(text.endsWith('first half\r\nsecond half\r\n'));
});
