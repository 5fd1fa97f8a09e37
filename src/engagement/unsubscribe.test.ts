/** The unsubscribe page and one-click: GET changes nothing, POST unsubscribes once, and links cannot be forged. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PERSON, type RecipientPages, recipientPages } from '../../test/kit/recipient-pages.ts';
import { dataOf, GOOD, settle } from '../../test/kit/send-rig.ts';
import { suppressOperation } from '../suppressions/store.ts';
import { createTrackingLinks, createUnsubscribeLinks } from './engagement.ts';

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
const suppressed: RecipientPages['suppressed'] = (...args) => pages.suppressed(...args);

test('only the button of the unsubscribe page unsubscribes, once', async () => {
  const { messageId, mail } = await sent({ to: 'Page@Example.com', html: '{{ unsubscribe_email_html }}' });
  const link = /href="([^"]+)"/.exec(mail.html!)![1]!;
  for (let i = 0; i < 3; i += 1) {
    const page = await call('GET', link, { 'user-agent': 'GoogleImageProxy' });
    assert.equal(page.status, 200);
    const html = page.body.toString();
    assert.match(html, /Page@example\.com should no longer receive email/);
    assert.match(html, /Shop &#60;shop@verified\.example&#62;/);
    assert.match(html, /<form method="post"><button>Unsubscribe<\/button><\/form>/);
    assert.doesNotMatch(html, /<script|https?:|src=/);
    assert.match(String(page.headers['content-type']), /^text\/html; charset=utf-8$/);
    assert.equal(page.headers['cache-control'], 'no-store');
    assert.equal(page.headers['x-content-type-options'], 'nosniff');
    assert.equal(page.headers['x-frame-options'], 'DENY');
    assert.equal(page.headers['referrer-policy'], 'no-referrer');
    assert.match(
      String(page.headers['content-security-policy']),
      /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'/,
    );
  }
  assert.equal((await call('HEAD', link)).body.length, 0);
  assert.deepEqual(await suppressed('page@example.com'), []);
  const before = pages.state.nudges;
  for (let i = 0; i < 3; i += 1) {
    const done = await call('POST', link, { 'content-type': 'application/x-www-form-urlencoded' }, '');
    assert.equal(done.status, 200);
    assert.match(done.body.toString(), /You are unsubscribed/);
  }
  assert.equal(pages.state.nudges, before + 1);
  const [row, ...more] = await suppressed('page@example.com');
  assert.deepEqual({ ...row }, { mode: 'live', reason: 'unsubscribe', source_message_id: messageId, expires_at: null });
  assert.deepEqual(more, []);
  const events = await eventsOf(messageId);
  assert.deepEqual(
    events.map((one) => one.type),
    ['Send', 'Unsubscribe'],
  );
  assert.deepEqual(events[1]!.detail, { unsubscribe: { method: 'page' } });
  assert.equal(dataOf(await rig.send({ ...GOOD, to: 'page@example.com' })).status, 'suppressed');
});

test('the style of the page is the one allowed by its policy', async () => {
  const page = await call(
    'GET',
    rig.unsubscribeLinks.url({ accountId: 'a', mode: 'live', messageId: 'm', recipient: 'x@y.test' }),
  );
  const style = /<style>([\s\S]*)<\/style>/.exec(page.body.toString())![1]!;
  const { createHash } = await import('node:crypto');
  const hash = createHash('sha256').update(style).digest('base64');
  assert.ok(String(page.headers['content-security-policy']).includes(`'sha256-${hash}'`));
});

test('listUnsubscribe adds both headers per recipient, and a one-click POST unsubscribes', async () => {
  const to = ['one@example.com', 'two@example.com'];
  const { recipients } = dataOf(await rig.send({ ...GOOD, to, listUnsubscribe: true }));
  const links: string[] = [];
  for (const { messageId } of recipients) {
    const job = rig.offered.find((one) => one.messageId === messageId)!;
    const header = Buffer.from(job.content!).toString().split('\r\n\r\n')[0]!;
    assert.match(header, /\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n/);
    const link = /\r\nList-Unsubscribe:\s<(https:\/\/mail\.test\/unsubscribe\/[\w.-]+)>\r\n/.exec(header)![1]!;
    links.push(link);
  }
  assert.equal(new Set(links).size, 2);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal((await call('POST', links[1]!, form, 'List-Unsubscribe=One-Click')).status, 200);
  assert.deepEqual(await suppressed('one@example.com'), []);
  assert.equal((await suppressed('two@example.com')).length, 1);
  const [, event] = await eventsOf(recipients[1]!.messageId);
  assert.deepEqual(event!.detail, { unsubscribe: { method: 'one-click' } });
  const multipart = { 'content-type': 'multipart/form-data; boundary=b' };
  const part = '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n';
  assert.equal((await call('POST', links[0]!, multipart, part)).status, 200);
  assert.deepEqual((await eventsOf(recipients[0]!.messageId))[1]!.detail, { unsubscribe: { method: 'one-click' } });
});

test('unsubscribing in the sandbox affects the sandbox only', async () => {
  const { mail } = await sent({ to: 'box@example.com', html: '{{ unsubscribe_email_html }}' }, 'sandbox');
  await call('POST', /href="([^"]+)"/.exec(mail.html!)![1]!);
  assert.deepEqual(
    (await suppressed('box@example.com')).map((row) => row.mode),
    ['sandbox'],
  );
});

test('unsubscribing replaces temporary, bounce, and manual suppressions, but not complaints', async () => {
  const { messageId, mail } = await sent({ to: 'soft@example.com', html: '{{ unsubscribe_email_html }}' });
  const link = /href="([^"]+)"/.exec(mail.html!)![1]!;
  await settle(rig, messageId, {
    to: 'bounced',
    suppress: { email: 'soft@example.com', untilMs: rig.clock.now() + 1000 },
  });
  await call('POST', link);
  assert.deepEqual(
    (await suppressed('soft@example.com')).map(({ reason, expires_at }) => [reason, expires_at]),
    [['unsubscribe', null]],
  );
  for (const reason of ['bounce', 'manual', 'complaint'] as const) {
    const kept = reason === 'complaint' ? 'complaint' : 'unsubscribe';
    const email = `${reason}@example.com`;
    const { messageId: id, mail: own } = await sent({ to: email, html: '{{ unsubscribe_email_html }}' });
    const nowMs = rig.clock.now();
    const suppression = { email, reason, sourceMessageId: null, expiresAt: null, createdAt: nowMs };
    await rig.database.execute(suppressOperation, {
      addressHash: '',
      accountId: rig.account.id,
      mode: 'live' as const,
      suppression,
    });
    await call('POST', /href="([^"]+)"/.exec(own.html!)![1]!);
    assert.deepEqual(
      (await suppressed(email)).map((row) => [row.reason, row.expires_at]),
      [[kept, null]],
    );
    assert.deepEqual(
      (await eventsOf(id)).map((one) => one.type),
      ['Send', 'Unsubscribe'],
    );
  }
  const hard = await sent({ to: 'hard@example.com', html: '{{ unsubscribe_email_html }}' });
  await settle(rig, hard.messageId, { to: 'bounced', suppress: { email: 'hard@example.com', untilMs: null } });
  await call('POST', /href="([^"]+)"/.exec(hard.mail.html!)![1]!);
  assert.deepEqual(
    (await suppressed('hard@example.com')).map(({ reason }) => reason),
    ['unsubscribe'],
  );
  const types = (await eventsOf(hard.messageId)).map((one) => one.type);
  assert.ok(types.includes('Unsubscribe'), 'the recipient is unsubscribed anyway');
});

test('a query that an email client appends to a link is ignored', async () => {
  const html = '{{ unsubscribe_email_html }} <a href="https://x.test/">x</a>';
  const { mail } = await sent({ to: 'query@example.com', html, enableClickTracking: true });
  const [page, click] = [...mail.html!.matchAll(/href="([^"]+)"/g)].map((match) => `${match[1]}?utm_source=mail&x`);
  assert.equal((await call('GET', page!)).status, 200);
  assert.equal((await call('POST', page!)).status, 200);
  assert.equal((await suppressed('query@example.com')).length, 1);
  const redirected = await call('GET', click!, { 'user-agent': PERSON });
  assert.deepEqual([redirected.status, redirected.headers.location], [302, 'https://x.test/']);
});

test('unknown links return a page for every method', async () => {
  const { mail } = await sent({
    to: 'forged@example.com',
    html: '{{ unsubscribe_email_html }} <a href="https://x.test/">x</a>',
    enableClickTracking: true,
  });
  const links = [...mail.html!.matchAll(/href="([^"]+)"/g)].map((match) => match[1]!);
  assert.equal(links.length, 2);
  const { accountId, mode, recipient } = { accountId: 'acc_test', mode: 'live' as const, recipient: 'x@example.com' };
  const strange = createUnsubscribeLinks({ secretKey: Buffer.alloc(32, 1), baseUrl: 'https://mail.test' });
  const strangeTracking = createTrackingLinks({ secretKey: Buffer.alloc(32, 1), baseUrl: 'https://mail.test' });
  const forged = [strange.url({ accountId, mode, recipient, messageId: 'msg_x' })];
  forged.push(
    strangeTracking.trackingOf({ accountId, mode, messageId: 'm' }, { opens: false, clicks: true }).rewriteLink!(
      'https://evil.test/',
    )!,
  );
  for (const link of links) {
    const start = link.lastIndexOf('/') + 1;
    for (const at of [start, start + 10, start + 21, start + 22, link.length - 1]) {
      forged.push(link.slice(0, at) + (link[at] === 'A' ? 'B' : 'A') + link.slice(at + 1));
    }
    forged.push(
      link.slice(0, -3),
      `${link}.x`,
      `${link}x`,
      `${link}=`,
      `${link}%21`,
      link.slice(0, start + 21),
      link.slice(0, start + 22),
      `${link.slice(0, start)}x`,
      `${link.slice(0, start)}%00`,
    );
  }
  // Tokens of one purpose are not valid for another.
  forged.push(links[0]!.replace('/unsubscribe/', '/t/'), links[1]!.replace('/t/', '/unsubscribe/'));
  forged.push('https://mail.test/t/aHR0cHM6Ly9ldmlsLnRlc3Q.AAAAAAAAAAAAAAAAAAAAAAAA');
  for (const link of forged) {
    for (const method of link.includes('/t/') ? ['GET'] : ['GET', 'POST']) {
      const answer = await call(method, link, { 'user-agent': PERSON });
      assert.equal(answer.status, 404, `${method} ${link}`);
      assert.equal(answer.headers.location, undefined);
      assert.match(answer.body.toString(), /This link does not work/);
    }
  }
  assert.deepEqual(await suppressed('forged@example.com'), []);
  for (const [index, link] of links.entries()) {
    assert.equal((await call('GET', link)).status, index === 0 ? 200 : 302, 'control: the real links work');
  }
});

test('redirects work while the storage is unavailable, and the page reports the failure', async () => {
  const { mail } = await sent({
    to: 'down@example.com',
    html: '<a href="https://a.test/">a</a> {{ unsubscribe_email_html }}',
    enableClickTracking: true,
    enableOpenTracking: true,
  });
  const [click, unsubscribe] = [...mail.html!.matchAll(/href="([^"]+)"/g)].map((match) => match[1]!);
  pages.state.isDown = true;
  try {
    assert.equal((await call('GET', click!, { 'user-agent': PERSON })).headers.location, 'https://a.test/');
    assert.equal((await call('GET', /src="([^"]+)"/.exec(mail.html!)![1]!)).status, 200);
    assert.equal((await call('GET', unsubscribe!)).status, 200);
    const refused = await call('POST', unsubscribe!);
    assert.equal(refused.status, 503);
    assert.ok(refused.headers['retry-after']);
    assert.match(refused.body.toString(), /Nothing was changed/);
  } finally {
    pages.state.isDown = false;
  }
  assert.deepEqual(await suppressed('down@example.com'), []);
  assert.equal((await call('POST', unsubscribe!)).status, 200);
});

test('links still redirect and unsubscribe after the message was deleted', async () => {
  const copy = { accountId: 'acc_test', mode: 'live' as const, messageId: 'msg_gone' };
  const click = rig.trackingLinks.trackingOf(copy, { opens: false, clicks: true }).rewriteLink!('https://a.test/')!;
  assert.equal((await call('GET', click, { 'user-agent': PERSON })).status, 302);
  assert.equal((await call('POST', rig.unsubscribeLinks.url({ ...copy, recipient: 'gone@example.com' }))).status, 200);
  assert.equal((await suppressed('gone@example.com')).length, 1);
  assert.deepEqual(await eventsOf('msg_gone'), []);
});
