/** Tracked links and images: redirects, events, bot detection, and limits. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PERSON, type RecipientPages, recipientPages } from '../../test/kit/recipient-pages.ts';
import { rowsOf, settle } from '../../test/kit/send-rig.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import type { Mode } from '../base/mode.ts';

let pages: RecipientPages;
let rig: RecipientPages['rig'];
before(async () => {
  pages = await recipientPages();
  rig = pages.rig;
});
after(() => pages.close());

const call: RecipientPages['call'] = (...args) => pages.call(...args);
const sent: RecipientPages['sent'] = (...args) => pages.sent(...args);
const eventsOf: RecipientPages['eventsOf'] = (...args) => pages.eventsOf(...args);
const delivered: RecipientPages['delivered'] = (...args) => pages.delivered(...args);

test('links redirect and opens are recorded, and the rest of the HTML is unchanged', async () => {
  const html =
    '<html><body><p>Hi {{ n }}</p><a href="{{ link }}">a</a> <a href="mailto:a@b.test">m</a> <a href="https://n.test/" data-notrack>n</a> {{ unsubscribe_email_html }}</body></html>';
  const link = 'https://shop.test/?a=1&b="2"&c=\u00fc #x';
  const { messageId, mail } = await sent({
    to: 'tracked@example.com',
    html,
    text: undefined,
    templateVariables: { n: 1, link },
    enableClickTracking: true,
    enableOpenTracking: true,
  });
  const pattern =
    /^<html><body><p>Hi 1<\/p><a href="(https:\/\/mail\.test\/t\/[\w.-]+)">a<\/a> <a href="mailto:a@b\.test">m<\/a> <a href="https:\/\/n\.test\/" data-notrack>n<\/a> <a href="https:\/\/mail\.test\/unsubscribe\/[\w.-]+">Unsubscribe<\/a><img src="(https:\/\/mail\.test\/t\/[\w.-]+)" width="1" height="1" alt="" style="[^"]+"><\/body><\/html>\s*$/;
  const [, click, pixel] = pattern.exec(mail.html!)!;
  assert.ok(mail.text!.includes(link), 'the text contains the original URL');
  await delivered(messageId, 10_000);
  const redirect = await call('GET', click!, { 'user-agent': PERSON });
  assert.equal(redirect.status, 302);
  assert.equal(redirect.headers.location, 'https://shop.test/?a=1&b=%222%22&c=%C3%BC%20#x');
  assert.match(String(redirect.headers['cache-control']), /no-store/);
  const picture = await call('GET', pixel!, { 'user-agent': PERSON });
  assert.equal(picture.status, 200);
  assert.equal(picture.headers['content-type'], 'image/gif');
  assert.match(picture.body.toString('latin1'), /^GIF89a\x01\x00\x01\x00/);
  const events = await waitUntil('both events', async () => {
    const found = await eventsOf(messageId);
    return found.length === 4 && found;
  });
  const click_ = events.find((one) => one.type === 'Click')!;
  assert.deepEqual(click_.detail, { click: { url: link, machine: false, userAgent: PERSON } });
  assert.deepEqual(events.find((one) => one.type === 'Open')!.detail, { open: { machine: false, userAgent: PERSON } });
  const [row] = await rowsOf<{ status: string }>(rig, `SELECT status FROM message WHERE id = '${messageId}'`);
  assert.equal(row!.status, 'delivered', 'no status changes');
});

test('nothing is tracked without the options, and an email without HTML cannot be tracked', async () => {
  const html = '<a href="https://a.test/">x</a>';
  assert.equal((await sent({ html })).mail.html!.trim(), html);
  const one = await sent({
    to: ['p@example.com', 'q@example.com'],
    enableOpenTracking: true,
    enableClickTracking: true,
  });
  assert.equal(one.mail.text!.trim(), 'Hi');
  assert.doesNotMatch((await sent({ html, enableOpenTracking: true })).mail.html!, /\/t\/[^"]+">x/);
  assert.doesNotMatch((await sent({ html, enableClickTracking: true })).mail.html!, /<img/);
});

interface Look {
  what: string;
  method?: string;
  headers: Record<string, string>;
  machine: boolean;
}
const LOOKS: Look[] = [
  { what: 'a browser', headers: { 'user-agent': PERSON }, machine: false },
  {
    what: 'Outlook',
    headers: { 'user-agent': 'Microsoft Office/16.0 (Microsoft Outlook 16.0.17830; Pro)' },
    machine: false,
  },
  {
    what: "Gmail's image proxy",
    headers: {
      'user-agent': 'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)',
    },
    machine: true,
  },
  { what: "Apple Mail's proxy", headers: { 'user-agent': 'Mozilla/5.0' }, machine: true },
  { what: 'a crawler', headers: { 'user-agent': 'Mozilla/5.0 (compatible; bingbot/2.0)' }, machine: true },
  { what: 'a program', headers: { 'user-agent': 'python-requests/2.31' }, machine: true },
  { what: 'nobody', headers: {}, machine: true },
  {
    what: 'a prefetching browser',
    headers: { 'user-agent': PERSON, 'sec-purpose': 'prefetch;prerender' },
    machine: true,
  },
  { what: 'HEAD', method: 'HEAD', headers: { 'user-agent': PERSON }, machine: true },
];
for (const look of LOOKS) {
  test(`${look.what} is ${look.machine ? 'marked as a machine' : 'counted as a person'}`, async () => {
    const { messageId, mail } = await sent({ html: '<p>x</p>', enableOpenTracking: true });
    await delivered(messageId, 10_000);
    const answer = await call(look.method ?? 'GET', /src="([^"]+)"/.exec(mail.html!)![1]!, look.headers);
    assert.equal(answer.status, 200);
    const event = await waitUntil('the event', async () =>
      (await eventsOf(messageId)).find((one) => one.type === 'Open'),
    );
    assert.equal(event.detail.open.machine, look.machine);
  });
}

test('an open before or right after the delivery is marked as a scanner, except in the sandbox', async () => {
  const open = async (mode: Mode, agoMs: number | undefined): Promise<boolean> => {
    const { messageId, mail } = await sent({ html: '<p>x</p>', enableOpenTracking: true }, mode);
    if (agoMs !== undefined) await delivered(messageId, agoMs);
    await call('GET', /src="([^"]+)"/.exec(mail.html!)![1]!, { 'user-agent': PERSON });
    const event = await waitUntil('the event', async () =>
      (await eventsOf(messageId)).find((one) => one.type === 'Open'),
    );
    return event.detail.open.machine;
  };
  assert.equal(await open('live', undefined), true);
  assert.equal(await open('live', 1_999), true);
  assert.equal(await open('live', 2_000), false);
  assert.equal(await open('sandbox', 0), false);
});

test('an open of a resent message is not marked as a scanner, although its original was never delivered', async () => {
  const { messageId, mail } = await sent({ html: '<p>x</p>', enableOpenTracking: true });
  rig.clock.advance(1);
  const event = { id: `evt_${messageId}`, type: 'Bounce' as const, detail: {} };
  await settle(rig, messageId, { to: 'bounced', event });
  await call('GET', /src="([^"]+)"/.exec(mail.html!)![1]!, { 'user-agent': PERSON });
  const open = await waitUntil('the event', async () => (await eventsOf(messageId)).find((one) => one.type === 'Open'));
  assert.equal(open.detail.open.machine, false);
});

test('repeated opens within a minute count once, bots do not hide people, and events are limited', async () => {
  const { messageId, mail } = await sent({
    html: '<a href="https://a.test/">a</a><a href="https://b.test/">b</a>',
    enableClickTracking: true,
  });
  await delivered(messageId, 10_000);
  const [a, b] = [...mail.html!.matchAll(/href="([^"]+)"/g)].map((match) => match[1]!);
  const clicks = async () => (await eventsOf(messageId)).filter((one) => one.type === 'Click');
  /** Clicks are written in order, so when the last one is listed, all of them are. */
  const settled = async (): Promise<void> => {
    const marker = await sent({ html: '<p>x</p>', enableOpenTracking: true });
    await call('GET', /src="([^"]+)"/.exec(marker.mail.html!)![1]!);
    await waitUntil('the marker', async () => (await eventsOf(marker.messageId)).some((one) => one.type === 'Open'));
  };
  const person = { 'user-agent': PERSON };
  for (let i = 0; i < 5; i += 1) await call('GET', a!, person);
  await call('GET', b!, person);
  await call('GET', a!, { 'user-agent': 'curl/8' });
  await settled();
  assert.deepEqual(
    (await clicks()).map((one) => [one.detail.click.url, one.detail.click.machine]),
    [
      ['https://a.test/', false],
      ['https://b.test/', false],
      ['https://a.test/', true],
    ],
  );
  for (let i = 0; i < 130; i += 1) {
    rig.clock.advance(60_000);
    await call('GET', a!, person);
    await call('GET', a!, { 'user-agent': 'curl/8' });
  }
  await settled();
  const all = await clicks();
  assert.equal(all.filter((one) => one.detail.click.machine).length, 20);
  assert.equal(all.filter((one) => !one.detail.click.machine).length, 100);
});

test('only http and https addresses become redirects', () => {
  const { rewriteLink } = rig.trackingLinks.trackingOf(
    { accountId: 'acc_test', mode: 'live', messageId: 'msg_x' },
    { opens: false, clicks: true },
  );
  assert.equal(rewriteLink!(`https://a.test/${'x'.repeat(4_000)}`), undefined, 'too long to be signed');
  assert.equal(rewriteLink!('https://mail.test/unsubscribe/x'), undefined);
  assert.equal(rewriteLink!('https://mail.test/t/x'), undefined);
});
