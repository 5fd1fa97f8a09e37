/**
 * The official Resend SDK against this service, in its newest version and in the last one that serializes Buffers as JSON, with only the
 * base URL changed. Every method of the subset is called; messages are counted at the receiving server, and webhooks are verified by the
 * SDK and by svix.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Resend as NewestResend } from 'resend';
import { Resend as EarlierResend } from 'resend-6-22';
import { Webhook } from 'svix';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

let sink: SmtpSink;
let service: Service;
let catcher: WebhookCatcher;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

before(async () => {
  // Outside of production, the earlier version logs every rejection to the console.
  process.env.NODE_ENV = 'production';
  sink = await smtpSink();
  catcher = await webhookCatcher();
  service = await startService({
    env: {
      POSTRIDER_DOORS: 'resend',
      POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
      POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
    },
  });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service.close();
  await sink.close();
  await catcher.close();
});

/** The data of a response, which must not be an error. */
function data<T>(answer: { data: T | null; error: unknown }): T {
  assert.equal(answer.error, null, JSON.stringify(answer.error));
  return answer.data as T;
}

function refused(answer: {
  data: unknown;
  error: { name: string; statusCode: number | null; message: string } | null;
}) {
  assert.equal(answer.data, null);
  assert.ok(answer.error);
  return answer.error;
}

const SDKS = {
  newest: NewestResend,
  // Its types differ in places that no test uses.
  earlier: EarlierResend as unknown as typeof NewestResend,
};

for (const [name, Resend] of Object.entries(SDKS)) {
  const live = () => new Resend(service.live.apiKey, { baseUrl: service.url } as never);
  const sandbox = () => new Resend(service.sandbox.apiKey, { baseUrl: `${service.url}/resend` } as never);
  const mail = (to: string) => ({
    from: 'Shop <hello@shop.example>',
    to,
    subject: 'Hello',
    html: '<p>{{ literal }}</p>',
  });

  test(`${name}: an email is sent, returned, and listed as one, regardless of its number of recipients`, async () => {
    const resend = live();
    const { id } = data(
      await resend.emails.send({
        ...mail(`a-${name}@example.com`),
        cc: [`c-${name}@example.com`],
        bcc: `b-${name}@example.com`,
        replyTo: ['help@shop.example'],
        text: 'Hello',
        headers: { 'X-Order': '17' },
        tags: [{ name: 'kind', value: 'welcome' }],
        attachments: [
          { filename: 'a.txt', content: Buffer.from('bytes of a Buffer') },
          { filename: 'b.pdf', content: Buffer.from('Base64').toString('base64'), contentId: 'logo' },
        ],
      }),
    );
    assert.match(id, UUID);
    const received = await waitUntil('the mail', () => {
      const all = sink.messages.filter((one) => one.to.some((to) => to.includes(`-${name}@`)));
      return all.flatMap((one) => one.to).length >= 3 ? all : undefined;
    });
    const text = received[0]!.content.toString();
    assert.match(text, /^X-Order: 17\r$/m);
    assert.match(text, /\{\{ literal \}\}/);
    assert.ok(text.includes(Buffer.from('bytes of a Buffer').toString('base64')));
    assert.match(text, /^Content-Type: application\/pdf/m);
    const shown = await waitUntil('the delivery', async () => {
      const email = data(await resend.emails.get(id));
      return email.last_event === 'delivered' ? email : undefined;
    });
    assert.equal(shown.object, 'email');
    assert.deepEqual(
      [shown.id, shown.to, shown.cc, shown.bcc, shown.reply_to, shown.subject],
      [
        id,
        [`a-${name}@example.com`],
        [`c-${name}@example.com`],
        [`b-${name}@example.com`],
        ['help@shop.example'],
        'Hello',
      ],
    );
    assert.equal(shown.html?.trim(), '<p>{{ literal }}</p>');
    assert.equal(shown.text?.trim(), 'Hello');
    assert.deepEqual(shown.tags, [{ name: 'kind', value: 'welcome' }]);
    assert.match(shown.message_id, /^<.+@.+>$/);
    const list = data(await resend.emails.list({ limit: 1 }));
    assert.deepEqual([list.object, list.data.length, list.data[0]!.id], ['list', 1, id]);

    const files = data(await resend.emails.attachments.list({ emailId: id }));
    assert.deepEqual(
      files.data.map((file) => [file.filename, file.content_disposition]),
      [
        ['b.pdf', 'inline'],
        ['a.txt', 'attachment'],
      ],
    );
    const file = data(await resend.emails.attachments.get({ emailId: id, id: files.data[1]!.id }));
    assert.equal(await (await fetch(file.download_url)).text(), 'bytes of a Buffer');
    assert.equal((await fetch(file.download_url.slice(0, -2))).status, 404);
    const unknown = refused(await resend.emails.get('4ef9a417-02e9-4d39-ad75-9611e0fcc33c'));
    assert.deepEqual([unknown.name, unknown.statusCode], ['not_found', 404]);
    const malformed = refused(await resend.emails.get('nothing'));
    assert.deepEqual([malformed.name, malformed.statusCode], ['invalid_parameter', 422]);
  });

  test(`${name}: an idempotency key deduplicates retries and rejects a different body`, async () => {
    const resend = live();
    const to = `once-${name}@example.com`;
    const wish = { ...mail(to), scheduledAt: 'in 20 min' };
    const options = { idempotencyKey: `key-${name}-${'k'.repeat(256 - 5 - name.length)}` };
    const first = data(await resend.emails.send(wish, options));
    assert.deepEqual(data(await resend.emails.send(wish, options)), first, 'a relative time is the same body');
    const other = refused(await resend.emails.send({ ...wish, subject: 'Other' }, options));
    assert.deepEqual([other.name, other.statusCode], ['invalid_idempotent_request', 409]);
    const long = refused(await resend.emails.send(wish, { idempotencyKey: 'k'.repeat(257) }));
    assert.deepEqual([long.name, long.statusCode], ['invalid_idempotency_key', 400]);
    const { data: listed } = data(await resend.emails.list({ limit: 100 }));
    assert.equal(listed.filter((one) => one.to.includes(to)).length, 1);
  });

  test(`${name}: a scheduled email is rescheduled and canceled for all recipients`, async () => {
    const resend = live();
    const to = [`later-${name}@example.com`, `later2-${name}@example.com`];
    const at = new Date(Date.now() + 3_600_000).toISOString();
    const { id } = data(await resend.emails.send({ ...mail(to[0]!), to, scheduledAt: at }));
    assert.equal(data(await resend.emails.get(id)).scheduled_at, at);
    assert.deepEqual(data(await resend.emails.update({ id, scheduledAt: 'in 2 days' })), { object: 'email', id });
    const moved = data(await resend.emails.get(id));
    assert.ok(Date.parse(moved.scheduled_at!) > Date.now() + 47 * 3_600_000);
    assert.equal(moved.last_event, 'scheduled');
    assert.equal(refused(await resend.emails.update({ id, scheduledAt: 'soon' })).name, 'validation_error');
    assert.deepEqual(data(await resend.emails.cancel(id)), { object: 'email', id });
    assert.equal(data(await resend.emails.get(id)).last_event, 'canceled');
    const late = refused(await resend.emails.cancel(id));
    assert.deepEqual([late.name, late.statusCode], ['validation_error', 422]);
    assert.equal(sink.messages.filter((one) => one.to.some((one) => to.includes(one))).length, 0);
  });

  test(`${name}: a batch is all or nothing unless it is permissive`, async () => {
    const resend = live();
    const good = mail(`batch-${name}@example.com`);
    const bad = { ...good, from: 'a@other.example' };
    const sent = data(await resend.batch.send([good, { ...good, scheduledAt: 'in 1 hour' }]));
    assert.equal(sent.data.length, 2);
    await waitUntil('the batch', () => sink.messages.find((one) => one.to.includes(good.to)));
    const none = mail(`none-${name}@example.com`);
    const strict = refused(await resend.batch.send([none, bad]));
    assert.deepEqual([strict.name, strict.statusCode], ['validation_error', 403]);
    assert.match(strict.message, /other\.example domain is not verified/);
    const listed = data(await resend.emails.list({ limit: 100 })).data;
    assert.ok(!listed.some((one) => one.to.includes(none.to)), 'nothing of a strict batch was accepted');
    const some = data(
      await resend.batch.send([good, bad, { ...good, subject: undefined } as never], { batchValidation: 'permissive' }),
    );
    assert.equal(some.data.length, 1);
    assert.deepEqual(
      (some as unknown as { errors: { index: number }[] }).errors.map((one) => one.index),
      [1, 2],
    );
    const once = { idempotencyKey: `batch-${name}` };
    const keyed = data(await resend.batch.send([good, good], once));
    assert.deepEqual(data(await resend.batch.send([good, good], once)), keyed);
    assert.equal(refused(await resend.batch.send([good], once)).name, 'invalid_idempotent_request');
  });

  test(`${name}: sandbox keys simulate the outcomes of test addresses; live keys reject them`, async () => {
    const resend = sandbox();
    for (const [address, event] of [
      ['delivered+a@resend.dev', 'delivered'],
      ['bounced@resend.dev', 'bounced'],
      ['complained@resend.dev', 'complained'],
      ['suppressed+b@resend.dev', 'suppressed'],
    ] as const) {
      const { id } = data(await resend.emails.send({ ...mail(address), from: 'onboarding@resend.dev' }));
      await waitUntil(`${event}`, async () => data(await resend.emails.get(id)).last_event === event);
    }
    const live422 = refused(await live().emails.send(mail('bounced@resend.dev')));
    assert.equal(live422.statusCode, 422);
    assert.match(live422.message, /sandbox key/);
    assert.ok(!sink.messages.some((one) => one.to.some((to) => to.endsWith('@resend.dev'))));
  });

  test(`${name}: a share link opens an email, and metrics count emails`, async () => {
    const resend = live();
    const { id } = data(await resend.emails.send(mail(`shared-${name}@example.com`)));
    if (name === 'newest') {
      const link = data(await resend.emails.share(id, { expiresIn: '2 hours' }));
      assert.match(link.url, /\/shared#token=/);
      const metrics = await waitUntil('the counts', async () => {
        const found = await resend.emails.metrics({ dimensions: ['period'], metrics: ['sent', 'delivery_rate'] });
        return found.data ?? undefined;
      });
      assert.equal(metrics.object, 'metrics');
      assert.ok(metrics.totals.sent! > 0);
      assert.ok(metrics.data!.length > 0 && metrics.data!.every((row) => row.period !== undefined));
    }
  });

  test(`${name}: domains, keys, and their limits`, async () => {
    const resend = live();
    const domain = data(await resend.domains.create({ name: `${name}.shop.test` }));
    assert.match(domain.id, UUID);
    assert.deepEqual([domain.name, domain.status], [`${name}.shop.test`, 'not_started']);
    assert.ok(domain.records.some((record) => record.record === 'DKIM' && record.type === 'TXT'));
    assert.equal(data(await resend.domains.get(domain.id)).object, 'domain');
    assert.ok(data(await resend.domains.list()).data.some((one) => one.id === domain.id));
    assert.deepEqual(data(await resend.domains.update({ id: domain.id, openTracking: false })), {
      object: 'domain',
      id: domain.id,
    });
    assert.match(refused(await resend.domains.update({ id: domain.id, clickTracking: true })).message, /each email/);
    assert.equal(data(await resend.domains.verify(domain.id)).id, domain.id);
    assert.equal(
      refused(await resend.domains.create({ name: 'x.test', region: 'moon' as never })).name,
      'invalid_region',
    );

    const key = data(
      await resend.apiKeys.create({ name: `Key ${name}`, permission: 'sending_access', domain_id: domain.id }),
    );
    const sender = new Resend(key.token, { baseUrl: service.url } as never);
    assert.equal(refused(await sender.emails.list()).name, 'restricted_api_key');
    assert.equal(refused(await sender.emails.send(mail('x@example.com'))).statusCode, 403, 'another domain');
    const listed = data(await resend.apiKeys.list({ limit: 100 }));
    assert.ok(listed.data.some((one) => one.id === key.id && one.name === `Key ${name}`));
    if (name === 'newest') {
      assert.equal(data(await resend.apiKeys.update(key.id, { name: 'Renamed' })).id, key.id);
      assert.ok(data(await resend.apiKeys.list()).data.some((one) => one.name === 'Renamed'));
    }
    assert.ok(!(await resend.apiKeys.remove(key.id)).error);
    assert.equal(refused(await sender.emails.send(mail('x@example.com'))).name, 'invalid_api_key');
    assert.equal(data(await resend.domains.remove(domain.id)).deleted, true);
    assert.equal(refused(await resend.domains.get(domain.id)).name, 'not_found');
  });

  test(`${name}: lists page forward with after and backward with before`, async () => {
    const resend = live();
    for (const number of [1, 2, 3, 4, 5]) data(await resend.domains.create({ name: `d${number}.${name}.list.test` }));
    const all = data(await resend.domains.list({ limit: 100 })).data.map((one) => one.id);
    const first = data(await resend.domains.list({ limit: 2 }));
    assert.deepEqual([first.data.map((one) => one.id), first.has_more], [all.slice(0, 2), true]);
    const next = data(await resend.domains.list({ limit: 2, after: all[1]! }));
    assert.deepEqual(
      next.data.map((one) => one.id),
      all.slice(2, 4),
    );
    const back = data(await resend.domains.list({ limit: 2, before: all[4]! }));
    assert.deepEqual([back.data.map((one) => one.id), back.has_more], [all.slice(2, 4), true]);
    const emails = data(await resend.emails.list({ limit: 3 })).data.map((one) => one.id);
    assert.deepEqual(
      data(await resend.emails.list({ limit: 2, before: emails[2]! })).data.map((one) => one.id),
      emails.slice(0, 2),
    );
    assert.equal(refused(await resend.emails.list({ limit: 101 })).name, 'invalid_parameter');
  });

  test(`${name}: webhooks carry the signed payload of the Resend API`, async () => {
    const resend = live();
    const events = ['email.sent', 'email.delivered', 'contact.created'] as const;
    const hook = data(await resend.webhooks.create({ endpoint: `${catcher.url}${name}`, events: [...events] }));
    assert.match(hook.signing_secret, /^whsec_/);
    assert.deepEqual(data(await resend.webhooks.get(hook.id)).events, events);
    const { id } = data(
      await resend.emails.send({ ...mail(`hook-${name}@example.com`), tags: [{ name: 'order', value: '17' }] }),
    );
    // A canceled email has no event there, and the webhook did not subscribe to scheduled ones.
    const later = data(await resend.emails.send({ ...mail(`never-${name}@example.com`), scheduledAt: 'in 1 hour' }));
    data(await resend.emails.cancel(later.id));
    const caught = await waitUntil('both events', () => {
      const mine = catcher.requests.filter((one) => one.path.endsWith(name));
      return mine.length >= 2 ? mine : undefined;
    });
    const types = caught.map((one) => (JSON.parse(one.body) as { type: string }).type);
    assert.deepEqual(types.toSorted(), ['email.delivered', 'email.sent']);
    for (const { headers, body } of caught) {
      const read = (part: string): string => String(headers[`svix-${part}`]);
      const verified = resend.webhooks.verify({
        payload: body,
        headers: { id: read('id'), timestamp: read('timestamp'), signature: read('signature') },
        webhookSecret: hook.signing_secret,
      }) as { type: string; data: { email_id: string; to: string[]; tags: object; message_id: string } };
      assert.doesNotThrow(() => new Webhook(hook.signing_secret).verify(body, headers as never));
      assert.deepEqual(
        [verified.data.email_id, verified.data.to, verified.data.tags],
        [id, [`hook-${name}@example.com`], { order: '17' }],
      );
      assert.equal(headers['webhook-signature'], headers['svix-signature']);
      assert.throws(() => new Webhook(hook.signing_secret).verify(`${body} `, headers as never));
    }
    assert.equal(data(await resend.webhooks.update(hook.id, { status: 'disabled' })).id, hook.id);
    assert.equal(data(await resend.webhooks.get(hook.id)).status, 'disabled');
    data(await resend.webhooks.update(hook.id, { status: 'enabled', events: ['email.bounced'] }));
    const listed = data(await resend.webhooks.list()).data.find((one) => one.id === hook.id)!;
    assert.deepEqual([listed.events, listed.status], [['email.bounced'], 'enabled']);
    assert.equal(
      refused(await resend.webhooks.create({ endpoint: 'ftp://x', events: ['email.sent'] })).statusCode,
      422,
    );
    assert.equal(
      refused(await resend.webhooks.create({ endpoint: catcher.url, events: ['contact.created'] })).statusCode,
      422,
    );
    if (name === 'newest') {
      const log = data(await resend.webhooks.events.list({ webhookId: hook.id }));
      assert.deepEqual(
        log.data.map((one) => one.status),
        ['success', 'success'],
      );
      const event = data(await resend.webhooks.events.get({ webhookId: hook.id, eventId: log.data[0]!.id }));
      assert.equal(event.payload.type, event.type);
      const attempts = data(
        await resend.webhooks.events.attempts.list({ webhookId: hook.id, eventId: log.data[0]!.id }),
      );
      assert.deepEqual(
        attempts.data.map((one) => one.http_status_code),
        [200],
      );
      const before = catcher.requests.length;
      data(await resend.webhooks.events.replay({ webhookId: hook.id, eventId: log.data[0]!.id }));
      await waitUntil('the replay', () => catcher.requests.length > before);
      const rotated = data(await resend.webhooks.rotateSigningSecret(hook.id));
      assert.notEqual(rotated.signing_secret, hook.signing_secret);
    }
    assert.equal(data(await resend.webhooks.remove(hook.id)).deleted, true);
  });

  test(`${name}: templates are drafts until they are published`, async () => {
    const resend = live();
    const alias = `welcome-${name}`;
    const made = data(
      await resend.templates.create({
        name: `Welcome ${name}`,
        alias,
        subject: 'Hello {{{NAME}}}',
        from: 'Shop <hello@shop.example>',
        html: '<p>{{{NAME}}}: {{{ COUNT }}} {{ left }} {% as %} it is</p>',
        variables: [
          { key: 'NAME', type: 'string' },
          { key: 'COUNT', type: 'number', fallbackValue: 3 },
        ],
      }),
    );
    const draft = data(await resend.templates.get(made.id));
    assert.deepEqual([draft.status, draft.alias, draft.name], ['draft', alias, `Welcome ${name}`]);
    assert.equal(draft.html, '<p>{{{NAME}}}: {{{COUNT}}} {{ left }} {% as %} it is</p>');
    assert.deepEqual(
      draft.variables!.map((one) => [one.key, one.fallback_value]),
      [
        ['NAME', null],
        ['COUNT', 3],
      ],
    );
    const to = `tpl-${name}@example.com`;
    const wish = { to, template: { id: made.id, variables: { NAME: '<b>Ann</b>' } } };
    assert.equal(refused(await resend.emails.send(wish as never)).name, 'not_found', 'a draft is not sent');
    assert.equal(data(await resend.templates.publish(alias)).id, made.id);
    data(await resend.templates.update(made.id, { subject: 'Not published yet' }));
    assert.equal(data(await resend.templates.get(alias)).has_unpublished_versions, true);
    const { id } = data(await resend.emails.send({ ...wish, template: { ...wish.template, id: alias } } as never));
    const content = await waitUntil('the mail', () => sink.messages.find((one) => one.to.includes(to)));
    const shown = data(await resend.emails.get(id));
    assert.equal(shown.subject, 'Hello <b>Ann</b>');
    assert.match(content.content.toString(), /<p><b>Ann<\/b>: 3 \{\{ left \}\} \{% as %\} it is<\/p>/);
    const missing = refused(await resend.emails.send({ to, template: { id: alias, variables: {} } } as never));
    assert.deepEqual([missing.name, missing.statusCode], ['validation_error', 422]);
    const copy = data(await resend.templates.duplicate(made.id));
    assert.equal(data(await resend.templates.get(copy.id)).name, `Welcome ${name} (Copy)`);
    const all = data(await resend.templates.list({ limit: 100 })).data;
    assert.deepEqual(
      all
        .filter((one) => [copy.id, made.id].includes(one.id))
        .map((one) => one.status)
        .toSorted(),
      ['draft', 'published'],
    );
    assert.equal(data(await resend.templates.remove(alias)).deleted, true);
    assert.equal(refused(await resend.templates.get(made.id)).name, 'not_found');
  });
}

test('suppressions are added, found, and removed by id and by address', async () => {
  const resend = new NewestResend(service.live.apiKey, { baseUrl: service.url });
  const { id } = data(await resend.suppressions.add({ email: 'No@Example.com' }));
  const entry = data(await resend.suppressions.get('no@example.com'));
  assert.deepEqual(
    [entry.id, entry.email, entry.origin, entry.object],
    [id, 'no@example.com', 'manual', 'suppression'],
  );
  assert.equal(data(await resend.suppressions.get(id)).email, 'no@example.com');
  const { data: many } = data(
    await resend.suppressions.batch.add({ emails: ['a@x.example', 'b@x.example', 'c@x.example'] }),
  );
  assert.equal(many.length, 3);
  const list = data(await resend.suppressions.list({ limit: 2 }));
  assert.deepEqual([list.data.length, list.has_more], [2, true]);
  const rest = data(await resend.suppressions.list({ after: list.data[1]!.id, origin: 'manual' }));
  assert.ok(rest.data.some((one) => one.id === id));
  const sent = data(
    await resend.emails.send({ from: 'hello@shop.example', to: 'no@example.com', subject: 'Hi', text: 'Hi' }),
  );
  await waitUntil('the outcome', async () => data(await resend.emails.get(sent.id)).last_event === 'suppressed');
  const gone = data(await resend.suppressions.batch.remove({ ids: many.slice(0, 2).map((one) => one.id) }));
  assert.deepEqual(
    gone.data.map((one) => one.deleted),
    [true, true],
  );
  assert.equal(data(await resend.suppressions.remove(id)).deleted, true);
  assert.equal(refused(await resend.suppressions.get(id)).name, 'not_found');
  assert.equal(data(await resend.suppressions.remove('c@x.example')).deleted, true);
  assert.equal(refused(await resend.suppressions.add({ email: 'nobody' })).statusCode, 422);
});
