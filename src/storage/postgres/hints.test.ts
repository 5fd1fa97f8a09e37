/** Hints reach a node again after its connection went silent, as when the server's host loses power. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentProxy } from '../../../test/kit/silent-proxy.ts';
import { tempPostgres } from '../../../test/kit/temp-postgres.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { silentLog } from '../../base/log.ts';
import { openPostgresHints } from './hints.ts';
import { parsePostgresUrl } from './url.ts';

test('a silent connection is replaced', async (t) => {
  const { url, server, drop } = await tempPostgres();
  t.after(drop);
  const proxy = await silentProxy(server.port);
  t.after(() => proxy.close());
  const address = parsePostgresUrl(url.replace(`:${server.port}/`, `:${proxy.port}/`));
  const listener = openPostgresHints({ address, log: silentLog, pingMs: 200 });
  const sender = openPostgresHints({ address: parsePostgresUrl(url), log: silentLog });
  t.after(() => Promise.all([listener.stop(), sender.stop()]));
  let heard = 0;
  listener.listen('delivery', () => {
    heard += 1;
  });
  const hear = async (what: string): Promise<void> => {
    const before = heard;
    await waitUntil(
      what,
      () => {
        sender.notify('delivery');
        return heard > before;
      },
      20_000,
    );
  };
  await hear('the first hint');
  proxy.silence('open');
  await hear('the hint on the silent connection, or that on the next one');
  await hear('another hint on the new connection');
  assert.ok(heard >= 3);
});
