/** How a start applies its settings. A process without the api role serves only health, readiness, and metrics. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import test from 'node:test';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('other roles serve only /health, /ready, and /metrics', { timeout: 150_000 }, async (t) => {
  const service = await startService();
  t.after(() => service.close());
  for (const role of ['delivery', 'smtp', 'webhooks', 'smtp,webhooks']) {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null });
    await service.restart({ env: { POSTRIDER_ROLES: role } });
    const { anonymous, api } = service;
    assert.deepEqual((await anonymous.get('/health')).body, { status: 'ok' }, role);
    const ready = await anonymous.get('/ready');
    assert.deepEqual([ready.status, ready.body], [200, { status: 'ready', reasons: [] }], role);
    const metrics = await anonymous.get('/metrics');
    assert.equal(metrics.status, 200, role);
    assert.match(metrics.text, /^postrider_queue_depth_messages 0$/m);
    for (const path of ['/openapi.json', '/docs', '/messages', '/account']) {
      const missing = await api.get(path);
      assert.deepEqual([missing.status, missing.body.reasonCode], [404, 'NOT_FOUND'], `${role} ${path}`);
    }
    assert.equal((await api.post('/send', {})).status, 404, role);
    assert.ok(service.log.includes(`"roles":${JSON.stringify(role.split(','))}`), service.log);
  }
});

test('other roles start while another process has the HTTP port, and log what is missing', {
  timeout: 150_000,
}, async (t) => {
  const first = await startService();
  t.after(() => first.close());
  const env = { POSTRIDER_HTTP_PORT: new URL(first.url).port, POSTRIDER_ROLES: 'delivery' };
  const second = await startService({ env });
  t.after(() => second.close());
  await waitUntil('its log line', () => second.log.includes('/health, /ready, and /metrics are not served'));
  assert.equal((await first.anonymous.get('/health')).status, 200);
  assert.deepEqual(await second.kill('SIGTERM'), { code: 0, signal: null });
});

test('SMTP submission binds to POSTRIDER_SMTP_HOST, or to all addresses by default', {
  timeout: 150_000,
}, async (t) => {
  for (const [env, isOpen] of [
    [{ POSTRIDER_SMTP_HOST: '127.0.0.1' }, false],
    [{}, true],
  ] as const) {
    const service = await startService({ env });
    t.after(() => service.close());
    for (const [host, wanted] of [
      ['127.0.0.1', true],
      ['127.0.0.2', isOpen],
    ] as const) {
      const socket = connect({ port: service.smtpPort, host });
      const answer = await once(socket, 'connect').then(
        () => true,
        () => false,
      );
      socket.destroy();
      assert.equal(answer, wanted, host);
    }
  }
});
