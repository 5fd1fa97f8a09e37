/** Share links of a message: what they show, what they never show, and when they expire, on either database. */
import assert from 'node:assert/strict';
import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import path from 'node:path';
import { test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { fakeClock } from '../../test/kit/fake-clock.ts';
import { featureApp } from '../../test/kit/feature-app.ts';
import { highLimitAccount } from '../../test/kit/high-limit-account.ts';
import { seedMail } from '../../test/kit/seed-mail.ts';
import { DIALECTS } from '../../test/kit/temp-database.ts';
import { setAccountOperation } from '../accounts/store.ts';
import { shareRoutes } from '../api/messages-share.ts';
import { auditOperation } from '../audit/store.ts';
import { newId } from '../base/ids.ts';
import { claimOperation } from '../delivery/queue/claim.ts';
import { settleOperation } from '../delivery/record/settle.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { removeSharesOperation } from './share-store.ts';
import { createShareTokens } from './share-token.ts';
import { ownLines } from './shared-view.ts';

const WEEK_MS = 604_800_000;
const ADA = 'ada@example.com';
const BOB = 'bob@example.com';

const SESSION = [
  'S 220 mx.example.com',
  `C MAIL FROM:<shop@example.org>`,
  `C RCPT TO:<${ADA}>`,
  `C RCPT TO:<${BOB}>`,
  'C DATA',
  'S 250 ok',
  'S 250 ada',
  'S 550 5.1.1 bob is unknown',
  'S 354 go on',
  'C <120 bytes>',
  'S 250 2.0.0 taken',
];
const lines = (entries: readonly string[]) =>
  entries.map((line, atMs) => ({ atMs, direction: line[0] as 'C' | 'S', text: line.slice(2) }));
const formatted = (of: { direction: string; text: string }[]): string[] =>
  of.map(({ direction, text }) => `${direction} ${text}`);

for (const dialect of DIALECTS) {
  test(`${dialect}: a share link shows one message and no other`, async (t) => {
    const clock = fakeClock(Date.now());
    const secretKey = randomBytes(32);
    const app = await featureApp(
      ({ database, folder }) =>
        shareRoutes({
          database,
          clock,
          blobs: openDiskBlobs(path.join(folder, 'blobs')),
          linkBase: { secretKey, baseUrl: 'https://mail.example.org' },
        }),
      undefined,
      dialect,
    );
    t.after(app.close);
    const { database } = app.temp;
    await highLimitAccount(database, 'acc_one');
    const api = app.api('acc_one');
    const { recipients } = await seedMail(database, {
      accountId: 'acc_one',
      nowMs: clock.now(),
      recipients: [ADA, BOB],
      subject: 'Order 17',
      tags: ['secret-tag'],
      email: { metadata: JSON.stringify({ customer: 'secret-value' }) },
    });
    const id = recipients[0]!.messageId;
    const claim = { nowMs: clock.now(), leaseMs: 60_000, limit: 10, quarantined: false };
    const { jobs } = await database.execute(claimOperation, claim);
    const { seq, fence, emailSeq } = jobs.find((one) => one.messageId === id)!;
    await database.execute(settleOperation, [
      {
        seq,
        fence,
        emailSeq,
        accountId: 'acc_one',
        mode: 'live',
        messageId: id,
        retain: '30d',
        to: 'delivered',
        atMs: clock.now(),
        attempts: 1,
        nextAttemptAtMs: null,
        suppress: null,
        followedBy: null,
        sandboxOutcome: null,
        attempt: {
          time: new Date(clock.now()).toISOString(),
          durationMs: 5,
          host: 'mx.example.com',
          address: null,
          tls: null,
          dialogue: lines(SESSION),
          reply: '250 2.0.0 taken',
          outcome: 'delivered',
        },
        event: { id: newId('evt'), type: 'Delivery', detail: { delivery: { reply: '250 2.0.0 taken' } } },
      },
    ]);

    const link = async (body: object = {}): Promise<string> => {
      const made = await api.post(`/messages/${id}/share`, body);
      assert.equal(made.status, 201, made.text);
      assert.match(made.body.url, /^https:\/\/mail\.example\.org\/shared#token=[\w-]+\.[\w-]{43}$/);
      return made.body.url.split('#token=')[1];
    };
    const read = (token: string, at = '/shared/message') =>
      api.call({ method: 'GET', path: at, headers: { 'x-share-token': token } });
    const statuses = async (token: string): Promise<number[]> => [
      (await read(token)).status,
      (await read(token, '/shared/message/content')).status,
    ];

    const token = await link();
    const { status, body, text } = await read(token);
    assert.deepEqual(
      [status, body.messageId, body.status, body.to, body.subject],
      [200, id, 'delivered', ADA, 'Order 17'],
    );
    assert.deepEqual(
      body.timeline.map((one: { eventType: string }) => one.eventType),
      ['Send', 'Delivery'],
    );
    assert.equal(body.attempts[0].reply, '250 2.0.0 taken');
    assert.doesNotMatch(text, /secret|bob@|bob is/i);
    assert.equal(Date.parse(body.validUntil), clock.now() + WEEK_MS);
    assert.match((await read(token, '/shared/message/content')).text, /Thank you/);

    const withoutSubject = await read(await link({ hideSubject: true }));
    assert.doesNotMatch(withoutSubject.text, /Order 17/);
    assert.deepEqual([withoutSubject.body.subjectHidden, withoutSubject.body.contentHidden], [true, true]);
    assert.deepEqual(await statuses(await link({ hideSubject: true })), [200, 404]);
    assert.deepEqual(await statuses(await link({ hideContent: true })), [200, 404]);

    for (const wrong of [{ expiresInSeconds: 59 }, { expiresInSeconds: 2_592_001 }, { forEver: true }])
      assert.equal((await api.post(`/messages/${id}/share`, wrong)).status, 400, JSON.stringify(wrong));
    assert.equal((await api.post('/messages/msg_none/share', {})).status, 404);
    assert.equal((await app.api('acc_two').post(`/messages/${id}/share`, {})).status, 404, 'of another account');
    assert.equal(
      (await app.api('acc_one', 'sandbox').post(`/messages/${id}/share`, {})).status,
      404,
      'of another mode',
    );

    assert.deepEqual(await statuses(''), [404, 404]);
    const [claims = '', signature = ''] = token.split('.');
    const longer = JSON.parse(Buffer.from(claims, 'base64url').toString());
    longer[3] += 1;
    const prolonged = Buffer.from(JSON.stringify(longer)).toString('base64url');
    for (const forged of [
      `${prolonged}.${signature}`,
      `${claims}.${'A'.repeat(43)}`,
      claims,
      `${token}A`,
      ` ${token} x`,
    ])
      assert.deepEqual(await statuses(forged), [404, 404], forged);

    // A token of an earlier version has no ID, and is otherwise the same.
    const oldest = JSON.stringify(['acc_one', 'live', id, clock.now() + 60_000, 'c']);
    const payload = Buffer.from(oldest).toString('base64url');
    const key = Buffer.from(hkdfSync('sha256', secretKey, '', 'postrider share links', 32));
    const old = `${payload}.${createHmac('sha256', key).update(payload).digest('base64url')}`;
    assert.deepEqual(await statuses(old), [200, 404], 'valid, with hidden content');

    const change = { plan: null, approvedEmailBytes: null, nowMs: Date.now(), limits: {} };
    await database.execute(setAccountOperation, { id: 'acc_one', status: 'suspended', ...change });
    assert.deepEqual(await statuses(token), [404, 404], 'while the account is suspended');
    await database.execute(setAccountOperation, { id: 'acc_one', status: 'active', ...change });
    const brief = await link({ expiresInSeconds: 60 });
    clock.advance(60_000);
    assert.deepEqual(await statuses(brief), [404, 404]);
    assert.deepEqual(await statuses(old), [404, 404], 'an old token expires too');
    assert.deepEqual(await statuses(token), [200, 200], 'control: a longer one is still valid');
    clock.advance(WEEK_MS);
    assert.deepEqual(await statuses(token), [404, 404]);
  });
}

for (const dialect of DIALECTS) {
  test(`${dialect}: links are listed without their tokens, and revoked immediately`, async (t) => {
    const clock = fakeClock(Date.now());
    const app = await featureApp(
      ({ database, folder }) =>
        shareRoutes({
          database,
          clock,
          blobs: openDiskBlobs(path.join(folder, 'blobs')),
          linkBase: { secretKey: randomBytes(32), baseUrl: 'https://mail.example.org' },
        }),
      undefined,
      dialect,
    );
    t.after(app.close);
    const { database } = app.temp;
    const api = app.api('acc_one');
    const strangers = [app.api('acc_two'), app.api('acc_one', 'sandbox')];
    for (const accountId of ['acc_one', 'acc_two']) await highLimitAccount(database, accountId);
    const seeded = async () =>
      (await seedMail(database, { accountId: 'acc_one', nowMs: clock.now() })).recipients[0]!.messageId;
    const [id, other] = [await seeded(), await seeded()];
    const tokens: string[] = [];
    const share = async (messageId: string, body: object = {}): Promise<{ shareId: string; token: string }> => {
      clock.advance(1);
      const made = await api.post(`/messages/${messageId}/share`, body);
      assert.equal(made.status, 201, made.text);
      const token = made.body.url.split('#token=')[1];
      tokens.push(token);
      return { shareId: made.body.shareId, token };
    };
    const opens = async (token: string): Promise<boolean> => {
      const headers = { 'x-share-token': token };
      const found = [
        await api.call({ method: 'GET', path: '/shared/message', headers }),
        await api.call({ method: 'GET', path: '/shared/message/content', headers }),
      ].map(({ status }) => status);
      if (found[0] === 404) assert.deepEqual(found, [404, 404]);
      return found[0] === 200;
    };
    const listed = async (at: string): Promise<string[]> => {
      const { status, body, text } = await api.get(at);
      assert.equal(status, 200, text);
      for (const token of tokens) assert.ok(!text.includes(token) && !text.includes(token.split('.')[1]!));
      return body.map(({ shareId }: { shareId: string }) => shareId);
    };

    const first = await share(id, { hideSubject: true });
    const brief = await share(id, { expiresInSeconds: 60 });
    const elsewhere = await share(other, { hideContent: true });
    assert.match(first.shareId, /^shr_[0-9A-Za-z]{21}$/);
    assert.deepEqual(await listed(`/messages/${id}/shares`), [brief.shareId, first.shareId]);
    assert.deepEqual(await listed('/shares'), [elsewhere.shareId, brief.shareId, first.shareId]);
    const ofOther = await api.get(`/messages/${other}/shares`);
    assert.deepEqual(ofOther.body[0], {
      shareId: elsewhere.shareId,
      messageId: other,
      createdAt: new Date(clock.now()).toISOString(),
      expiresAt: new Date(clock.now() + WEEK_MS).toISOString(),
      hideSubject: false,
      hideContent: true,
      createdBy: { kind: 'key', id: 'key_acc_one_live', name: 'test' },
    });
    const page = await api.get('/shares?limit=2');
    assert.equal(page.body.length, 2);
    assert.deepEqual(await listed(`/shares?cursor=${page.headers['x-next-cursor']}`), [first.shareId]);
    assert.equal((await api.get('/messages/msg_none/shares')).status, 404);

    for (const stranger of strangers) {
      assert.deepEqual((await stranger.get('/shares')).body, []);
      assert.equal((await stranger.get(`/messages/${id}/shares`)).status, 404);
      assert.equal((await stranger.delete(`/shares/${first.shareId}`)).status, 404);
    }
    assert.ok(await opens(first.token), 'another account cannot revoke it');

    assert.equal((await api.delete(`/shares/${first.shareId}`)).status, 200);
    assert.ok(!(await opens(first.token)), 'revoked');
    assert.equal((await api.delete(`/shares/${first.shareId}`)).status, 404);
    assert.ok(await opens(brief.token), 'control: another link to the message');
    assert.deepEqual(await listed(`/messages/${id}/shares`), [brief.shareId]);
    const entries = await database.execute(auditOperation, {
      accountId: 'acc_one',
      mode: null,
      action: null,
      resource: null,
      resourceIds: [id, id] as const,
      actorId: null,
      fromId: '',
      belowId: 'aud_~',
      limit: 100,
    });
    assert.deepEqual(
      entries.map(({ action, afterChange }) => [action, JSON.parse(afterChange!).shareId]),
      [
        ['message.revoke-share', first.shareId],
        ['message.share', brief.shareId],
        ['message.share', first.shareId],
      ],
    );
    for (const token of tokens) assert.ok(!JSON.stringify(entries).includes(token));

    clock.advance(60_000);
    assert.deepEqual(await listed('/shares'), [elsewhere.shareId], 'an expired link is not listed');
    assert.equal((await api.delete(`/shares/${brief.shareId}`)).status, 404);
    assert.equal(await database.execute(removeSharesOperation, { nowMs: clock.now(), limit: 10 }), 1);

    const results: Answer[] = [];
    while (results.length < 104) {
      const some = Array.from({ length: 8 }, () => api.post(`/messages/${id}/share`, {}));
      results.push(...(await Promise.all(some)));
    }
    const refused = results.filter(({ status }) => status !== 201);
    assert.deepEqual([results.length - refused.length, refused[0]?.body.error.code], [100, 'LIMIT_REACHED']);
    assert.match(refused[0]!.body.error.message, /100 valid links.*DELETE \/shares\/\{id\}/);
    assert.equal(
      (await api.delete(`/shares/${results.find(({ status }) => status === 201)!.body.shareId}`)).status,
      200,
    );
    await share(id);
  });
}

test('a token returns the sealed value, only with the key that sealed it', () => {
  const [own, other] = [createShareTokens(randomBytes(32)), createShareTokens(randomBytes(32))];
  const grant = { accountId: 'acc_1', mode: 'live', messageId: 'msg_1', expiresAtMs: 1_000, shareId: 'shr_1' } as const;
  for (const hideSubject of [true, false])
    for (const hideContent of [true, false]) {
      const token = own.seal({ ...grant, hideSubject, hideContent });
      assert.deepEqual(own.open(token, 999), { ...grant, hideSubject, hideContent });
      assert.equal(own.open(token, 1_000), undefined);
      assert.equal(other.open(token, 999), undefined);
    }
});

test("other recipients' lines are omitted from a shared session", () => {
  assert.deepEqual(formatted(ownLines(lines(SESSION), ADA)), [
    'S 220 mx.example.com',
    'C MAIL FROM:<shop@example.org>',
    `C RCPT TO:<${ADA}>`,
    'C DATA',
    'C <120 bytes>',
    'S 250 2.0.0 taken',
  ]);
  const alone = ['S 220 x', `C RCPT TO:<${ADA}>`, 'S 250 ok', 'C DATA', 'S 354 go on'];
  assert.deepEqual(
    formatted(ownLines(lines(alone), ADA)),
    alone,
    'control: a single recipient gets the complete session',
  );
  const cut = ['S 220 x', 'C EHLO us', 'S …', 'S 550 bob is unknown', 'C <1 bytes>', 'S 250 taken'];
  assert.deepEqual(formatted(ownLines(lines(cut), ADA)), ['S 220 x', 'C EHLO us', 'C <1 bytes>', 'S 250 taken']);
});
