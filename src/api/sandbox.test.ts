/** The virtual inbox over HTTP. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { type FeatureApp, featureApp } from '../../test/kit/feature-app.ts';
import { type SeededMail, seedMail } from '../../test/kit/seed-mail.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { createFollowers } from '../events/events.ts';
import { createConcurrencyLimiter } from '../limits/limits.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { sandboxRoutes } from './sandbox.ts';

const clock = fakeClock(Date.now());
let app: FeatureApp;
before(async () => {
  app = await featureApp(({ database, folder }) =>
    sandboxRoutes({
      database,
      clock,
      blobs: openDiskBlobs(path.join(folder, 'blobs')),
      followers: createFollowers({ database }),
      waits: createConcurrencyLimiter('inboxWaits', () => 1),
      isStopping: () => false,
    }),
  );
});
after(() => app.close());

const seed = async (accountId: string, mail: Partial<SeededMail> = {}) =>
  (await seedMail(app.temp.database, { accountId, mode: 'sandbox', nowMs: clock.now(), ...mail })).recipients[0]!
    .messageId;

test('captured messages are listed with outcome and age, and filtered', async () => {
  const api = app.api('acc_a', 'sandbox');
  const id = await seed('acc_a', { recipients: ['Ada@example.com'], subject: 'Your code', tags: ['login'] });
  await seed('acc_b');
  await seed('acc_a', { mode: 'live' });
  clock.advance(61_500);
  const list = await api.get('/sandbox/inbox');
  assert.deepEqual(list.body, [
    {
      messageId: id,
      from: 'Shop <shop@example.org>',
      to: 'Ada@example.com',
      subject: 'Your code',
      outcome: null,
      age: 61,
      createdAt: new Date(clock.now() - 61_500).toISOString(),
    },
  ]);
  for (const query of ['to=ada@EXAMPLE.com', 'subject=CODE', 'tag=login']) {
    assert.equal((await api.get(`/sandbox/inbox?${query}`)).body.length, 1, query);
  }
  for (const query of ['to=ada', 'subject=codes', 'tag=log']) {
    assert.equal((await api.get(`/sandbox/inbox?${query}`)).body.length, 0, query);
  }
  assert.equal((await api.get('/sandbox/inbox?age=1')).status, 400);
});

test('an address is found in any spelling', async () => {
  const api = app.api('acc_spelt', 'sandbox');
  const query = (to: string) => `to=${encodeURIComponent(to)}`;
  for (const [recipient, asked] of [
    ['deliv@bücher.example', ['deliv@xn--bcher-kva.example', 'DELIV@BÜCHER.example', 'deliv@bücher.example']],
    ['Ann@xn--mnchen-3ya.example', ['ann@münchen.example', 'ANN@XN--MNCHEN-3YA.EXAMPLE', '"ann"@münchen.example']],
    ['Жанна@пример.example', ['жанна@пример.example', 'ЖАННА@ПРИМЕР.example', 'жанна@xn--e1afmkfd.example']],
  ] as const) {
    const id = await seed('acc_spelt', { recipients: [recipient] });
    for (const to of asked) {
      const { body } = await api.get(`/sandbox/inbox?${query(to)}`);
      assert.deepEqual([body.length, body[0]?.messageId], [1, id], to);
      assert.equal((await api.get(`/sandbox/inbox/wait?${query(to)}&timeoutSeconds=0`)).body.messageId, id, to);
    }
  }
  for (const to of ['deliv@bucher.example', 'deliv', '@bücher.example', 'liv@bücher.example']) {
    assert.deepEqual((await api.get(`/sandbox/inbox?${query(to)}`)).body, [], to);
  }
});

test('a subject is found without case in any script', async () => {
  const api = app.api('acc_scripts', 'sandbox');
  const id = await seed('acc_scripts', { subject: 'ÄRGER Straße' });
  await seed('acc_scripts', { subject: 'Grüße' });
  for (const path of ['/sandbox/inbox?', '/sandbox/inbox/wait?timeoutSeconds=0&']) {
    const { body } = await api.get(`${path}subject=${encodeURIComponent('ärger STRAß')}`);
    assert.equal((Array.isArray(body) ? body[0] : body).messageId, id, path);
  }
  assert.deepEqual((await api.get('/sandbox/inbox?subject=strasse')).body, []);
});

test('a message includes its content, links, and codes', async () => {
  const api = app.api('acc_c', 'sandbox');
  const content = [
    'From: a@example.org',
    'X-Foo: bar',
    'Content-Type: multipart/alternative; boundary=x',
    '',
    '--x',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    'Grüße! Your code is 482913, or AB12-CD34. See https://example.org/login?id=12345.',
    '--x',
    'Content-Type: text/html',
    '',
    '<p>Hi <a href="https://example.org/a?b=1&amp;c=2">here</a> <a href=\'javascript:x\'>no</a></p>',
    '--x--',
    '',
  ].join('\r\n');
  const id = await seed('acc_c', { content });
  const { body } = await api.get(`/sandbox/inbox/${id}`);
  assert.equal(body.messageId, id);
  assert.match(body.text, /^Grüße!/);
  assert.match(body.html, /<p>Hi/);
  assert.equal(body.headers['X-Foo'], 'bar');
  assert.deepEqual(body.links, ['https://example.org/a?b=1&c=2', 'https://example.org/login?id=12345']);
  assert.deepEqual(body.codes, ['482913', 'AB12-CD34']);
  const html = 'Content-Type: text/html\r\n\r\n<p>Your code:<strong>123456</strong></p>\r\n';
  assert.deepEqual((await api.get(`/sandbox/inbox/${await seed('acc_c', { content: html })}`)).body.codes, ['123456']);
  assert.equal((await app.api('acc_a', 'sandbox').get(`/sandbox/inbox/${id}`)).status, 404);
});

test('text and HTML are returned as given, without the final line break of the message', async () => {
  const api = app.api('acc_c', 'sandbox');
  const part = (type: string, text: string) => `--x\r\nContent-Type: text/${type}\r\n\r\n${text}\r\n`;
  const both = 'Content-Type: multipart/alternative; boundary=x\r\n\r\n';
  for (const [content, text, html] of [
    ['Subject: x\r\n\r\nt\r\n', 't', null],
    ['Subject: x\r\n\r\nt\r\n\r\n', 't\n', null],
    [`${both}${part('plain', 't')}${part('html', '<p>t</p>')}--x--\r\n`, 't', '<p>t</p>'],
  ] as const) {
    const { body } = await api.get(`/sandbox/inbox/${await seed('acc_c', { content })}`);
    assert.deepEqual([body.text, body.html], [text, html]);
  }
});

test('the inbox keeps seven days and a thousand messages, and can be emptied', async () => {
  const api = app.api('acc_d', 'sandbox');
  const old = await seed('acc_d');
  clock.advance(7 * 86_400_000);
  assert.deepEqual((await api.get('/sandbox/inbox')).body, []);
  assert.equal((await api.get(`/sandbox/inbox/${old}`)).status, 404);
  const first = await seed('acc_d');
  clock.advance(1);
  await Promise.all(Array.from({ length: 1_000 }, () => seed('acc_d')));
  assert.equal((await api.get(`/sandbox/inbox/${first}`)).status, 404);
  let shown = 0;
  for (let url: string | undefined = '/sandbox/inbox?limit=100'; url; ) {
    const page = await api.get(url);
    shown += page.body.length;
    url = /<([^>]+)>; rel="next"/.exec(page.headers.link ?? '')?.[1];
  }
  assert.equal(shown, 1_000);
  assert.deepEqual(Object.keys((await api.delete('/sandbox/inbox')).body), ['message']);
  assert.deepEqual((await api.get('/sandbox/inbox')).body, []);
});

test('a waiting call is asked to retry when the service stops', async (t) => {
  let waiting = 0;
  let isStopping = false;
  const stopped = await featureApp(({ database, folder }) => {
    const followers = createFollowers({ database });
    const follow: typeof followers.follow = (...who) => {
      waiting += 1;
      return followers.follow(...who);
    };
    return sandboxRoutes({
      database,
      clock,
      blobs: openDiskBlobs(path.join(folder, 'blobs')),
      followers: { ...followers, follow },
      waits: createConcurrencyLimiter('inboxWaits', () => 1),
      isStopping: () => isStopping,
    });
  });
  t.after(() => stopped.close());
  const answered = stopped.api('acc_a', 'sandbox').get('/sandbox/inbox/wait?timeoutSeconds=20');
  await waitUntil('the wait', () => waiting === 1);
  isStopping = true;
  await stopped.stop({ deadlineMs: 5_000 });
  const { status, headers, body } = await answered;
  assert.deepEqual([status, headers['retry-after'], body.error.code], [503, '1', 'OVERLOADED']);
  assert.match(body.error.message, /Retry the call/);
});

test('rejects a live key with an explanation', async () => {
  const live = app.api('acc_a');
  for (const answer of [
    await live.get('/sandbox/inbox'),
    await live.get('/sandbox/inbox/x'),
    await live.delete('/sandbox/inbox'),
  ]) {
    assert.deepEqual([answer.status, answer.body.error.code], [403, 'FORBIDDEN']);
  }
});
