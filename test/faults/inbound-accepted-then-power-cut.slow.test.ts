/**
 * The power is cut after the 250 for a bounce, and before its event if the bounce is large. After the next start the event exists once.
 * Also for route mail, whose bytes are stored unchanged.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { type CutDisk, cannotCutPower, cutDisk } from '../kit/cut-disk.ts';
import { deliveryReport } from '../kit/report-mail.ts';
import { assertTaken, inboundEvents, inboundIdIn, routeMail } from '../kit/route-mail.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const CUTS = 4;

interface World {
  service: Service;
  disk: CutDisk;
}

/** Cuts the power immediately after the action, and starts the service on what is on the disk. */
async function cutBehind({ service, disk }: World, act: () => Promise<void>): Promise<void> {
  const cutter = await disk.prepare();
  await act();
  process.kill(service.pid, 'SIGSTOP');
  await cutter.cut();
  await service.kill('SIGKILL');
  cutter.release();
  await disk.remount();
  await service.restart();
}

test('an accepted bounce is one event, whenever the power is cut', { skip: cannotCutPower() }, async (t) => {
  const sink = await smtpSink();
  const disk = await cutDisk();
  const env = { ...bounceAddresses, POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` };
  const service = await startService({ env, dataDir: path.join(disk.folder, 'data') });
  t.after(async () => {
    await service.close();
    await disk.remove();
    await sink.close();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const shown = async (id: string) => (await service.api.get(`/messages/${id}`)).body;
  for (let cut = 0; cut < CUTS; cut += 1) {
    const to = `ann${cut}@example.com`;
    const sent = await service.api.post('/send', { from: 'a@shop.example', to, subject: 'x', text: 'x' });
    const id = sent.body.data.messageId as string;
    await waitUntil('its delivery', async () => (await shown(id)).status === 'delivered');
    const report = {
      to: tokenAddress('bounce', id),
      content: deliveryReport({ recipient: to, isLarge: cut >= CUTS / 2 }),
    };
    await cutBehind({ service, disk }, async () => {
      assert.match(await bring(service.inboundPort, report), /^250 /);
    });
    if (cut % 2 === 1) assert.match(await bring(service.inboundPort, report), /^250 /, 'once more');
    const message = await waitUntil('the bounce', async () => {
      const body = await shown(id);
      return body.status === 'bounced' && body;
    });
    const bounces = message.timeline.filter((event: { eventType: string }) => event.eventType === 'Bounce');
    assert.equal(bounces.length, 1, `cut ${cut}`);
  }
});

test('accepted route mail is one event, whenever the power is cut', {
  skip: cannotCutPower(),
}, async (t) => {
  const disk = await cutDisk();
  const service = await startService({ env: bounceAddresses, dataDir: path.join(disk.folder, 'data') });
  t.after(async () => {
    await service.close();
    await disk.remove();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.api.post('/inbound-routes', { match: '*@in.shop.example' });
  const taken = new Map<string, Buffer>();
  for (let cut = 0; cut < CUTS; cut += 1) {
    const content = routeMail(`cut ${cut}`, { isLarge: cut >= CUTS / 2 });
    await cutBehind({ service, disk }, async () => {
      const said = await bring(service.inboundPort, { to: `c${cut}@in.shop.example`, content });
      taken.set(inboundIdIn(said), content);
    });
    await assertTaken(service, taken);
  }
  assert.equal((await inboundEvents(service)).length, CUTS, 'no others');
});
