/**
 * SIGTERM while a delivery waits for its last reply: until it ends, both ports stay open and report that nothing is accepted, over HTTP on
 * existing and new connections, over SMTP in sessions and in the greeting. Then the process exits.
 */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import test from 'node:test';
import { runningMs } from '../kit/running-time.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

interface Said {
  status: number | undefined;
  connection: string | undefined;
}

function get(url: string, agent: Agent): Promise<Said> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { agent }, (answer) => {
      answer.resume().on('end', () => resolve({ status: answer.statusCode, connection: answer.headers.connection }));
    });
    asking.on('error', reject).end();
  });
}

test('a draining process reports it and exits 0 as soon as it is done', { timeout: 120_000 }, async (t) => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let dots = 0;
  const sink = await smtpSink({
    script: {
      dot: async () => {
        dots += 1;
        await held;
        return '250 2.0.0 ok';
      },
    },
  });
  t.after(() => sink.close());
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const mail = { from: 'shop@shop.example', to: 'ann@slow.example', subject: 'Slow', text: 'x' };
  const sent = await service.api.post('/send', mail);
  assert.equal(sent.status, 202);
  await waitUntil('the final dot', () => dots === 1);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  assert.deepEqual(await get(`${service.url}/health`, agent), { status: 200, connection: 'keep-alive' });
  const session = await connectTalker(service.smtpPort);
  await session.reply();
  await session.logIn(service.smtpCredential);

  const ended = service.kill('SIGTERM');
  await waitUntil('the stop', () => service.log.includes('"stopping"'));
  // The kept connection is served once more, and closes after its response.
  assert.deepEqual(await get(`${service.url}/health`, agent), { status: 200, connection: 'close' });
  const ready = await service.anonymous.get('/ready');
  assert.equal(ready.status, 503);
  assert.deepEqual(ready.body.reasons, ['service: the service is stopping']);
  for (const path of ['/send', '/send/batch', '/attachments', '/templates']) {
    const refused = await service.api.post(path, mail);
    assert.equal(refused.status, 503, path);
    assert.equal(refused.body.error.code, 'OVERLOADED');
    assert.match(refused.headers['retry-after'] ?? '', /^[1-9]\d*$/);
    assert.equal(refused.headers.connection, 'close');
  }
  assert.match(await session.say('MAIL FROM:<shop@shop.example>'), /^451 4\.3\.2 /);
  const late = await connectTalker(service.smtpPort);
  assert.match(await late.reply(), /^421 4\.3\.2 /);
  late.destroy();

  const releasedAt = runningMs();
  release();
  assert.match(await session.reply(), /^421 4\.3\.2 /);
  session.destroy();
  assert.deepEqual(await ended, { code: 0, signal: null }, service.log.slice(-2_000));
  assert.ok(runningMs() - releasedAt < 15_000, 'the stop waits for nothing else');
  await service.restart();
  const { body } = await service.api.get(`/messages/${sent.body.data.messageId}`);
  assert.equal(body.status, 'delivered');
  assert.equal(sink.messages.length, 1);
});
