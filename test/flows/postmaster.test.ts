/**
 * Mail to postmaster@ and abuse@ of the bounce domain through the entire service: forwarded to the operators' address, counted at its
 * server, and listed. Reports become events, and there are no mail loops.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { BOUNCE_DOMAIN, bounceAddresses, bring, tokenAddress } from '../kit/bounce-receiver.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type Browser, openBrowser } from '../kit/in-process-api.ts';
import { openInbound } from '../kit/inbound-rig.ts';
import { deliveryReport, feedbackReport } from '../kit/report-mail.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const OPERATORS = 'ops@example.net';

let sink: SmtpSink;
let dns: FakeDns;
let service: Service;
let operator: Browser;
before(async () => {
  [dns, sink] = await Promise.all([fakeDns(), smtpSink()]);
  service = await startService({
    env: {
      ...bounceAddresses,
      POSTRIDER_POSTMASTER: OPERATORS,
      POSTRIDER_SMTP_HOSTNAME: 'mail.postrider.test',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_DNS_SERVERS: dns.server,
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
  const { email, password } = await service.cli('user', 'create', '--email', 'op@example.com', '--operator');
  const { port } = new URL(service.url);
  operator = openBrowser(Number(port), `http://localhost:${port}`, '127.0.0.1');
  assert.equal((await operator.call('POST', '/session', { email, password })).status, 200);
});
after(async () => {
  await service?.close();
  await Promise.all([sink?.close(), dns?.close()]);
});

const listed = async (query = ''): Promise<JsonObject[]> =>
  (await operator.call('GET', `/operator/postmaster-mail${query}`)).body as unknown as JsonObject[];
const atPeer = () => sink.messages.filter(({ to }) => to.includes(OPERATORS));

async function send(from: string, to: string, content: string): Promise<string> {
  const talker = await openInbound(service.inboundPort);
  for (const line of [`MAIL FROM:<${from}>`, `RCPT TO:<${to}>`, 'DATA']) assert.match(await talker.say(line), /^[23]/);
  talker.send(`${content}.\r\n`);
  const reply = await talker.reply();
  talker.destroy();
  return /queued as (inb_\w+)/.exec(reply)?.[1] ?? assert.fail(reply);
}

const LETTER = [
  'From: =?utf-8?Q?J=C3=B6rg?= <jorg@provider.example>',
  'To: postmaster',
  'Subject: Your mail to us',
  'Message-ID: <1@provider.example>',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: 8bit',
  '',
  'Grüße, please stop.',
  '',
].join('\r\n');

test('forwards mail to postmaster and abuse to the operators once, as an attachment, and lists it', async () => {
  const ids = [];
  for (const local of ['postmaster', 'abuse', 'Postmaster'])
    ids.push(await send('jorg@provider.example', `${local}@${BOUNCE_DOMAIN}`, LETTER));
  await waitUntil('the messages at the peer', () => atPeer().length === 3);
  for (const { from, content } of atPeer()) {
    const text = content.toString('latin1');
    const header = text.slice(0, text.indexOf('\r\n\r\n'));
    assert.match(from, new RegExp(`^b\\+\\w+@${BOUNCE_DOMAIN}$`), 'its envelope sender is a return path');
    assert.match(header, /^From: Postrider <postmaster@mail\.postrider\.test>\r$/m);
    assert.match(header, /^Reply-To: jorg@provider\.example\r?$/m);
    assert.match(header, /^Subject: Fwd: Your mail to us\r?$/m);
    assert.match(header, /^Auto-Submitted: auto-generated\r?$/m);
    assert.match(text, /^Content-Type: message\/rfc822/m);
    assert.match(text, /^Message-ID: <1@provider\.example>\r?$/m, 'the original');
    assert.doesNotMatch(text, /[\x80-\xff]/);
  }
  const all = await listed();
  assert.deepEqual(all.map(({ inboundId }) => inboundId).sort(), ids.sort());
  for (const one of all)
    assert.deepEqual(
      [one.from, one.subject, one.forwarding],
      ['Jörg <jorg@provider.example>', 'Your mail to us', 'forwarded'],
    );
  const [first] = await listed('?limit=1');
  const whole = await operator.call('GET', `/operator/postmaster-mail/${first!.inboundId}`);
  assert.equal(whole.body.text.trim(), 'Grüße, please stop.');
  const content = await operator.call('GET', `/operator/postmaster-mail/${first!.inboundId}/content`);
  assert.deepEqual([content.status, content.headers['content-type']], [200, 'message/rfc822']);
  assert.ok(content.text.includes('Message-ID: <1@provider.example>'));
  assert.equal((await operator.call('GET', '/operator/postmaster-mail/inb_none')).status, 404);
  assert.equal((await service.api.get('/operator/postmaster-mail')).status, 401);
});

test('reports to these addresses are handled as reports, and forwarded mail is not forwarded again', async () => {
  const { body } = await service.api.post('/send', {
    from: 'orders@shop.example',
    to: 'ann@example.com',
    subject: 'Order',
    text: 'Thank you',
  });
  const { messageId } = body.data;
  const sent = await waitUntil('the delivery', async () => {
    const { body: message } = await service.api.get(`/messages/${messageId}`);
    return message.status === 'delivered' && message;
  });
  const before = [atPeer().length, (await listed()).length];
  const forwarded = atPeer()[0]!;
  const quoted = `Return-Path: <${tokenAddress('bounce', messageId)}>`;
  const complaint = feedbackReport({ recipient: 'ann@example.com', headerMessageId: sent.headerMessageId, quoted });
  assert.match(await bring(service.inboundPort, { to: `abuse@${BOUNCE_DOMAIN}`, content: complaint }), /^250 /);
  const bounce = deliveryReport({ recipient: OPERATORS });
  assert.match(await bring(service.inboundPort, { to: `postmaster@${BOUNCE_DOMAIN}`, content: bounce }), /^250 /);
  assert.match(
    await bring(service.inboundPort, { to: forwarded.from, content: bounce }),
    /^250 /,
    'of the forwarded mail',
  );
  await waitUntil(
    'the complaint',
    async () => (await service.api.get(`/messages/${messageId}`)).body.status === 'complained',
  );
  await send('ops@example.net', `postmaster@${BOUNCE_DOMAIN}`, forwarded.content.toString('latin1'));
  const last = await send('jorg@provider.example', `abuse@${BOUNCE_DOMAIN}`, LETTER);
  const all = await waitUntil('both to be listed', async () => {
    const found = await listed();
    return found.length === before[1]! + 2 && found;
  });
  assert.deepEqual(
    all
      .slice(0, 2)
      .map((one) => [one.inboundId === last, one.forwarding])
      .sort(),
    [
      [false, 'loop'],
      [true, 'forwarded'],
    ],
  );
  await waitUntil('the last message at the peer', () => atPeer().length === before[0]! + 1);
});
