/**
 * Repeated kill -9 just before or after the 250 for a bounce, both for bounces recorded at the dot and for bounces processed later. After
 * the next start the event exists once, and a server that received no 250 and resends the bounce creates no second event. Also for route
 * mail, whose bytes are stored unchanged.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { deliveryReport } from '../kit/report-mail.ts';
import { assertTaken, inboundEvents, inboundIdIn, routeMail } from '../kit/route-mail.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const ROUNDS = 8;
/** From the dot to the kill, in ms, if the test does not wait for the 250. */
const UNHEARD_MS = [4, 8, 4, 8];

test('an accepted bounce is one event, whenever the process is killed', async (t) => {
  const sink = await smtpSink();
  const service = await startService({ env: { ...bounceAddresses, POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  t.after(async () => {
    await service.close();
    await sink.close();
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const shown = async (id: string) => (await service.api.get(`/messages/${id}`)).body;
  let before = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const to = `ann${round}@example.com`;
    const sent = await service.api.post('/send', { from: 'a@shop.example', to, subject: 'x', text: 'x' });
    const id = sent.body.data.messageId as string;
    await waitUntil('its delivery', async () => (await shown(id)).status === 'delivered');
    const report = {
      to: tokenAddress('bounce', id),
      content: deliveryReport({ recipient: to, isLarge: round >= ROUNDS / 2 }),
    };
    const isHeard = round % 2 === 0;
    const dot = Promise.withResolvers<void>();
    const said = bring(service.inboundPort, report, { onDot: dot.resolve });
    if (isHeard) assert.match(await said, /^250 /);
    else {
      said.catch(() => undefined);
      await dot.promise;
      await new Promise((resolve) => setTimeout(resolve, UNHEARD_MS[(round - 1) / 2]));
    }
    await service.kill('SIGKILL');
    await service.restart();
    before += (await shown(id)).status === 'delivered' ? 1 : 0;
    // A server without a reply retries; one with a 250 may also send again.
    if (!isHeard || round % 4 === 0) assert.match(await bring(service.inboundPort, report), /^250 /);
    const message = await waitUntil('the bounce', async () => {
      const body = await shown(id);
      return body.status === 'bounced' && body;
    });
    const bounces = message.timeline.filter((event: { eventType: string }) => event.eventType === 'Bounce');
    assert.equal(bounces.length, 1, `round ${round}`);
  }
  const { buckets } = (await service.api.get('/statistics?interval=day')).body;
  const counted = buckets.reduce((sum: number, { bounced }: { bounced: { hard: number } }) => sum + bounced.hard, 0);
  assert.equal(counted, ROUNDS, 'and once in the statistics');
  t.diagnostic(`${before} of ${ROUNDS} were killed before the event`);
});

test('accepted route mail is one event, whenever the process is killed', async (t) => {
  const service = await startService({ env: bounceAddresses });
  t.after(() => service.close());
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  await service.api.post('/inbound-routes', { match: '*@in.shop.example' });
  const taken = new Map<string, Buffer>();
  let unheard = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const content = routeMail(`round ${round}`, { isLarge: round >= ROUNDS / 2 });
    const mail = { to: `r${round}@in.shop.example`, content };
    const dot = Promise.withResolvers<void>();
    const said = bring(service.inboundPort, mail, { onDot: dot.resolve });
    if (round % 2 === 0) taken.set(inboundIdIn(await said), content);
    else {
      unheard += 1;
      said.catch(() => undefined);
      await dot.promise;
      await new Promise((resolve) => setTimeout(resolve, UNHEARD_MS[(round - 1) / 2]));
    }
    await service.kill('SIGKILL');
    await service.restart();
    // A server without a reply retries; the service cannot know that it is the same message.
    if (round % 2 === 1) taken.set(inboundIdIn(await bring(service.inboundPort, mail)), content);
    await assertTaken(service, taken);
  }
  const events = await inboundEvents(service);
  assert.equal(new Set(events).size, events.length, 'no message has two events');
  assert.ok(events.length <= taken.size + unheard, 'and none that was not sent');
});
