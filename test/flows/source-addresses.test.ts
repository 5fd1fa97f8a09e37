/** POSTRIDER_SOURCE_ADDRESSES: mail is sent from each of them in turn, observed at the receivers. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let dns: FakeDns;
let v4: SmtpSink;
let v6: SmtpSink;
let service: Service;

before(async () => {
  v4 = await smtpSink();
  v6 = await smtpSink({ host: '::1', port: v4.port });
  const four = Array.from({ length: 6 }, (_, index) => [`four${index}.example`, { A: ['127.0.0.1'] }]);
  dns = await fakeDns({ ...Object.fromEntries(four), 'six.example': { AAAA: ['::1'], A: ['127.0.0.1'] } });
  service = await startService({
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(v4.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8, ::1',
      POSTRIDER_SOURCE_ADDRESSES: '127.0.0.11, ::1, 127.0.0.12',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await v4?.close();
  await v6?.close();
  await dns?.close();
});

async function deliver(to: string): Promise<{ sourceAddress: string; address: string }> {
  const answer = await service.api.post('/send', { from: 'orders@shop.example', to, subject: 'Hello', text: 'Hello' });
  assert.equal(answer.status, 202, answer.text);
  return waitUntil(`the delivery to ${to}`, async () => {
    const { body } = await service.api.get(`/messages/${answer.body.data.messageId}`);
    return body.status === 'delivered' ? body.attempts[0] : undefined;
  });
}

test("rotates source addresses within the peer's address family, and records them in attempts", async () => {
  const said: string[] = [];
  for (let domain = 0; domain < 6; domain += 1) said.push((await deliver(`a@four${domain}.example`)).sourceAddress);
  assert.deepEqual(v4.connections.from, said);
  assert.deepEqual(
    said,
    [0, 1, 2].flatMap(() => ['127.0.0.11', '127.0.0.12']),
  );
  const six = await deliver('a@six.example');
  assert.deepEqual([six.address, six.sourceAddress], ['::1', '::1']);
  assert.deepEqual(v6.connections.from, ['::1']);
});
