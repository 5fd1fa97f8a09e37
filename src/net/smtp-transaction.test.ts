/** Sending messages: every combination of replies, with and without pipelining. */
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { begin, mail, open } from '../../test/kit/smtp-session.ts';
import type { SinkOptions } from '../../test/kit/smtp-sink.ts';
import { openSmtpSession } from './smtp-client.ts';

const THREE = ['one@example.net', 'two@example.net', 'three@example.net'];
const refuseTwo = (context: { line: string }) => (context.line.includes('two@') ? '550 5.1.1 no such user' : undefined);
const WITHOUT_PIPELINING = ['SIZE 50000000', '8BITMIME', 'SMTPUTF8'];

for (const extensions of [undefined, WITHOUT_PIPELINING]) {
  const how = extensions ? 'without pipelining' : 'pipelined';
  const withScript = (script: NonNullable<SinkOptions['script']>): SinkOptions => ({
    script,
    ...(extensions ? { extensions } : {}),
  });

  test(`${how}: recipients are rejected separately, and the next message needs no RSET`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: refuseTwo }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.recipient, one.accepted, one.stage, one.reply?.code]),
      [
        ['one@example.net', true, 'dot', 250],
        ['two@example.net', false, 'rcpt', 550],
        ['three@example.net', true, 'dot', 250],
      ],
    );
    assert.deepEqual(sink.messages[0]?.to, ['one@example.net', 'three@example.net']);
    const again = await session.send(mail());
    assert.equal(again.recipients[0]?.accepted, true);
    assert.ok(!sink.commands.includes('RSET'));
    assert.equal(session.sentCount, 2);
    assert.equal(sink.connections.total, 1);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: RSET precedes the next message after all recipients are rejected`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: ['550 5.1.1 no', '452 4.2.2 full'] }));
    const result = await session.send(mail({ recipients: THREE.slice(0, 2) }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.code, one.accepted]),
      [
        ['rcpt', 550, false],
        ['rcpt', 452, false],
      ],
    );
    const again = await session.send(mail());
    assert.equal(again.recipients[0]?.accepted, true);
    assert.ok(sink.commands.includes('RSET'));
    assert.equal(sink.messages.length, 1);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: the next message is sent after a rejected MAIL`, async () => {
    const { sink, session } = await begin(withScript({ mail: ['451 4.7.1 greylisted'] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.enhanced]),
      THREE.map(() => ['mail', '4.7.1']),
    );
    assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: accepted recipients get the reply to a rejected DATA`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: refuseTwo, data: ['451 4.3.0 later'] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.map((one) => [one.stage, one.reply?.code]),
      [
        ['data', 451],
        ['rcpt', 550],
        ['data', 451],
      ],
    );
    assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
    assert.deepEqual(sink.violations, []);
  });

  test(`${how}: the dot is rejected`, async () => {
    const { session } = await begin(withScript({ dot: '554 5.7.1 spam' }));
    const result = await session.send(mail());
    assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.enhanced], ['dot', '5.7.1']);
    assert.equal(result.recipients[0]?.accepted, false);
    assert.equal(session.usable, true);
  });

  test(`${how}: a 421 applies to all remaining commands and ends the session`, async () => {
    const { sink, session } = await begin(withScript({ rcpt: ['250 ok', { reply: '421 4.3.2 closing', drop: true }] }));
    const result = await session.send(mail({ recipients: THREE }));
    assert.deepEqual(
      result.recipients.slice(1).map((one) => [one.accepted, one.reply?.code]),
      [
        [false, 421],
        [false, 421],
      ],
    );
    assert.equal(result.recipients[0]?.accepted, false);
    assert.equal(session.usable, false);
    assert.equal(sink.messages.length, 0);
  });

  test(`${how}: the connection is lost at each stage`, async () => {
    for (const stage of ['mail', 'rcpt', 'data', 'dot'] as const) {
      const { session } = await begin(withScript({ [stage]: { drop: true } }));
      const result = await session.send(mail());
      const [only] = result.recipients;
      assert.deepEqual([only?.accepted, only?.stage, only?.reply], [false, stage, undefined], stage);
      assert.match(only?.cause ?? '', /ECONNRESET|EPIPE/);
      assert.ok(only?.message);
      assert.equal(session.usable, false);
    }
  });
}

test('pipelined: 354 without recipients is ended with a lone dot and delivers nothing', async () => {
  const { sink, session } = await begin({ script: { rcpt: ['550 5.1.1 no'], data: ['354 go on'] } });
  const result = await session.send(mail());
  assert.deepEqual([result.recipients[0]?.stage, result.recipients[0]?.reply?.code], ['rcpt', 550]);
  assert.equal(sink.messages.length, 0);
  assert.equal((await session.send(mail())).recipients[0]?.accepted, true);
  assert.deepEqual(sink.violations, []);
});

test('pipelined: accepted RCPT and DATA after a rejected MAIL close the connection', async () => {
  const server = net.createServer((socket) => {
    socket.on('error', () => {}).write('220 x\r\n');
    socket.on('data', (chunk) => {
      received += chunk.toString();
      if (received.endsWith('DATA\r\n')) socket.write('451 no\r\n250 ok\r\n354 go\r\n');
      else if (received.endsWith('\r\n')) socket.write('250-x\r\n250 PIPELINING\r\n');
    });
  });
  let received = '';
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push({ close: () => void server.close() });
  const result = await openSmtpSession({
    host: 'mx.example.net',
    addresses: ['127.0.0.1'],
    port: (server.address() as net.AddressInfo).port,
    helo: 'mail.example.com',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(result.ok);
  const [only] = (await result.session.send(mail())).recipients;
  assert.deepEqual([only?.accepted, only?.stage, only?.reply?.code], [false, 'mail', 451]);
  assert.equal(result.session.usable, false);
  assert.ok(received.endsWith('DATA\r\n'), 'nothing was written after DATA');
});

test('a message takes two writes, the envelope and the content with dot', async () => {
  const { sink, session } = await begin();
  const result = await session.send(mail());
  assert.deepEqual(
    result.dialogue.map((line) => `${line.direction} ${line.text}`),
    [
      'C MAIL FROM:<a@example.com> SIZE=21',
      'C RCPT TO:<b@example.net>',
      'C DATA',
      'S 250 2.1.0 sender ok',
      'S 250 2.1.5 recipient ok',
      'S 354 go ahead',
      'C <21 bytes>',
      'S 250 2.0.0 queued',
    ],
  );
  assert.equal(sink.messages[0]?.content.toString(), 'Subject: x\r\n\r\nhello\r\n');
});
