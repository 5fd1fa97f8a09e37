/**
 * What a customer sees of current failures, on both databases: delayed and bounced messages by destination and reply, webhooks, and
 * domains; and one retry for an entire group, counted at the receiving server.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Api, JsonObject } from '../kit/api.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { DIALECTS } from '../kit/temp-database.ts';
import { type TempPostgres, tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { type WebhookCatcher, webhookCatcher } from '../kit/webhook-catcher.ts';

type Incident = JsonObject & { incidentId: string; kind: string; state: string; messages: number };

const incidentsOf = async (api: Api, query = ''): Promise<Incident[]> => {
  const answer = await api.get(`/incidents${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body as unknown as Incident[];
};

let counted = 0;
/** Each reply differs from the previous one in a number and an id. */
const greylisted = (): string => {
  counted += 1;
  return `451 4.7.1 <u${counted}@x.example>: greylisted, try again in ${counted} seconds (id 4ZqX${counted}T3Mzkz)`;
};

for (const dialect of DIALECTS) {
  describe(dialect, () => {
    let postgres: TempPostgres | undefined;
    let sink: SmtpSink;
    let catcher: WebhookCatcher;
    let dns: FakeDns;
    let service: Service;
    before(async () => {
      postgres = dialect === 'postgres' ? await tempPostgres() : undefined;
      [sink, catcher, dns] = await Promise.all([smtpSink(), webhookCatcher(), fakeDns({})]);
      service = await startService({
        env: {
          POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
          POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
          POSTRIDER_DNS_SERVERS: dns.server,
          ...(postgres && { POSTRIDER_DATABASE_URL: postgres.url }),
        },
      });
      await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
    });
    after(async () => {
      await service?.close();
      await Promise.all([sink?.close(), catcher?.close(), dns?.close()]);
      await postgres?.drop();
    });

    const send = async (to: string[]): Promise<string[]> => {
      const messages = to.map((one) => ({ from: 'a@shop.example', to: one, subject: 's', text: 't' }));
      const sent = await service.api.post('/send/batch', { messages });
      return (sent.body.results as JsonObject[]).map((one) => one.data.messageId as string);
    };
    const names = (count: number, domain: string) => Array.from({ length: count }, (_, n) => `u${n}@${domain}`);
    const statusOf = async (id: string): Promise<JsonObject> => (await service.api.get(`/messages/${id}`)).body;

    test('there are no incidents if nothing was sent', async () => {
      assert.deepEqual(await incidentsOf(service.api), []);
    });

    test('messages with the same failure form one incident, largest first, with advice', async () => {
      sink.setScript({
        rcpt: ({ line }) => {
          if (/@slow\.example/.test(line)) return greylisted();
          if (/@full\.example/.test(line)) return '452 4.2.2 mailbox full';
          if (/@policy\.example/.test(line)) return '550 5.7.1 refused by policy 17';
          return /@gone\.example/.test(line) ? '550 5.1.1 no such user' : undefined;
        },
      });
      const ids = await send([
        ...names(12, 'slow.example'),
        ...names(3, 'full.example'),
        ...names(2, 'policy.example'),
        ...names(2, 'gone.example'),
        'fine@good.example',
      ]);
      const found = await waitUntil('all messages to fail', async () => {
        const list = await incidentsOf(service.api);
        return list.length === 3 && list.reduce((sum, one) => sum + one.messages, 0) === 17 ? list : undefined;
      });
      assert.deepEqual(
        found.map(({ kind, state, destination, smtpCode, enhancedCode, category, owner, messages }) => {
          return [kind, state, destination, smtpCode, enhancedCode, category, owner, messages];
        }),
        [
          ['delivery', 'delayed', 'slow.example', 451, '4.7.1', 'greylisted', 'remote', 12],
          ['delivery', 'delayed', 'full.example', 452, '4.2.2', 'mailbox-full', 'recipient', 3],
          ['delivery', 'bounced', 'policy.example', 550, '5.7.1', 'policy', 'remote', 2],
        ],
      );
      const [slow, , policy] = found;
      assert.match(String(slow?.reply), /^451 4\.7\.1 .*greylisted/);
      assert.match(String(slow?.advice), /\(greylisting\); Postrider retries automatically\.$/);
      assert.equal(slow?.sampleMessageIds.length, 5);
      assert.ok(slow?.sampleMessageIds.every((id: string) => ids.slice(0, 12).includes(id)));
      assert.ok(Date.parse(slow?.nextAttemptAt) > Date.now());
      assert.ok(slow?.since <= slow?.lastAt);
      assert.deepEqual(await incidentsOf(service.api), found, 'the same ids while the incident lasts');
      const paged: Incident[] = [];
      for (let next: string | undefined = '/incidents?limit=1'; next !== undefined; ) {
        const page: Awaited<ReturnType<Api['get']>> = await service.api.get(next);
        paged.push(...(page.body as unknown as Incident[]));
        next = /<([^>]+)>/.exec(page.headers.link ?? '')?.[1];
      }
      assert.deepEqual(paged, found);
      for (const [one, expected] of [
        [slow, ids.slice(0, 12)],
        [policy, ids.slice(15, 17)],
      ] as const) {
        const listed: string[] = [];
        for (let next: string | undefined = `/incidents/${one?.incidentId}?limit=5`; next !== undefined; ) {
          const page: Awaited<ReturnType<Api['get']>> = await service.api.get(next);
          const { affectedMessages, ...rest } = page.body;
          assert.deepEqual(rest, one);
          listed.push(...(affectedMessages as JsonObject[]).map(({ messageId }) => messageId as string));
          next = /<([^>]+)>/.exec(page.headers.link ?? '')?.[1];
        }
        assert.deepEqual(listed.sort(), [...expected].sort());
      }
      assert.deepEqual(await incidentsOf(service.sandboxApi), []);
      assert.equal((await service.sandboxApi.get(`/incidents/${slow?.incidentId}`)).status, 404);
      assert.equal((await service.sandboxApi.post(`/incidents/${slow?.incidentId}/retry`)).status, 404);
      const bounced = await service.api.post(`/incidents/${policy?.incidentId}/retry`);
      assert.equal(bounced.body.error.code, 'CONFLICT');
    });

    test('one retry resends each message of the group once, and no others', async () => {
      sink.setScript({ rcpt: ({ line }) => (/@full\.example/.test(line) ? '452 4.2.2 mailbox full' : undefined) });
      const [slow] = await incidentsOf(service.api);
      const before = sink.messages.length;
      const retried = await service.api.post(`/incidents/${slow?.incidentId}/retry`);
      assert.equal(retried.status, 200, retried.text);
      assert.equal(retried.body.retried, 12);
      const [change] = (await service.api.get('/audit?action=incident.retry')).body as unknown as JsonObject[];
      assert.deepEqual([change?.resourceId, change?.after], [slow?.incidentId, { messages: 12 }]);
      const again = await service.api.post(`/incidents/${slow?.incidentId}/retry`);
      assert.ok(again.status === 404 || again.body.retried === 0, again.text);
      await waitUntil('the message to arrive', () => sink.messages.length >= before + 12);
      await waitUntil('the incident to end', async () => (await incidentsOf(service.api)).length === 2);
      const to = sink.messages.slice(before).flatMap((message) => message.to);
      assert.deepEqual(to.sort(), names(12, 'slow.example').sort());
      const gone = await service.api.get(`/incidents/${slow?.incidentId}`);
      assert.equal(gone.status, 404);
    });

    test('a retry does not bypass the pause of a destination', async () => {
      sink.setScript({ mail: '421 4.7.0 too much mail from you, come back in 30 minutes' });
      const [first = '', ...others] = await send(names(4, 'busy.example'));
      const ids = [first, ...others];
      await waitUntil('all messages to be deferred', async () => {
        const all = await Promise.all(ids.map(statusOf));
        return all.every(({ status, nextAttemptAt }) => status === 'delayed' && Date.parse(nextAttemptAt) > Date.now());
      });
      const busy = (await incidentsOf(service.api)).find((one) => one.destination === 'busy.example');
      assert.equal(busy?.messages, 4);
      sink.setScript({});
      const [connections, arrived] = [sink.connections.total, sink.messages.length];
      const retried = await service.api.post(`/incidents/${busy?.incidentId}/retry`);
      assert.equal(retried.body.retried, 4, retried.text);
      await waitUntil('all messages to be deferred again, untried', async () => {
        const all = await Promise.all(ids.map(statusOf));
        return all.every(({ nextAttemptAt }) => Date.parse(nextAttemptAt) > Date.now() + 60_000);
      });
      assert.deepEqual([sink.connections.total, sink.messages.length], [connections, arrived]);
      for (const id of ids) assert.ok((await statusOf(id)).attempts.length <= 1);
    });

    test('a failing webhook is an incident, and can be retried', async () => {
      catcher.answer({ status: 503 });
      const made = await service.api.post('/webhooks', { url: `${catcher.url}/hook`, events: ['Send'] });
      await send(['hook@busy.example']);
      const failing = await waitUntil('the webhook to fail', async () =>
        (await incidentsOf(service.api)).find((one) => one.kind === 'webhook'),
      );
      assert.equal(failing.webhookId, made.body.webhookId);
      assert.equal(failing.lastStatus, 503);
      assert.equal(failing.host, new URL(catcher.url).host);
      assert.equal(failing.state, 'failing');
      assert.match(String(failing.advice), /returned 503/);
      catcher.answer();
      const before = catcher.requests.length;
      const retried = await service.api.post(`/incidents/${failing.incidentId}/retry`);
      assert.equal(retried.status, 200, retried.text);
      await waitUntil('the event to arrive', () => catcher.requests.length > before);
      await waitUntil('the incident to end', async () =>
        (await incidentsOf(service.api)).every((one) => one.kind !== 'webhook'),
      );
    });

    test('a domain with a missing DNS record is listed first', async () => {
      const domains = (await service.api.get('/domains')).body as unknown as JsonObject[];
      const { domainId, dnsRecords } = domains.find(({ domain }) => domain === 'shop.example')!;
      const verify = async () => (await service.api.post(`/domains/${domainId}/verify`)).body.success;
      assert.equal(await verify(), false);
      assert.ok(
        (await incidentsOf(service.api)).every(({ kind }) => kind !== 'domain'),
        'it was never published',
      );
      const { name, value } = dnsRecords[0];
      dns.zone[name] = { TXT: [value] };
      assert.equal(await verify(), true);
      delete dns.zone[name];
      assert.equal(await verify(), false);
      const [first] = await incidentsOf(service.api);
      assert.deepEqual([first?.kind, first?.domainId, first?.state], ['domain', domainId, 'failing']);
      assert.match(String(first?.record?.name), /\._domainkey\.shop\.example$/);
      const since = first?.since;
      await verify();
      assert.equal((await incidentsOf(service.api))[0]?.since, since, 'since the first check without the record');
      assert.deepEqual((await service.api.get(`/incidents/${first?.incidentId}`)).body.domainId, domainId);
      assert.equal((await service.api.post(`/incidents/${first?.incidentId}/retry`)).status, 409);
      assert.ok((await incidentsOf(service.sandboxApi)).every(({ kind }) => kind !== 'domain'));
    });

    test('the sandbox has separate incidents', async () => {
      const mail = { from: 'a@any.example', to: 'delayed@play.example', subject: 's', text: 't' };
      await service.sandboxApi.post('/send', mail);
      const found = await waitUntil('the sandbox to delay it', async () => (await incidentsOf(service.sandboxApi))[0]);
      assert.deepEqual([found.destination, found.messages, found.state], ['play.example', 1, 'delayed']);
      const retried = await service.sandboxApi.post(`/incidents/${found.incidentId}/retry`);
      assert.equal(retried.body.retried, 1);
      await waitUntil('it to be delivered', async () => (await incidentsOf(service.sandboxApi)).length === 0);
    });
  });
}
