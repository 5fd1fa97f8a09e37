/**
 * HAProxy in front of a mail server, as in many deployments: it accepts connections for which the server has no capacity, and stalls or
 * closes them silently. Counted in its log.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { blackHole, noBlackHoles } from '../kit/black-hole.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing } from '../kit/requirements.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type PeerProcess, peerFolder, startPeer } from './peer-process.ts';
import { countRows, fillWith, rigToPeer } from './rig-to-peer.ts';

const DOMAIN = 'behind.example';
const skip = missing('haproxy');

/** Starts HAProxy on 127.0.0.1, in front of this server. */
async function startHaproxy(
  t: TestContext,
  options: { port: number; frontend?: string[]; backend?: string[]; server: string },
): Promise<PeerProcess> {
  const folder = peerFolder('haproxy');
  const { port, frontend = [], backend = [], server } = options;
  const lines = [
    'global',
    'log stdout format raw local0 debug',
    'defaults',
    'mode tcp',
    'log global',
    'option tcplog',
    'timeout connect 30s',
    'timeout client 60s',
    'timeout server 60s',
    'timeout queue 60s',
    'frontend smtp',
    `bind 127.0.0.1:${port}`,
    ...frontend,
    'default_backend mail',
    'backend mail',
    ...backend,
    `server one ${server}`,
    '',
  ];
  writeFileSync(path.join(folder, 'haproxy.cfg'), lines.join('\n'));
  const peer = await startPeer(['haproxy', '-db', '-f', path.join(folder, 'haproxy.cfg')], { folder, port });
  t.after(() => peer.stop());
  return peer;
}

/** How its connections ended, as two letters: who closed it, and in which phase. */
function endings(peer: PeerProcess): string[] {
  return [...peer.output().matchAll(/ ([A-Za-z-]{2}) \d+\/\d+\/\d+\/\d+\/\d+ \d+\/\d+$/gm)].map(
    ([, ending]) => ending!,
  );
}

function assertAllOnce(sink: SmtpSink, mails: number): void {
  assert.equal(new Set(sink.messages.flatMap(({ to }) => to)).size, mails);
  assert.equal(sink.messages.length, mails, 'no duplicates');
}

const stalls: [name: string, queueMs: number, bannerMs: number][] = [
  ['closes after a while', 1_000, 30_000],
  ['stalls beyond our timeout', 60_000, 1_000],
];

for (const [name, queueMs, bannerMs] of stalls) {
  test(`capacity for three connections, each further one ${name}: few are tried, all mail arrives`, {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const sink = await smtpSink({ script: { dot: { delayMs: 10 } } });
    t.after(() => sink.close());
    const port = await freePort();
    const server = `127.0.0.1:${sink.port} maxconn 3`;
    const peer = await startHaproxy(t, { port, backend: [`timeout queue ${queueMs}ms`], server });
    const rig = await rigToPeer(
      t,
      { port, domains: { [DOMAIN]: ['127.0.0.1'] } },
      { deps: { timeouts: { bannerMs } } },
    );
    await fillWith(rig, 400, DOMAIN);
    await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 60_000);
    assertAllOnce(sink, 400);
    const queued = (): number => endings(peer).filter((ending) => ending[1] === 'Q').length;
    t.diagnostic(`${sink.connections.total} connections were served, ${queued()} were not: ${endings(peer)}`);
    assert.ok(queued() <= 6, `${queued()} connections failed`);
    assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0, 'no attempt was counted');
    assert.equal(countRows(rig, "event WHERE type = 'DeliveryDelay'"), 0);
  });
}

test('a late greeting is awaited', { skip, timeout: 60_000 }, async (t) => {
  const sink = await smtpSink({});
  t.after(() => sink.close());
  const port = await freePort();
  // The log shows a client that sends data before the greeting as connected to no server.
  const frontend = [
    'tcp-request inspect-delay 2s',
    'tcp-request content reject if { req.len gt 0 }',
    'tcp-request content accept if WAIT_END',
  ];
  const peer = await startHaproxy(t, { port, frontend, server: `127.0.0.1:${sink.port}` });
  const rig = await rigToPeer(t, { port, domains: { [DOMAIN]: ['127.0.0.1'] } });
  await fillWith(rig, 100, DOMAIN);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 45_000);
  assertAllOnce(sink, 100);
  assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0);
  assert.ok(!peer.output().includes('mail/<NOSRV>'), 'no client sent data before the greeting');
});

test('a balancer without a server stalls: the next MX host gets the mail, and it is tried once', {
  skip: skip || noBlackHoles,
  timeout: 60_000,
}, async (t) => {
  const [port, away] = [await freePort(), await freePort()];
  const second = await smtpSink({ host: '127.0.0.2', port });
  t.after(() => second.close());
  const hole = await blackHole('127.0.0.1', away);
  t.after(() => hole.close());
  const peer = await startHaproxy(t, { port, server: `127.0.0.1:${away}` });
  const rig = await rigToPeer(
    t,
    { port, domains: { [DOMAIN]: ['127.0.0.1', '127.0.0.2'] } },
    { deps: { timeouts: { bannerMs: 1_000 } } },
  );
  await fillWith(rig, 100, DOMAIN);
  await waitUntil('all messages to be delivered', () => countRows(rig, 'work') === 0, 45_000);
  assertAllOnce(second, 100);
  await waitUntil('its log', () => endings(peer).length >= 1);
  // The check whether it listens is one of them.
  assert.ok(endings(peer).length <= 2, `asked ${endings(peer)}`);
  assert.equal(countRows(rig, 'attempt WHERE number > 1'), 0);
});
