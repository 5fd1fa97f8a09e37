/**
 * Addresses of Japanese carriers whose local part has dots where RFC 5321 requires quotes, over the API and SMTP: returned as entered,
 * quoted in SMTP commands and header fields, and one address with and without quotes.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  sink = await smtpSink();
  service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});

after(async () => {
  await service?.close();
  await sink?.close();
});

const mail = { subject: 'hello', text: 'x' };

test('over the API, as recipient and sender', async () => {
  const to = ['a..b@docomo.ne.jp', 'Ann <a.@docomo.ne.jp>'];
  const sent = await service.api.post('/send', { ...mail, from: 'Shop <.shop.@shop.example>', to });
  assert.equal(sent.status, 202, sent.text);
  assert.deepEqual(
    (sent.body.data.recipients as JsonObject[]).map(({ email }) => email),
    ['a..b@docomo.ne.jp', 'a.@docomo.ne.jp'],
  );
  await waitUntil('both copies', () => sink.messages.flatMap((one) => one.to).length >= 2 || undefined);
  const commands = sink.commands.map((line) => line.replace(/ SIZE=.*| BODY=.*/, ''));
  for (const line of [
    'MAIL FROM:<".shop."@shop.example>',
    'RCPT TO:<"a..b"@docomo.ne.jp>',
    'RCPT TO:<"a."@docomo.ne.jp>',
  ])
    assert.ok(commands.includes(line), `${line} of ${commands.join('\n')}`);
  const text = sink.messages[0]!.content.toString('latin1');
  assert.match(text, /^From: Shop <"\.shop\."@shop\.example>\r\n/m);
  assert.match(text, /^To: "a\.\.b"@docomo\.ne\.jp, Ann <"a\."@docomo\.ne\.jp>\r\n/m);
  assert.deepEqual(sink.violations, []);
  const events = await waitUntil('the event', async () => {
    const found = (await service.api.get('/events?eventType=Delivery')).body as unknown as JsonObject[];
    return found.length >= 2 ? found : undefined;
  });
  assert.deepEqual(events.map(({ recipient }) => recipient).sort(), ['a..b@docomo.ne.jp', 'a.@docomo.ne.jp']);
  for (const asked of ['a..b@docomo.ne.jp', '"a..b"@docomo.ne.jp']) {
    const path = `recipient=${encodeURIComponent(asked)}`;
    assert.equal(((await service.api.get(`/events?${path}`)).body as unknown as unknown[]).length, 2, asked);
    const listed = await service.api.get(`/messages?to=${encodeURIComponent(asked)}`);
    assert.equal((listed.body as unknown as unknown[]).length, 1, asked);
  }
  const both = await service.api.post('/send', {
    ...mail,
    from: 'shop@shop.example',
    to: ['x..y@docomo.ne.jp', '"X..Y"@docomo.ne.jp'],
  });
  assert.equal(both.body.data.totalRecipients, 1, 'one address in two spellings');
});

test('over SMTP', async () => {
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(service.smtpCredential);
  assert.match(await talker.say('MAIL FROM:<shop@shop.example>'), /^250 /);
  assert.match(await talker.say('RCPT TO:<..c..d@docomo.ne.jp>'), /^250 /);
  assert.match(await talker.say('RCPT TO:<"..C..d"@docomo.ne.jp>'), /^250 /);
  assert.match(await talker.say('DATA'), /^354 /);
  talker.send('From shop@shop.example Mon Nov 23 10:00:00 2026\r\n');
  const header = 'From: Shop <shop@shop.example> (Orders)\r\nTo: ..c..d@docomo.ne.jp\r\nSubject: carrier-smtp\r\n';
  talker.send(`${header}\r\nx\r\n.\r\n`);
  assert.match(await talker.reply(), /^250 2\.0\.0 queued as msg_/);
  talker.destroy();
  const copies = () => sink.messages.filter((one) => one.content.includes('carrier-smtp'));
  await waitUntil('the copy', () => copies().length > 0 || undefined);
  assert.equal(copies().length, 1);
  assert.ok(sink.commands.some((line) => line.startsWith('RCPT TO:<"..c..d"@docomo.ne.jp>')));
  assert.doesNotMatch(copies()[0]!.content.toString('latin1'), /^From shop/m);
});

test('a suppression applies to both forms, whichever was used to create it', async () => {
  for (const [listed, to] of [
    ['"s..1"@docomo.ne.jp', 's..1@docomo.ne.jp'],
    ['s..2@docomo.ne.jp', '"s..2"@docomo.ne.jp'],
  ] as const) {
    const made = await service.api.post('/suppressions', { email: listed });
    assert.equal(made.status, 201, made.text);
    const sent = await service.api.post('/send', { ...mail, from: 'shop@shop.example', to });
    assert.equal(sent.body.data.status, 'suppressed', to);
    assert.equal(sent.body.data.recipients[0].email, to);
    assert.equal((await service.api.get(`/suppressions/${encodeURIComponent(to)}`)).status, 200);
    assert.equal((await service.api.delete(`/suppressions/${encodeURIComponent(listed)}`)).status, 200);
  }
});

test('the sandbox inbox finds both forms', async () => {
  const sent = await service.sandboxApi.post('/send', { ...mail, from: 'x@shop.example', to: 'q..r@docomo.ne.jp' });
  assert.equal(sent.status, 202, sent.text);
  const path = `/sandbox/inbox/wait?timeoutSeconds=10&to=${encodeURIComponent('"q..r"@docomo.ne.jp')}`;
  assert.equal((await service.sandboxApi.get(path)).body.to, 'q..r@docomo.ne.jp');
});

test('comments, trailing commas, and several addresses in from and to', async () => {
  const send = (change: object) =>
    service.sandboxApi.post('/send', { ...mail, from: 'shop@shop.example', to: 'ann@example.com', ...change });
  for (const from of ['shop@shop.example (Shop)', 'Shop <shop@shop.example>,', 'Shop (orders) <shop@shop.example>'])
    assert.equal((await send({ from })).status, 202, from);
  assert.equal((await send({ to: 'ann@example.com,' })).body.data.totalRecipients, 1);
  assert.equal((await send({ to: 'ann@example.com,, bob@example.com (Bob, Sales)' })).body.data.totalRecipients, 2);
  const messageOf = async (change: object) => (await send(change)).body.error.details[0].message as string;
  assert.equal(await messageOf({ from: 'a@shop.example, b@shop.example' }), 'has 2 addresses; use only one');
  assert.match(await messageOf({ from: 'shop@shop.example (ceo@bank.example)' }), /has an address in a comment/);
  assert.match(await messageOf({ to: 'Lee, Ann <ann@example.com>' }), /comma in double quotes/);
  assert.equal(await messageOf({ to: ',' }), 'has no address, only commas');
});
