/**
 * Reports of 1 MB each that are made to be expensive arrive through valid return paths: another account's sends are answered as usual in
 * the meantime.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { fewestOf } from '../kit/running-time.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const BYTES = 990_000;
const ROUNDS = 5;
/** The promise is 100 ms; the rest allows for other load on the machine. The best of a few runs counts. */
const LONGEST_MS = 250;

let dns: FakeDns;
let sink: SmtpSink;
let service: Service;
let other: Api;
before(async () => {
  [dns, sink] = await Promise.all([fakeDns(), smtpSink()]);
  service = await startService({
    env: {
      ...bounceAddresses,
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_INBOUND_MAX_CONNECTIONS_PER_ADDRESS: '100',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const { accountId, apiKey } = await service.cli('account', 'create', '--name', 'Other');
  other = apiClient(() => service.url, { accountId, apiKey });
  await service.cli('domain', 'add', accountId, 'other.example', '--verified');
});
after(async () => {
  other?.close();
  await service?.close();
  await Promise.all([sink?.close(), dns?.close()]);
});

const MAILER = 'From: MAILER-DAEMON@mx.example\r\nSubject: Undelivered mail\r\n';
const REPORT = `${MAILER}Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n`;
const filled = (piece: string): string => piece.repeat(Math.floor(BYTES / piece.length));
const part = (header: string): string => `--b\r\n${header}\r\n\r\nx\r\n`;
const recipients = (count: number): string =>
  Array.from({ length: count }, (_, i) => `Final-Recipient: rfc822;a${i}@b.example\r\n\r\n`).join('');

const BOMBS = [
  REPORT + filled(part(`Content-Type: text/plain${';a=b'.repeat(1_200)}`)),
  REPORT + filled(part(`X-A: b${'\r\nA: b'.repeat(800)}`)),
  REPORT + filled('--\r\n'),
  `${MAILER}\r\n${filled('\r\n')}`,
  `${MAILER}\r\n${filled(`${'a'.repeat(1_998)}\r\n`)}`,
  `${REPORT}--b\r\nContent-Type: message/delivery-status\r\n\r\n${recipients(500)}${filled('a:b\r\n\r\n').slice(0, 900_000)}`,
  `${MAILER}${filled('To: \xfc a@b.example\r\n')}`,
  `${MAILER}\r\n${filled('<a@b.example>: failed\r\n')}`,
].map((content) => Buffer.from(content, 'latin1'));

async function sent(api: Api, from: string): Promise<string> {
  const mail = { from, to: 'ann@taken.example', subject: 'Order', text: 'Thank you' };
  const { body, text } = await api.post('/send', mail);
  assert.equal(body.success, true, text);
  return body.data.messageId;
}

async function readReports(): Promise<number> {
  const { text } = await service.api.get('/metrics');
  const counts = text.matchAll(/^postrider_inbound_reports_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** The longest time that the other account waits for a response. */
async function longestWait(isOver: () => boolean): Promise<number> {
  let longestMs = 0;
  while (!isOver()) {
    const began = performance.now();
    await sent(other, 'orders@other.example');
    longestMs = Math.max(longestMs, performance.now() - began);
  }
  return longestMs;
}

test('expensive reports of one account do not delay the replies of another', async () => {
  const id = await sent(service.api, 'orders@shop.example');
  await waitUntil('the delivery', async () => {
    const message: JsonObject = (await service.api.get(`/messages/${id}`)).body;
    return message.status === 'delivered';
  });
  const longestMs = await fewestOf(LONGEST_MS, async () => {
    const expected = (await readReports()) + ROUNDS * BOMBS.length;
    let isOver = false;
    const waiting = longestWait(() => isOver);
    for (let round = 0; round < ROUNDS; round += 1) {
      const replies = await Promise.all(
        BOMBS.map((content) => bring(service.inboundPort, { to: tokenAddress('bounce', id), content })),
      );
      for (const reply of replies) assert.match(reply, /^250 /);
    }
    await waitUntil('them to be read', async () => (await readReports()) >= expected, 60_000);
    isOver = true;
    return waiting;
  });
  assert.ok(longestMs < LONGEST_MS, `${Math.round(longestMs)} ms`);
});
