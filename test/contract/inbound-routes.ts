/** Scenarios of inbound routes and their messages. */
import assert from 'node:assert/strict';
import { createAccountOperation, setAccountOperation } from '../../src/accounts/store.ts';
import { addDomainOperation } from '../../src/domains/store.ts';
import { readEventPageOperation, readEventsOperation, searchEventsOperation } from '../../src/events/read-store.ts';
import {
  claimInboundOperation,
  findInboundOperation,
  inboundBlobsOperation,
  removeInboundOperation,
  storeInboundOperation,
  storeKeptOperation,
} from '../../src/inbound/store.ts';
import { NOT_AUTHENTICATED } from '../../src/inbound-routes/authentication-results.ts';
import { dueMxChecksOperation, recordMxCheckOperation } from '../../src/inbound-routes/check-store.ts';
import {
  findInboundMessageOperation,
  forgetInboundOperation,
  listInboundOperation,
  type ReadInbound,
  recordInboundOperation,
  removeInboundMessagesOperation,
  simulateInboundOperation,
} from '../../src/inbound-routes/message-store.ts';
import {
  createRouteOperation,
  findRouteOperation,
  hasRoutesOperation,
  listRoutesOperation,
  matchRoutesOperation,
  matchSandboxRouteOperation,
  type RouteFields,
  recordMxOperation,
  removeRouteOperation,
  replaceRouteOperation,
} from '../../src/inbound-routes/store.ts';
import { listMessagesOperation } from '../../src/messages/api-store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { claimOperation as claimWebhooksOperation, eventTextOperation } from '../../src/webhooks/claim.ts';
import { chooseForReplayOperation } from '../../src/webhooks/replay-store.ts';
import { createEndpointOperation } from '../../src/webhooks/store.ts';
import { newAccount } from './accounts.ts';
import { acceptance } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const DAY = 86_400_000;

async function accountOf(stage: Stage, domain: string): Promise<string> {
  const account = newAccount(stage, 'paid');
  const { id } = account;
  await stage.act(createAccountOperation, { account, keys: [] });
  await stage.act(addDomainOperation, {
    id: stage.id('dom'),
    accountId: id,
    domain,
    status: 'verified',
    nowMs: stage.nowMs,
    keys: [],
  });
  return id;
}

const route = (stage: Stage, local: string, change: Partial<RouteFields> = {}): RouteFields => ({
  local,
  domain: 'in.shop.example',
  events: true,
  maxBytes: 1_000_000,
  nowMs: stage.nowMs,
  endpoint: null,
  requiredDomains: { names: ['in.shop.example', 'shop.example'], failingAfterMs: 0 },
  mx: { status: 'verified', found: ['10 mail.example.com'], checkedAt: stage.nowMs },
  ...change,
});

const read = (stage: Stage, change: Partial<ReadInbound>): ReadInbound => ({
  id: stage.id('inb'),
  accountId: 'acc',
  mode: 'live',
  routeId: 'inr_none',
  receivedAtMs: stage.nowMs,
  envelopeFrom: 'Ann@x.example',
  recipient: 'a@in.shop.example',
  headerFrom: 'Änn <ann@x.example>',
  subject: 'Grüße',
  sizeBytes: 5,
  content: { text: 'hello', html: null, authentication: NOT_AUTHENTICATED },
  files: '[]',
  eventId: stage.id('evt'),
  dropped: null,
  headerMessageId: '<m@x.example>',
  references: [],
  namedMessageId: null,
  ...change,
});

/** A message for a route, from the port to its record, and until it is removed. */
export const mails: Scenario = async (stage) => {
  const accountId = await accountOf(stage, 'shop.example');
  const own = { accountId, mode: 'live' } as const;
  const routeId = stage.id('inr');
  const endpoint = { id: stage.id('whk'), url: 'https://shop.example/hook', secretSealed: Buffer.from([1]) };
  await stage.act(createRouteOperation, { ...own, id: routeId, ...route(stage, '*', { endpoint }) });
  const sent = acceptance(stage, { accountId, to: ['ann@x.example', 'bob@x.example'] });
  await stage.act(acceptOperation, sent);
  const messages = await stage.act(listMessagesOperation, {
    accountId,
    mode: sent.mode,
    before: null,
    limit: 5,
    statuses: [],
    messageId: null,
    to: null,
    from: null,
    subject: null,
    any: null,
    templateId: null,
    tags: [],
    metadata: [],
    sinceMs: null,
    untilMs: null,
    lowestId: null,
    highestId: null,
  });
  const { header_message_id: headerMessageId, id: messageId } = messages.find(
    ({ recipient }) => recipient === 'ann@x.example',
  )!;
  const shared = { ...own, mode: sent.mode, routeId };
  const mails = [
    read(stage, { ...shared, references: ['<other@x.example>', headerMessageId] }),
    read(stage, { ...shared, namedMessageId: messageId }),
    read(stage, { ...shared, headerMessageId }),
    read(stage, { ...shared, dropped: 'auto-reply' }),
  ];
  const use = { kind: 'route', accountId, mode: sent.mode, routeId } as const;
  const facts = {
    client: { address: '192.0.2.1', helo: 'x', tls: null },
    use,
    sizeBytes: 5,
    receivedAtMs: stage.nowMs,
  };
  const stored = mails.map(({ id, envelopeFrom, recipient }) => ({
    ...facts,
    id,
    envelopeFrom,
    recipient,
    content: Buffer.from('hello'),
    blobKey: null,
    nowMs: stage.nowMs,
  }));
  await stage.act(storeInboundOperation, stored.slice(0, 3));
  const { jobs } = await stage.database.execute(claimInboundOperation, {
    nowMs: stage.nowMs + 1_000,
    leaseMs: 60_000,
    limit: 10,
    quarantined: true,
    freeOnly: false,
    overQuota: [],
  });
  const found = mails.slice(0, 3).map((mail) => {
    const { seq, fence } = jobs.find((job) => job.mail.id === mail.id)!;
    return { mail, lease: { seq, fence, inboundId: mail.id } };
  });
  const recorded = await stage.act(recordInboundOperation, found);
  assert.deepEqual([...recorded.outcomes].sort(), ['event', 'event', 'own-mail']);
  assert.equal((await stage.act(recordInboundOperation, found)).outcomes.length, 0, 'once');
  const played = await stage.act(simulateInboundOperation, { stored: stored[3]!, mail: mails[3]! });
  assert.equal(played.outcome, 'auto-reply');
  await stage.act(storeKeptOperation, { ...stored[3]!, id: stage.id('inb') });
  const arrived = read(stage, { ...shared, headerMessageId, recipient: 'Bob@x.example' });
  const arriving = { ...stored[3]!, id: arrived.id, recipient: arrived.recipient };
  const taken = await stage.act(simulateInboundOperation, { stored: arriving, mail: arrived });
  assert.equal(taken.outcome, 'event', 'it was sent to that address');
  const page = { accountId, mode: sent.mode, before: null, limit: 10, routeId: null, outcome: null };
  assert.deepEqual(
    (await stage.act(listInboundOperation, page)).map(({ inReplyTo }) => inReplyTo),
    [null, null, null, messageId, messageId],
  );
  await stage.act(listInboundOperation, { ...page, before: mails[2]!.id, limit: 1, routeId, outcome: 'event' });
  await stage.act(listInboundOperation, { ...page, routeId: 'inr_other' });
  await stage.act(findInboundMessageOperation, mails[0]!.id);
  await stage.act(findInboundMessageOperation, 'inb_none');
  const log = { ...page, order: 'desc', after: null, messageId: mails[0]!.id, sinceMs: null, untilMs: null } as const;
  const [event] = await stage.act(readEventsOperation, log);
  assert.match(event!.detail, /hello/, 'the event matches the record');
  const beforeMs = stage.nowMs + 1;
  await stage.act(forgetInboundOperation, { beforeMs: stage.nowMs, limit: 10 });
  assert.equal(await stage.act(forgetInboundOperation, { beforeMs, limit: 10 }), 5);
  const { detail: left } = (await stage.act(readEventsOperation, log))[0]!;
  assert.doesNotMatch(left, /hello/);
  assert.deepEqual(
    (JSON.parse(left) as { inbound: { authentication: unknown } }).inbound.authentication,
    NOT_AUTHENTICATED,
    'authentication results are kept as long as the event',
  );
  const bytesOf = (id: string) => stage.act(findInboundOperation, { id, accountId, mode: sent.mode });
  assert.ok(await bytesOf(mails[0]!.id), 'records can expire before their bytes');
  const removed = await stage.act(removeInboundMessagesOperation, { beforeMs, limit: 10 });
  assert.deepEqual(removed, { count: 5, blobKeys: [] });
  assert.deepEqual(await stage.act(readEventsOperation, log), []);
  for (const { id } of mails) assert.equal(await bytesOf(id), undefined, 'the bytes are deleted with the record');

  // The message to the recipient who replies, by the envelope sender or by the From header.
  const bobsId = messages.find(({ recipient }) => recipient === 'bob@x.example')!.id;
  for (const [envelopeFrom, headerFrom, inReplyTo] of [
    ['SRS0=Hx=7=x.example=bob@relay.example', 'Bob <Bob@X.example>', bobsId],
    ['"bob"@x.example', 'Ann <ann@x.example>', bobsId],
    ['SRS0=Hx=7=x.example=ann@relay.example', 'ann@x.example', messageId],
  ] as const) {
    const reply = read(stage, { ...shared, envelopeFrom, headerFrom, references: [headerMessageId] });
    await stage.act(simulateInboundOperation, { stored: { ...stored[3]!, id: reply.id, envelopeFrom }, mail: reply });
    assert.equal((await stage.act(findInboundMessageOperation, reply.id))?.inReplyTo, inReplyTo, envelopeFrom);
  }
};

/** Mail of a sandbox whose clock is 20 years ahead: shown with the time of that clock, and deleted by real time. */
export const aheadOfTime: Scenario = async (stage) => {
  const own = { accountId: stage.id('acc'), mode: 'sandbox' } as const;
  const aheadMs = stage.nowMs + 20 * 365 * DAY;
  const simulate = async (blobKey: string): Promise<string> => {
    const id = stage.id('inb', aheadMs);
    const mail = read(stage, { ...own, id, receivedAtMs: aheadMs, headerMessageId: null });
    const stored = {
      id,
      envelopeFrom: mail.envelopeFrom,
      recipient: mail.recipient,
      nowMs: stage.nowMs,
      receivedAtMs: aheadMs,
      sizeBytes: 70_000,
      client: { address: '192.0.2.1', helo: 'sandbox', tls: null },
      content: null,
      blobKey,
      use: { kind: 'route', ...own, routeId: 'inr_none' } as const,
    };
    await stage.act(simulateInboundOperation, { stored, mail });
    return id;
  };
  const ids = [await simulate('zz/ahead-1'), await simulate('zz/ahead-2')];
  const page = { ...own, before: null, limit: 10, routeId: null, outcome: null };
  const list = () => stage.act(listInboundOperation, page);
  assert.deepEqual(
    (await list()).map(({ receivedAt }) => receivedAt),
    [aheadMs, aheadMs],
  );
  assert.equal((await stage.act(findInboundMessageOperation, ids[0]!))?.receivedAt, aheadMs);
  const early = { beforeMs: stage.nowMs, limit: 1_000 };
  await stage.act(removeInboundOperation, early);
  await stage.act(removeInboundMessagesOperation, early);
  assert.equal((await list()).length, 2);
  const due = { beforeMs: stage.nowMs + 1, limit: 1_000 };
  await stage.act(forgetInboundOperation, due);
  assert.deepEqual(
    (await list()).map(({ hasContent }) => hasContent),
    [0, 0],
  );
  const { blobKeys } = await stage.act(removeInboundMessagesOperation, due);
  assert.deepEqual(blobKeys.filter((key) => key.startsWith('zz/ahead')).sort(), ['zz/ahead-1', 'zz/ahead-2']);
  assert.deepEqual(await list(), []);
  assert.deepEqual(await stage.act(inboundBlobsOperation, blobKeys), []);
};

/** Three messages; a page of the log holds two of them, and so does a search. */
export const largeEvents: Scenario = async (stage) => {
  const accountId = await accountOf(stage, 'shop.example');
  const own = { accountId, mode: 'live' } as const;
  const ids: string[] = [];
  for (let index = 0; index < 3; index += 1) {
    const mail = read(stage, { ...own, headerMessageId: null, content: { text: 'x'.repeat(1_900_000) } });
    const { id, envelopeFrom, recipient } = mail;
    const stored = {
      id,
      envelopeFrom,
      recipient,
      nowMs: stage.nowMs,
      receivedAtMs: stage.nowMs,
      sizeBytes: 5,
      client: { address: '192.0.2.1', helo: 'x', tls: null },
      content: Buffer.from('hello'),
      blobKey: null,
      use: { kind: 'route', ...own, routeId: 'inr_none' } as const,
    };
    ids.push((await stage.act(simulateInboundOperation, { stored, mail })).eventId!);
  }
  const log = { ...own, order: 'asc', after: null, limit: 50, messageId: null, sinceMs: null, untilMs: null } as const;
  const first = await stage.act(readEventPageOperation, log);
  const rest = await stage.act(readEventPageOperation, { ...log, after: first.stoppedAt });
  assert.deepEqual(
    [first, rest].map(({ rows }) => rows.map(({ id }) => id)),
    [ids.slice(0, 2), ids.slice(2)],
  );
  assert.equal(rest.stoppedAt, null);
  assert.equal((await stage.act(readEventsOperation, log)).length, 3);
  const page = { ...log, recipient: 'a@in.shop.example' };
  const found = await stage.act(searchEventsOperation, { page, rows: 10 });
  assert.deepEqual([found.found.length, found.end], [2, first.stoppedAt]);
};

/** A replay sends an endpoint what it would have received: of messages of three routes, two of which have their own endpoint. */
export const replayed: Scenario = async (stage) => {
  const accountId = await accountOf(stage, 'shop.example');
  const own = { accountId, mode: 'live' } as const;
  const endpoint = () => ({ id: stage.id('whk'), url: 'https://shop.example/hook', secretSealed: Buffer.from([1]) });
  const [private_, open, all] = [endpoint(), endpoint(), endpoint()];
  const mailTo = async (local: string, change: Partial<RouteFields>): Promise<void> => {
    const routeId = stage.id('inr');
    await stage.act(createRouteOperation, { ...own, id: routeId, ...route(stage, local, change) });
    const mail = read(stage, { ...own, routeId, recipient: `${local}@in.shop.example` });
    const stored = {
      id: mail.id,
      envelopeFrom: mail.envelopeFrom,
      recipient: mail.recipient,
      nowMs: stage.nowMs,
      client: { address: '192.0.2.1', helo: 'x', tls: null },
      use: { kind: 'route', ...own, routeId } as const,
      sizeBytes: 5,
      receivedAtMs: stage.nowMs,
      content: Buffer.from('hello'),
      blobKey: null,
    };
    await stage.act(simulateInboundOperation, { stored, mail });
  };
  await mailTo('private', { endpoint: private_, events: false });
  await mailTo('open', { endpoint: open, events: true });
  await mailTo('plain', { events: true });
  const sent = { ...acceptance(stage, { accountId }), mode: 'live' as const };
  await stage.act(acceptOperation, sent);
  await stage.act(createEndpointOperation, {
    ...own,
    ...all,
    nowMs: stage.nowMs,
    events: '["Inbound","Send"]',
    description: null,
    enabled: null,
  });
  const log = { ...own, order: 'asc', after: null, limit: 50, messageId: null, sinceMs: null, untilMs: null } as const;
  const events = await stage.act(readEventsOperation, log);
  const chosenFor = async ({ id: webhookId }: { id: string }): Promise<string[]> => {
    const { chosen } = await stage.act(chooseForReplayOperation, {
      ...own,
      webhookId,
      sinceMs: 0,
      untilMs: stage.nowMs + 3_600_000,
      eventTypes: ['Inbound', 'Send'],
      range: { from: 0, to: Number.MAX_SAFE_INTEGER },
      after: null,
      scan: 50,
    });
    const found = chosen.map(({ seq }) => events.find((event) => event.seq === seq)!);
    return found.map(({ type, detail }) => `${type} ${(JSON.parse(detail) as { recipient?: string }).recipient ?? ''}`);
  };
  const claim = {
    nowMs: stage.nowMs + 1,
    leaseMs: 60_000,
    limit: 9,
    quarantined: false,
    freeOnly: false,
    overQuota: [],
  };
  const { events: claimed } = await stage.database.execute(claimWebhooksOperation, claim);
  assert.ok(claimed.length > 0);
  for (const { type, body, seq } of claimed) {
    assert.deepEqual([type, body], ['Inbound', null], 'a claim carries no large bodies');
    assert.match((await stage.act(eventTextOperation, { seq }))!, /"eventType":"Inbound"/);
  }
  assert.equal(await stage.act(eventTextOperation, { seq: Number.MAX_SAFE_INTEGER }), undefined);
  assert.deepEqual(await chosenFor(private_), ['Inbound private@in.shop.example']);
  assert.deepEqual(await chosenFor(open), ['Inbound open@in.shop.example']);
  const general = await chosenFor(all);
  assert.deepEqual(
    general.filter((one) => one.startsWith('Inbound')),
    ['Inbound open@in.shop.example', 'Inbound plain@in.shop.example'],
  );
  assert.ok(general.length > 2, 'and what was sent');
  for (const [recipient, found] of [
    ['Open@IN.shop.example', 1],
    ['nobody@in.shop.example', 0],
  ] as const)
    assert.equal((await stage.act(readEventsOperation, { ...log, order: 'desc', recipient })).length, found, recipient);
};

/** Automatic checks of the MX records of live routes of one domain. */
async function looks(stage: Stage): Promise<void> {
  const seen = { domain: 'in.shop.example', nowMs: stage.nowMs + 60_000 };
  await stage.act(recordMxCheckOperation, { ...seen, status: 'unknown', found: null });
  await stage.act(recordMxCheckOperation, { ...seen, status: 'different', found: ['10 mx.example'] });
  const due = async (afterMs: number): Promise<string[]> => {
    const found = await stage.act(dueMxChecksOperation, {
      nowMs: seen.nowMs + afterMs,
      leastMs: 60_000,
      mostMs: 3_600_000,
      limit: 10,
    });
    return [...new Set(found)];
  };
  assert.deepEqual(await due(59_999), []);
  assert.deepEqual(await due(60_000), ['in.shop.example'], 'pending');
  await stage.act(recordMxCheckOperation, { ...seen, status: 'verified', found: [] });
  assert.deepEqual(await due(60_000), []);
  assert.deepEqual(await due(3_600_000), ['in.shop.example'], 'active');
}

export const routes: Scenario = async (stage) => {
  const accountId = await accountOf(stage, 'shop.example');
  const otherId = await accountOf(stage, 'shop.example');
  const strangerId = await accountOf(stage, 'stranger.example');
  const live = { accountId, mode: 'live' } as const;
  const [id, prefixId] = [stage.id('inr'), stage.id('inr')];
  const endpoint = { id: stage.id('whk'), url: 'https://shop.example/hook', secretSealed: Buffer.from([1, 2]) };
  await stage.act(createRouteOperation, { ...live, id, ...route(stage, '*', { endpoint, events: false }) });
  await stage.act(createRouteOperation, { ...live, id: prefixId, ...route(stage, 'reply+*') });
  for (const [who, local] of [
    [accountId, '*'],
    [otherId, '*'],
    [strangerId, 'a'],
  ] as const) {
    const refused = await stage.act(createRouteOperation, {
      accountId: who,
      mode: 'live',
      id: stage.id('inr'),
      ...route(stage, local),
    });
    assert.ok('refused' in refused);
  }
  const sandbox = { accountId, mode: 'sandbox' } as const;
  await stage.act(createRouteOperation, { ...sandbox, id: stage.id('inr'), ...route(stage, 'reply+*') });
  const look = (local: string, domain = 'in.shop.example') =>
    stage.act(matchRoutesOperation, {
      local,
      domain,
      requiredDomains: { names: domain === '' ? [] : ['shop.example'], failingAfterMs: 0 },
    });
  assert.equal((await look('Reply+17'))?.routeId, prefixId);
  assert.equal((await look('any'))?.routeId, id);
  for (const domain of ['shop.example', 'localhost', '']) assert.equal(await look('any', domain), null);
  assert.equal((await look('any'))?.accountStatus, 'active');
  const hasRoutes = (domain: string, name = 'shop.example') =>
    stage.act(hasRoutesOperation, { domain, requiredDomains: { names: [name], failingAfterMs: 0 } });
  assert.equal(await hasRoutes('in.shop.example'), true);
  assert.equal(await hasRoutes('shop.example'), false);
  assert.equal(await hasRoutes('in.shop.example', 'other.example'), false, 'of an unverified domain');
  const kept = { id: accountId, plan: null, approvedEmailBytes: null, nowMs: stage.nowMs };
  await stage.act(setAccountOperation, { ...kept, status: 'suspended' });
  const suspended = await look('Reply+17');
  assert.deepEqual([suspended?.routeId, suspended?.accountStatus], [prefixId, 'suspended']);
  assert.equal(await hasRoutes('in.shop.example'), true);
  await stage.act(setAccountOperation, { ...kept, status: 'active' });
  for (const local of ['reply+1', 'any'])
    await stage.act(matchSandboxRouteOperation, { accountId, local, domain: 'in.shop.example' });
  await stage.act(listRoutesOperation, { ...live, before: null, limit: 1 });
  await stage.act(listRoutesOperation, { ...live, before: prefixId, limit: 5 });
  await stage.act(findRouteOperation, { ...live, id });
  await stage.act(recordMxOperation, {
    ...live,
    id,
    mx: { status: 'unknown', found: null, checkedAt: stage.nowMs + 1 },
  });
  await looks(stage);
  const again = { ...endpoint, id: stage.id('whk'), url: 'https://shop.example/new' };
  for (const change of [
    { endpoint: again },
    { endpoint: null, events: true },
    { endpoint: again, nowMs: stage.nowMs + 5 },
  ])
    await stage.act(replaceRouteOperation, { ...live, id, ...route(stage, 'all', change) });
  await stage.act(replaceRouteOperation, { ...live, id, ...route(stage, 'reply+*') });
  const basis = (await stage.act(findRouteOperation, { ...live, id }))!;
  await stage.act(replaceRouteOperation, { ...live, id, ...route(stage, 'based', { basis, maxBytes: 2_000 }) });
  const late = { ...live, id, ...route(stage, 'late', { basis }) };
  assert.equal(await stage.act(replaceRouteOperation, late), 'outdated');
  await stage.act(replaceRouteOperation, { ...live, id: 'inr_none', ...route(stage, 'b') });
  await stage.act(removeRouteOperation, { ...live, id });
  await stage.act(removeRouteOperation, { ...live, id });
};
