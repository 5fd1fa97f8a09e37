/** Scenarios of filters that compare text without case, in messages, events, the sandbox inbox, and the accounts of an operator. */
import assert from 'node:assert/strict';
import { createAccountOperation } from '../../src/accounts/store.ts';
import {
  type EventPage,
  type EventPlace,
  readEventPageOperation,
  searchEventsOperation,
} from '../../src/events/read-store.ts';
import { simulateInboundOperation } from '../../src/inbound-routes/message-store.ts';
import { listMessagesOperation, type MessagePage, searchMessagesOperation } from '../../src/messages/api-store.ts';
import { accountPageOperation } from '../../src/operator/store.ts';
import { listInboxOperation } from '../../src/sandbox/store.ts';
import { acceptOperation } from '../../src/send/acceptance.ts';
import { COMPARED_ROWS } from '../../src/storage/text-filter.ts';
import { newAccount } from './accounts.ts';
import { acceptance, idsOf, readEvents, wholePage } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const MAILS = [
  { to: 'Жанна@пример.example', headerFrom: '"Ünal, X" <A@Example.com>', subject: 'ÄRGER Straße' },
  { to: 'Ann@xn--bcher-kva.example', headerFrom: 'Shop <shop@example.org>', subject: 'ΟΔΟΣΑ, 100%' },
  { to: 'Zoe\u0308@x.example', headerFrom: 'Cafe\u0301 <cafe@example.org>', subject: 'İstanbul ist schön' },
  { to: 'bob@example.com', headerFrom: 'Shop <shop@example.org>', subject: 'Hello' },
];

/** Filters of messages, each with the indexes of the mails that it finds. */
const FOUND: [filter: object, found: number[]][] = [
  [{ subject: 'ärger' }, [0]],
  [{ subject: 'STRAßE' }, [0]],
  [{ subject: 'strasse' }, []],
  [{ subject: 'οδος' }, [1]],
  [{ subject: 'i\u0307STANBUL' }, [2]],
  [{ subject: 'ıstanbul' }, []],
  [{ subject: 'SCHÖN' }, [2]],
  [{ subject: 'STRA' }, [0]],
  [{ subject: '100%' }, [1]],
  [{ from: 'ünal' }, [0]],
  [{ from: 'CAFÉ' }, [2]],
  [{ from: 'SHOP' }, [3, 1]],
  [{ to: 'жанна' }, [0]],
  [{ to: 'ЖАННА@ПРИМЕР.example' }, [0]],
  [{ to: 'жанна@xn--e1afmkfd.example' }, [0]],
  [{ to: 'ann@BÜCHER.example' }, [1]],
  [{ to: 'nn@bücher.example' }, []],
  [{ to: 'zoË@X.example' }, [2]],
  [{ to: 'BOB@EXAMPLE.com' }, [3]],
  [{ any: 'ПРИМЕР' }, [0]],
  [{ any: 'Ärger' }, [0]],
  [{ any: 'schÖn' }, [2]],
  [{ any: 'hello' }, [3]],
  [{ subject: 'ärger', to: 'жанна', from: 'A@example', tags: ['order'] }, [0]],
  [{ subject: 'ärger', to: 'bob' }, []],
  [{ subject: 'ärger', from: 'café' }, []],
  [{ subject: 'ärger', statuses: ['delivered'] }, []],
];

export const textFilters: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mails = MAILS.map(({ to, ...email }, index) =>
    acceptance(stage, { accountId, to: [to], change: { nowMs: stage.nowMs + index * 1_000 }, email }),
  );
  for (const mail of mails) await stage.act(acceptOperation, mail);
  await stage.act(acceptOperation, acceptance(stage, { accountId: stage.id('acc'), email: { subject: 'ÄRGER' } }));
  const ids = mails.flatMap(idsOf);
  const page = wholePage(accountId);
  for (const [filter, indexes] of FOUND) {
    const wanted = indexes.map((index) => ids[index]);
    const listed = await stage.act(listMessagesOperation, { ...page, ...filter });
    assert.deepEqual(
      listed.map(({ id }) => id),
      wanted,
      JSON.stringify(filter),
    );
    const { found, end } = await stage.act(searchMessagesOperation, { page: { ...page, ...filter }, rows: 100 });
    assert.deepEqual([found, end], [listed, null], JSON.stringify(filter));
  }
  const one = { ...page, messageId: ids[0]!, subject: 'Ärger' };
  assert.equal((await stage.act(listMessagesOperation, one)).length, 1);
  assert.equal((await stage.act(listMessagesOperation, { ...one, subject: 'Arger' })).length, 0);
};

/** Returns the recipients of many messages, few of which are Жанна. */
const manyRecipients = (): string[] =>
  Array.from({ length: 45 }, (_, index) => {
    if (index % 11 === 3) return index % 2 === 0 ? 'Жанна@пример.example' : 'жанна@xn--e1afmkfd.example';
    return index % 3 === 0 ? `r${index}@example.com` : `иван${index}@пример.example`;
  });

const isWanted = (recipient: string): boolean => recipient.toLowerCase().startsWith('жанна@');

export const textFilterPages: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const to = manyRecipients();
  const mail = acceptance(stage, { accountId, to });
  await stage.act(acceptOperation, mail);
  const ids = idsOf(mail);
  const wanted = ids.filter((_, index) => isWanted(to[index]!)).toReversed();
  assert.equal(wanted.length, 4);
  // The positions where parts and pages end differ with their sizes.
  for (const rows of [1, 7, 45, 100]) {
    for (const limit of [1, 3, 4]) {
      const found: string[] = [];
      let before: string | null = null;
      do {
        const page: MessagePage = { ...wholePage(accountId), to: 'ЖАННА@пример.example', before, limit };
        const part = await stage.act(searchMessagesOperation, { page, rows });
        assert.ok(part.found.length <= limit);
        found.push(...part.found.map(({ id }) => id));
        before = part.found.length === limit ? found.at(-1)! : part.end;
      } while (before !== null);
      assert.deepEqual(found, wanted, `${rows} rows, pages of ${limit}`);
    }
  }
  const all = await readEvents(stage, accountId);
  for (const order of ['asc', 'desc'] as const) {
    const events = all.filter(({ recipient }) => isWanted(recipient!)).map(({ id }) => id);
    if (order === 'desc') events.reverse();
    for (const [rows, limit] of [
      [1, 1],
      [7, 1],
      [7, 2],
      [45, 4],
      [100, 3],
    ] as const) {
      const found: string[] = [];
      let after: EventPlace | null = null;
      do {
        const page: EventPage = { ...eventPage(accountId), order, after, limit, recipient: 'ЖАННА@пример.example' };
        const part = await stage.act(searchEventsOperation, { page, rows });
        assert.ok(part.found.length <= limit);
        found.push(...part.found.map(({ id }) => id));
        const last = part.found.at(-1);
        after = last && part.found.length === limit ? { position: last.position ?? last.seq, seq: last.seq } : part.end;
      } while (after !== null);
      assert.deepEqual(found, events, `${order}, ${rows} rows, pages of ${limit}`);
    }
  }
};

/** A part of a search ends early if very many rows might match, and the next part continues there. */
export const partsOfManyTexts: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const places = [3, 90, COMPARED_ROWS + 90];
  const to = Array.from({ length: COMPARED_ROWS + 100 }, (_, index) =>
    places.includes(index) ? 'Жанна@пример.example' : `иван${index}@пример.example`,
  );
  const mail = acceptance(stage, { accountId, to });
  await stage.act(acceptOperation, mail);
  const [oldest, older, newest] = places.map((place) => idsOf(mail)[place]!);
  const recipient = 'жанна@пример.example';
  const first = { page: { ...wholePage(accountId), to: recipient }, rows: 100_000 };
  const part = await stage.act(searchMessagesOperation, first);
  assert.deepEqual([part.found.map(({ id }) => id), part.end], [[newest], idsOf(mail)[100]]);
  const next = await stage.act(searchMessagesOperation, { ...first, page: { ...first.page, before: part.end } });
  assert.deepEqual([next.found.map(({ id }) => id), next.end], [[older, oldest], null]);
  // A search that found enough continues after its last match.
  const full = await stage.act(searchMessagesOperation, { ...first, page: { ...first.page, limit: 1 } });
  assert.equal(full.end, newest);

  await readEvents(stage, accountId, { limit: 1 });
  const events = { page: { ...eventPage(accountId), recipient }, rows: 100_000 };
  const begun = await stage.act(searchEventsOperation, events);
  assert.deepEqual(
    begun.found.map((row) => row.message_id),
    [newest],
  );
  assert.notEqual(begun.end, null);
  const rest = await stage.act(searchEventsOperation, { ...events, page: { ...events.page, after: begun.end } });
  assert.deepEqual([rest.found.map((row) => row.message_id), rest.end], [[older, oldest], null]);
};

const eventPage = (accountId: string) => ({
  accountId,
  mode: 'live' as const,
  order: 'desc' as const,
  after: null,
  limit: 10,
  messageId: null,
  sinceMs: null,
  untilMs: null,
});

/** Simulates a mail to an address of an inbound route. */
async function receive(stage: Stage, accountId: string, recipient: string): Promise<string> {
  const shared = {
    id: stage.id('inb'),
    envelopeFrom: 'ann@x.example',
    recipient,
    receivedAtMs: stage.nowMs,
    sizeBytes: 5,
  };
  const owner = { accountId, mode: 'live', routeId: 'inr_none' } as const;
  const mail = {
    ...shared,
    ...owner,
    headerFrom: 'ann@x.example',
    subject: 'x',
    content: { text: 'hello' },
    files: '[]',
    eventId: stage.id('evt'),
    dropped: null,
    headerMessageId: null,
    references: [],
    namedMessageId: null,
  };
  const stored = {
    ...shared,
    use: { kind: 'route', ...owner } as const,
    nowMs: stage.nowMs,
    client: { address: '192.0.2.1', helo: 'x', tls: null },
    content: Buffer.from('hello'),
    blobKey: null,
  };
  return (await stage.act(simulateInboundOperation, { stored, mail })).eventId!;
}

export const eventsOfRecipient: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const to = ['Жанна@пример.example', 'ann@xn--bcher-kva.example', 'иван@пример.example', 'bob@example.com'];
  const mail = acceptance(stage, { accountId, to });
  await stage.act(acceptOperation, mail);
  const inbound = await receive(stage, accountId, 'Жанна@пример.example');
  await receive(stage, accountId, 'иван@пример.example');
  const all = await readEvents(stage, accountId);
  const sentTo = (index: number): string => all.find((row) => row.message_id === idsOf(mail)[index])!.id;
  for (const [recipient, wanted] of [
    ['жанна@ПРИМЕР.example', [inbound, sentTo(0)]],
    ['ЖАННА@xn--e1afmkfd.example', [inbound, sentTo(0)]],
    ['жанна', []],
    ['ANN@bücher.example', [sentTo(1)]],
    ['ann@xn--bcher-kva.example', [sentTo(1)]],
    ['BOB@example.com', [sentTo(3)]],
    ['bob@exämple.com', []],
  ] as const) {
    const { rows, stoppedAt } = await stage.act(readEventPageOperation, { ...eventPage(accountId), recipient });
    assert.deepEqual(
      rows.map(({ id }) => id),
      wanted,
      recipient,
    );
    assert.equal(stoppedAt, null);
  }
  const [first, second] = idsOf(mail);
  for (const [messageId, found] of [
    [first!, 1],
    [second!, 0],
  ] as const) {
    const page = { ...eventPage(accountId), messageId, recipient: 'жанна@пример.example', limit: 1 };
    const { rows, stoppedAt } = await stage.act(readEventPageOperation, page);
    assert.deepEqual([rows.length, stoppedAt], [found, null]);
  }
};

export const inboxFilters: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const mails = MAILS.map(({ to, ...email }, index) => {
    const change = { mode: 'sandbox' as const, nowMs: stage.nowMs + index };
    return acceptance(stage, { accountId, to: [to], change, email });
  });
  for (const mail of mails) await stage.act(acceptOperation, mail);
  const ids = mails.flatMap(idsOf);
  const page = {
    accountId,
    nowMs: stage.nowMs + 1_000,
    before: null,
    limit: 10,
    to: null,
    subject: null,
    tag: null,
    sinceMs: null,
  };
  for (const [filter, indexes] of [
    [{ to: 'жанна@пример.EXAMPLE' }, [0]],
    [{ to: 'жанна' }, []],
    [{ to: 'ANN@bücher.example' }, [1]],
    [{ to: 'ZOË@x.example' }, [2]],
    [{ subject: 'ärger' }, [0]],
    [{ subject: 'SCHÖN', tag: 'order' }, [2]],
    [{ subject: 'SCHÖN', to: 'zoë@x.example' }, [2]],
    [{ subject: 'SCHÖN', to: 'bob@example.com' }, []],
    [{ subject: 'HELL', to: 'BOB@example.com' }, [3]],
    [{ subject: 'ärger', before: ids[0]! }, []],
  ] as const) {
    const rows = await stage.act(listInboxOperation, { ...page, ...filter });
    const wanted = indexes.map((index) => ids[index]);
    assert.deepEqual(
      rows.map((row) => row.message_id),
      wanted,
      JSON.stringify(filter),
    );
  }
  const many = acceptance(stage, { accountId, to: manyRecipients(), change: { mode: 'sandbox' } });
  await stage.act(acceptOperation, many);
  const found: string[] = [];
  for (let before: string | null = null; ; ) {
    const rows = await stage.act(listInboxOperation, { ...page, to: 'ЖАННА@пример.example', limit: 2, before });
    found.push(...rows.map((row) => row.message_id));
    if (rows.length < 2) break;
    before = found.at(-1)!;
  }
  const wanted = idsOf(many).filter((_, index) => isWanted(manyRecipients()[index]!));
  assert.deepEqual(found, [ids[0]!, ...wanted].sort().reverse());
};

export const accountNames: Scenario = async (stage) => {
  const names = ['Übung & Söhne', 'ÜBUNGEN 100%', 'Ubung', 'Ärzte'];
  const accounts = names.map((name) => ({ ...newAccount(stage), name }));
  for (const account of accounts) await stage.act(createAccountOperation, { account, keys: [] });
  const all = { name: null, status: null, plan: null, protectionStatus: null, before: null, limit: 10 };
  for (const [filter, indexes] of [
    [{ name: 'übung' }, [1, 0]],
    [{ name: 'ÜBUNG', limit: 1 }, [1]],
    [{ name: 'ÜBUNG', before: accounts[1]!.id }, [0]],
    [{ name: 'übung', plan: 'free' as const }, []],
    [{ name: 'UBUNG' }, [2]],
    [{ name: 'BUNG' }, [2, 1, 0]],
    [{ name: '100%' }, [1]],
    [{ name: '_' }, []],
  ] as const) {
    const rows = await stage.act(accountPageOperation, { ...all, ...filter });
    assert.deepEqual(
      rows.map(({ name }) => name),
      indexes.map((index) => names[index]),
      JSON.stringify(filter),
    );
  }
};
