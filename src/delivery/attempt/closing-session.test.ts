/** A session that is sending QUIT still counts as open: the next one is dialed after it has closed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { smtpSink } from '../../../test/kit/smtp-sink.ts';
import { openSourceAddresses } from '../../net/source-addresses.ts';
import { openHostMemory } from '../routing/hosts.ts';
import { RELAY } from '../routing/route.ts';
import { type ConnectionOptions, openConnections } from './connections.ts';
import type { SessionNeed } from './pooled-session.ts';

const need: SessionNeed = { domain: RELAY, tls: false, avoid: new Set(), attempts: 0, emailSeq: 1 };

const QUIT_MS = 1_000;

/** Returns how long a session waits for the end of the previous one, ms. */
async function waits(roomForIdle: number): Promise<number> {
  const sink = await smtpSink({ script: { quit: { reply: '221 2.0.0 bye', delayMs: QUIT_MS } } });
  const dns = { lookupHost: async () => ({ status: 'found', value: ['127.0.0.1'], secure: false }) };
  const connections = openConnections({
    routing: {
      route: { kind: 'relay', relay: { host: '127.0.0.1', port: sink.port, implicitTls: false } },
      dns,
      sources: openSourceAddresses([]),
    },
    hosts: openHostMemory(() => 0),
    helo: 'test.example',
    registry: { pauseOf: () => undefined, isStalled: () => false, spareConnections: () => roomForIdle },
    sets: { serves: () => true },
    limits: { messagesPerConnection: () => 0 },
  } as unknown as ConnectionOptions);
  try {
    const first = await connections.open(RELAY, need);
    assert.ok(first.ok);
    // The session has no messages left.
    const closed = connections.release(first.pooled);
    const startedMs = performance.now();
    const second = await connections.open(RELAY, need);
    assert.ok(second.ok);
    const waitedMs = performance.now() - startedMs;
    await closed;
    return waitedMs;
  } finally {
    connections.destroyAll();
    await sink.close();
  }
}

test('at the limit no session is dialed while another one is closing', async () => {
  assert.ok((await waits(0)) >= QUIT_MS - 10);
});

test('a session is dialed immediately below the limit', async () => {
  assert.ok((await waits(1)) < QUIT_MS - 10);
});
