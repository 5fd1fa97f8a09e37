/** `postrider doctor --send-test` through a real service to an SMTP server on loopback. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeDns, fakeDns } from '../../test/kit/fake-dns.ts';
import { runInProcess } from '../../test/kit/in-process-command.ts';
import { type SmtpSink, smtpSink } from '../../test/kit/smtp-sink.ts';
import { environment, type Service, startService } from '../../test/kit/start-service.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { apiClient } from './api-client.ts';
import { followMessage } from './send-test.ts';

let dns: FakeDns;
let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink({ host: '127.0.0.2', tls: 'starttls' });
  dns = await fakeDns({
    'friend.example': { MX: [[10, 'mx.friend.example']] },
    'mx.friend.example': { A: ['127.0.0.2'] },
  });
  service = await startService({
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(sink.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
});
after(async () => {
  await service.close();
  await Promise.all([sink.close(), dns.close()]);
});

const doctor = (...args: string[]) => runInProcess(['doctor', ...args], environment(service.dataDir));

test('an accepted message is displayed with its transcript', async () => {
  const without = await doctor('--send-test', 'ann@friend.example');
  assert.equal(without.code, 1);
  assert.match(without.stderr, /no verified domain/);
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const { code, stdout, stderr } = await doctor('--send-test', 'ann@friend.example');
  assert.equal(code, 0, stdout + stderr);
  assert.match(stdout, /^msg_\S+ from postmaster@shop\.example to ann@friend\.example\n/);
  assert.match(stdout, /mx\.friend\.example \[127\.0\.0\.2\], TLSv1\.3: delivered/);
  assert.match(stdout, / ms {2}C: RCPT TO:<ann@friend\.example>/);
  assert.match(stdout, /\ndelivered; check whether it is in the inbox/);
  assert.equal(sink.messages.length, 1);
  assert.match(sink.messages[0]!.content.toString(), /^DKIM-Signature:[\s\S]*Subject: Test of the mail service/m);
});

test('a rejected message is reported with the reply and the fix', async () => {
  sink.setScript({ rcpt: '550 5.1.1 no such user here' });
  const { code, stdout } = await doctor(
    '--send-test',
    'nobody@friend.example',
    '--from',
    'hello@shop.example',
    '--json',
  );
  assert.equal(code, 1);
  const outcome = JSON.parse(stdout);
  assert.deepEqual([outcome.from, outcome.status, outcome.attempts.length], ['hello@shop.example', 'bounced', 1]);
  assert.ok(JSON.stringify(outcome.attempts[0].dialogue).includes('550 5.1.1 no such user here'));
});

test('a deferred message is followed until the timeout, showing each attempt once', async () => {
  sink.setScript({ rcpt: '451 4.7.1 greylisted, try again' });
  const target = { base: service.url, apiKey: service.live.apiKey, accountId: service.live.accountId };
  const mail = { from: 'hello@shop.example', to: 'bob@friend.example', subject: 'Later', text: 'x' };
  const api = apiClient(target);
  const sent = await api.call({ method: 'POST', path: '/send', body: JSON.stringify(mail) });
  const { messageId } = sent.body.data as { messageId: string };
  const shown: string[] = [];
  const follow = (waitMs: number) =>
    followMessage({ api, messageId, waitMs, onAttempt: ({ outcome }) => shown.push(outcome) });
  const waiting = await waitUntil('the first attempt', async () => {
    const message = await follow(0);
    return message.status === 'delayed' ? message : undefined;
  });
  assert.ok(waiting.nextAttemptAt);
  shown.length = 0;
  sink.setScript({});
  const followed = follow(60_000);
  await waitUntil('the attempt to be displayed', () => shown.length === 1);
  await service.cli('queue', 'retry', messageId);
  assert.equal((await followed).status, 'delivered');
  assert.deepEqual(shown, ['delayed', 'delivered']);
});

test('sandbox keys and rejected accounts are reported', async () => {
  const key = ['--url', service.url, '--id', service.sandbox.accountId, '--key', service.sandbox.apiKey];
  const sandbox = await doctor('--send-test', 'ann@friend.example', ...key);
  assert.deepEqual([sandbox.code, /requires a live key/.test(sandbox.stderr)], [2, true]);
  const foreign = await doctor('--send-test', 'ann@friend.example', '--from', 'me@other.example');
  assert.equal(foreign.code, 1);
  assert.match(foreign.stdout + foreign.stderr, /SENDER_NOT_VERIFIED/);
});
