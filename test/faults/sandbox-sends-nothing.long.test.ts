/**
 * Observed from outside the process, the sandbox sends nothing over the network: 1,000 sends to the domains of real providers, with their
 * retries and expiry, connect no socket and look up no name. A live send is the control.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { fakeDns } from '../kit/fake-dns.ts';
import { cannotTrace } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const SENDS = 1_000;
const DOMAINS = ['gmail.com', 'outlook.com', 'yahoo.com', 'gmx.de', 'icloud.com', 'proton.me', 'bücher.example'];
const WORDS = ['ann', 'bounced', 'delayed', 'complained', 'suppressed'];

/** System calls that send bytes to a network, except for the sockets within the machine that Node itself uses. */
function outward(trace: string): string[] {
  return trace
    .split('\n')
    .filter((line) => /\b(connect|sendto|sendmsg|sendmmsg)\(/.test(line) && /sa_family=AF_INET6?/.test(line));
}

test('1,000 sandbox sends use neither DNS nor SMTP', { skip: cannotTrace(), timeout: 170_000 }, async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-silence-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'trace');
  const sink = await smtpSink();
  t.after(() => sink.close());
  const dns = await fakeDns({ 'gmail.com': { MX: [[10, 'mx.gmail.com']] }, 'mx.gmail.com': { A: ['127.0.0.1'] } });
  t.after(() => dns.close());
  const service = await startService({
    wrapper: ['strace', '-f', '-qq', '-o', file, '-e', 'trace=connect,sendto,sendmsg,sendmmsg'],
    env: {
      POSTRIDER_DNS_SERVERS: dns.server,
      POSTRIDER_MX_PORT: String(sink.port),
      POSTRIDER_MX_ALLOW: '127.0.0.0/8',
    },
  });
  t.after(() => service.close());
  const mail = { from: 'Shop <orders@gmail.com>', subject: 'Hello', text: 'Hello' };
  const messages = Array.from({ length: SENDS }, (_, index) => ({
    ...mail,
    to: `${WORDS[index % WORDS.length]}+${index}@${DOMAINS[index % DOMAINS.length]}`,
    ...(index % 10 === 9 && { headers: { 'X-Sandbox-Outcome': '451 4.3.0 later' } }),
  }));
  for (let at = 0; at < SENDS; at += 100) {
    const answer = await service.sandboxApi.post('/send/batch', { messages: messages.slice(at, at + 100) });
    const results = answer.body.results as JsonObject[];
    assert.ok(
      results.every((one) => one.status === 202),
      answer.text.slice(0, 500),
    );
  }
  // Moves the sandbox clock past every retry.
  // A single call has limited time, and a traced process may need more.
  for (let seconds: number | undefined = 80 * 3_600; seconds !== undefined; ) {
    const advance = { method: 'POST', path: '/sandbox/clock/advance', body: { seconds }, timeoutMs: 60_000 };
    const moved = await service.sandboxApi.call(advance);
    assert.equal(moved.status, 200, moved.text);
    seconds = moved.body.remainingSeconds;
  }
  for (const status of ['queued', 'scheduled', 'delayed', 'sending']) {
    const { body } = await service.sandboxApi.get(`/messages?status=${status}`);
    assert.deepEqual(body, [], `no message is ${status}`);
  }
  const seen = new Set<string>();
  for (let cursor = ''; ; ) {
    const page = await service.sandboxApi.get(`/events?order=asc&limit=100${cursor}`);
    for (const event of page.body as unknown as JsonObject[]) {
      if (event.eventType !== 'Send' && event.eventType !== 'DeliveryDelay') seen.add(event.messageId);
    }
    cursor = `&cursor=${page.headers['x-next-cursor']}`;
    if (!page.headers.link) break;
  }
  assert.equal(seen.size, SENDS, 'every message reached a final status');
  assert.deepEqual(outward(readFileSync(file, 'utf8')), []);
  assert.equal(dns.questions.length, 0, dns.questions.join(', '));
  assert.equal(sink.connections.total, 0);

  await service.cli('domain', 'add', service.live.accountId, 'gmail.com', '--verified');
  assert.equal((await service.api.post('/send', { ...mail, to: 'ann@gmail.com' })).status, 202);
  await waitUntil('the control to reach the sink', () => sink.messages.length === 1);
  assert.ok(dns.questions.includes('MX gmail.com'));
  assert.ok(outward(readFileSync(file, 'utf8')).length > 0, 'control: a live message reaches the sink');
});
