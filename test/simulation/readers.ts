/**
 * A client that reads the API. It follows `GET /events` by cursor through deaths and restarts, and at the end pages backwards through
 * events, messages, attempts, searches, suppressions and statistics. The oracle compares the pages with the tables: nothing is missing,
 * nothing appears twice, and everything is in order.
 */
import { type Answer, apiCall, isLater, untilDone } from './customers.ts';
import { here } from './globals.ts';
import type { Rows } from './node.ts';
import type { Random } from './random.ts';
import type { Template, Tenant } from './template.ts';

const DAY_MS = 86_400_000;
const MOST_DETAILS = 3;

interface ShownEvent {
  eventId: string;
  eventType: string;
  messageId: string;
  timestamp: string;
}

interface ShownAttempt {
  time: string;
  reply: string | null;
  outcome: string;
}

interface ShownMessage {
  messageId: string;
  status: string;
  to: string;
  subject: string;
  nextAttemptAt?: string;
}

interface MessageDetail extends ShownMessage {
  attempts: ShownAttempt[];
  timeline: ShownEvent[];
}

interface ShownSuppression {
  email: string;
  reason: string;
}

interface Bucket {
  accepted: number;
  delivered: number;
  bounced: { hard: number; soft: number; block: number };
  delayed: number;
  suppressed: number;
  complained: number;
  unsubscribed: number;
}

export class Reader {
  readonly #tenant: Tenant;
  readonly #random: Random;
  readonly #startMs: number;
  readonly #faults: string[] = [];
  /** Events as they were followed. */
  readonly #followed: ShownEvent[] = [];
  #cursor: string | undefined;
  #following: Promise<boolean> = Promise.resolve(true);
  #events: ShownEvent[] | undefined;
  #messages: ShownMessage[] | undefined;
  readonly #details: MessageDetail[] = [];
  readonly #searches: { path: string; isWanted(row: MessageRow): boolean; found: ShownMessage[] }[] = [];
  #suppressed: ShownSuppression[] | undefined;
  #buckets: Bucket[] | undefined;

  constructor({ tenants }: Template, random: Random, startMs: number) {
    this.#tenant = tenants.shop;
    this.#random = random;
    this.#startMs = startMs;
  }

  /** Follows the log to its current end, after the previous call has ended; returns whether it got there. */
  follow(): Promise<boolean> {
    const next = this.#following.then(() => this.#followOn());
    this.#following = next.catch(() => false);
    return next;
  }

  async #followOn(): Promise<boolean> {
    for (;;) {
      const limit = 1 + this.#random.below(this.#random.chance(0.25) ? 3 : 100);
      const more = this.#cursor === undefined ? '' : `&cursor=${encodeURIComponent(this.#cursor)}`;
      const answer = await this.#ask(`/events?order=asc&limit=${limit}${more}`);
      if (answer === undefined) return false;
      // A log that was followed this far always returns a cursor.
      if (this.#cursor !== undefined && answer.cursor === undefined)
        this.#faults.push('the log that was followed gave out no cursor');
      this.#followed.push(...(JSON.parse(answer.body) as ShownEvent[]));
      this.#cursor = answer.cursor ?? this.#cursor;
      if (!/\r\nlink:/.test(answer.headers)) return true;
    }
  }

  /** Reads everything, retrying each list until it was read completely. */
  async readAll(): Promise<void> {
    const steps = [
      () => this.follow(),
      async () => {
        this.#events = await this.#pages<ShownEvent>('/events?');
        return this.#events !== undefined;
      },
      async () => {
        this.#messages = await this.#pages<ShownMessage>('/messages?');
        return this.#messages !== undefined;
      },
      () => this.#readDetails(),
      () => this.#search(),
      async () => {
        this.#suppressed = await this.#pages<ShownSuppression>('/suppressions?');
        return this.#suppressed !== undefined;
      },
      () => this.#readStatistics(),
    ];
    for (const step of steps) if (!(await untilDone(step, this.#random))) this.#faults.push('a reader got no answer');
  }

  async #ask(path: string): Promise<Answer | undefined> {
    const answer = await apiCall(this.#tenant, 'GET', path, undefined);
    if (answer.status === 200) return answer;
    if (!isLater(answer.status))
      this.#faults.push(`a reader of ${path} was answered ${answer.status} ${answer.body.slice(0, 200)}`);
    return undefined;
  }

  /** Returns a complete list, page by page; undefined if a page failed. */
  async #pages<T>(path: string): Promise<T[] | undefined> {
    const rows: T[] = [];
    let cursor: string | undefined;
    do {
      const limit = this.#random.chance(0.7) ? 100 : 2 + this.#random.below(20);
      const more = cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const answer = await this.#ask(`${path}limit=${limit}${more}`);
      if (answer === undefined) return undefined;
      rows.push(...(JSON.parse(answer.body) as T[]));
      cursor = answer.cursor;
    } while (cursor !== undefined);
    return rows;
  }

  async #readDetails(): Promise<boolean> {
    const ids = (this.#messages ?? []).map(({ messageId }) => messageId);
    while (this.#details.length < Math.min(MOST_DETAILS, ids.length)) {
      const answer = await this.#ask(`/messages/${this.#random.pick(ids)}`);
      if (answer === undefined) return false;
      this.#details.push(JSON.parse(answer.body) as MessageDetail);
    }
    return true;
  }

  async #search(): Promise<boolean> {
    const { to = 'r0.0@d0.example', subject = 'mail-0', status = 'delivered' } = this.#messages?.[0] ?? {};
    const part = to.split('@')[0]!;
    const wanted: [string, (row: MessageRow) => boolean][] = [
      [`to=${encodeURIComponent(to)}`, (row) => row.recipient === to],
      [`to=${encodeURIComponent(part.toUpperCase())}`, (row) => row.recipient.includes(part)],
      [`subject=${encodeURIComponent(subject)}`, (row) => row.subject.includes(subject)],
      [`status=${status}`, (row) => row.status === status],
    ];
    for (const [query, isWanted] of wanted.slice(this.#searches.length)) {
      const found = await this.#pages<ShownMessage>(`/messages?${query}&`);
      if (found === undefined) return false;
      this.#searches.push({ path: query, isWanted, found });
    }
    return true;
  }

  async #readStatistics(): Promise<boolean> {
    const since = new Date(this.#startMs - 3 * DAY_MS).toISOString();
    const until = new Date(this.#startMs + 15 * DAY_MS).toISOString();
    const interval = this.#random.pick(['hour', 'day']);
    const answer = await this.#ask(`/statistics?since=${since}&until=${until}&interval=${interval}`);
    if (answer === undefined) return false;
    this.#buckets = (JSON.parse(answer.body) as { buckets: Bucket[] }).buckets;
    return true;
  }

  /** Returns what the API showed without being in the tables, and what it did not show. */
  faultsOf(database: Rows, isShared: boolean): string[] {
    const order = isShared ? 'position, seq' : 'seq';
    const own = `account_id = '${this.#tenant.accountId}' AND mode = 'live'`;
    const events = database.all<EventRow>(
      `SELECT id, type, message_id, at, detail FROM event WHERE ${own} ORDER BY ${order}`,
    );
    const messages = database.all<MessageRow>(
      `SELECT m.id, m.status, m.recipient, e.subject, m.created_at FROM message m JOIN email e ON e.seq = m.email_seq
       WHERE m.account_id = '${this.#tenant.accountId}' AND m.mode = 'live'`,
    );
    return [
      ...this.#faults,
      ...sequenceFaults('the log that was followed', this.#followed, events),
      ...(this.#events ? sequenceFaults('the log read backwards', this.#events.toReversed(), events) : []),
      ...this.#ofMessages(messages),
      ...this.#details.flatMap((one) => ofDetail(database, one, events)),
      ...this.#ofSuppressions(database, own),
      ...this.#ofStatistics(events),
    ];
  }

  #ofMessages(messages: readonly MessageRow[]): string[] {
    if (this.#messages === undefined) return [];
    const faults = setFaults('the list of messages', this.#messages, messages);
    for (const { path, isWanted, found } of this.#searches)
      faults.push(...setFaults(`the search for ${path}`, found, messages.filter(isWanted)));
    const known = new Map(messages.map((row) => [row.id, row]));
    for (const { messageId, status, to, nextAttemptAt } of this.#messages) {
      const row = known.get(messageId);
      if (row && (row.status !== status || row.recipient !== to))
        faults.push(`${messageId} is shown as ${status} to ${to}, and is ${row.status} to ${row.recipient}`);
      if (nextAttemptAt !== undefined && status !== 'delayed' && status !== 'queued' && status !== 'scheduled')
        faults.push(`${messageId} is ${status}, and shows a next attempt`);
    }
    const times = this.#messages.map(({ messageId }) => known.get(messageId)?.created_at ?? 0);
    if (times.some((ms, at) => at > 0 && ms > times[at - 1]! + CLOCKS_MS))
      faults.push('the list of messages is not newest first');
    return faults;
  }

  #ofSuppressions(database: Rows, own: string): string[] {
    if (this.#suppressed === undefined) return [];
    // The wall clock may have been set.
    const surelyMs = here().timeline.nowMs + this.#startMs + CLOCKS_MS;
    const rows = database.all<ShownSuppression>(
      `SELECT email, reason FROM suppression WHERE ${own} AND (expires_at IS NULL OR expires_at > ${surelyMs})`,
    );
    const shown = this.#suppressed.map(({ email, reason }) => `${email} for ${reason}`);
    const missing = rows.filter(({ email, reason }) => !shown.includes(`${email} for ${reason}`));
    const faults = missing.map(({ email }) => `the list of suppressions leaves out ${email}`);
    if (new Set(shown).size < shown.length) faults.push('the list of suppressions shows an address twice');
    return faults;
  }

  #ofStatistics(events: readonly EventRow[]): string[] {
    if (this.#buckets === undefined) return [];
    const count = (isCounted: (event: EventRow) => boolean): number => events.filter(isCounted).length;
    const ofType = (type: string): number => count((event) => event.type === type);
    const ofKind = (kind: string): number =>
      count(({ type, detail }) => type === 'Bounce' && (JSON.parse(detail).bounce?.kind ?? 'soft') === kind);
    const sum = (of: (bucket: Bucket) => number): number => this.#buckets!.reduce((all, one) => all + of(one), 0);
    const pairs: [string, number, number][] = [
      ['accepted', sum((one) => one.accepted), ofType('Send')],
      ['delivered', sum((one) => one.delivered), ofType('Delivery')],
      ['bounced hard', sum((one) => one.bounced.hard), ofKind('hard')],
      ['bounced soft', sum((one) => one.bounced.soft), ofKind('soft')],
      ['blocked', sum((one) => one.bounced.block), ofKind('block')],
      ['delayed', sum((one) => one.delayed), ofType('DeliveryDelay')],
      ['complained', sum((one) => one.complained), ofType('Complaint')],
      ['unsubscribed', sum((one) => one.unsubscribed), ofType('Unsubscribe')],
    ];
    return pairs
      .filter(([, shown, logged]) => shown !== logged)
      .map(([name, shown, logged]) => `the statistics count ${shown} ${name}, and the log ${logged}`);
  }
}

/** Clocks of several nodes differ, and ids contain the start time of a request. */
const CLOCKS_MS = 2 * DAY_MS;

interface EventRow {
  id: string;
  type: string;
  message_id: string;
  at: number;
  detail: string;
}

interface MessageRow {
  id: string;
  status: string;
  recipient: string;
  subject: string;
  created_at: number;
}

function ofDetail(database: Rows, detail: MessageDetail, events: readonly EventRow[]): string[] {
  const { messageId, attempts, timeline } = detail;
  const rows = database.all<{ record: string }>(
    'SELECT record FROM attempt WHERE message_id = ? ORDER BY number',
    messageId,
  );
  const faults: string[] = [];
  const textOf = ({ time, reply, outcome }: ShownAttempt): string => `${time} ${outcome} ${reply}`;
  const recorded = rows.map(({ record }) => textOf(JSON.parse(record) as ShownAttempt));
  if (attempts.map(textOf).join('\n') !== recorded.join('\n'))
    faults.push(`${messageId} shows ${attempts.length} attempts, and has ${recorded.length}`);
  const own = events.filter((one) => one.message_id === messageId);
  return [...faults, ...sequenceFaults(`the timeline of ${messageId}`, timeline, own)];
}

function sequenceFaults(what: string, shown: readonly ShownEvent[], rows: readonly EventRow[]): string[] {
  const ids = shown.map(({ eventId }) => eventId);
  const wanted = rows.map(({ id }) => id);
  const seen = new Set(ids);
  const missing = wanted.filter((id) => !seen.has(id));
  if (missing.length > 0) return [`${what} leaves out ${missing.length} of ${wanted.length}: ${missing[0]}`];
  if (seen.size < ids.length) return [`${what} shows ${ids.length - seen.size} events twice`];
  if (ids.length > wanted.length) return [`${what} shows ${ids.length - wanted.length} events that are not there`];
  if (ids.some((id, at) => id !== wanted[at])) return [`${what} is in another order`];
  const odd = shown.find(({ eventType, messageId, timestamp }, at) => {
    const { type, message_id: id, at: ms } = rows[at]!;
    return eventType !== type || messageId !== id || Date.parse(timestamp) !== ms;
  });
  return odd ? [`${what} shows ${odd.eventId} as ${odd.eventType} of ${odd.messageId}`] : [];
}

function setFaults(what: string, shown: readonly ShownMessage[], rows: readonly MessageRow[]): string[] {
  const ids = shown.map(({ messageId }) => messageId);
  const seen = new Set(ids);
  const wanted = new Set(rows.map(({ id }) => id));
  const missing = [...wanted].filter((id) => !seen.has(id));
  if (missing.length > 0) return [`${what} leaves out ${missing.length} of ${wanted.size}: ${missing[0]}`];
  if (seen.size < ids.length) return [`${what} shows ${ids.length - seen.size} messages twice`];
  const further = ids.filter((id) => !wanted.has(id));
  return further.length > 0 ? [`${what} shows ${further[0]}, which does not belong there`] : [];
}
