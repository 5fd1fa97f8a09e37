/**
 * What customers do after or around an accepted message: they repeat a key hours later, move scheduled messages, resend, edit a template
 * between two messages, suppress an address while a message to it is scheduled, and send batches with one invalid message. Each compares
 * the responses with the contract; the oracle checks the resulting messages.
 */
import type { Choices } from './choices.ts';
import {
  type Accepted,
  type Answer,
  apiCall,
  type Entry,
  isLater,
  newEntry,
  noteAccepted,
  requestOf,
  sendUntilAcknowledged,
  untilDone,
  type WantedMail,
} from './customers.ts';
import { here } from './globals.ts';
import { domainOf } from './policies.ts';
import type { Random } from './random.ts';
import { MOVED } from './receivers.ts';
import type { Template } from './template.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** How long a key is kept. */
const KEY_MS = 24 * HOUR_MS;
/** A change on one node applies on the others within this time. */
export const PROPAGATION_MS = 1_000;
const FINAL = new Set(['delivered', 'bounced', 'suppressed', 'cancelled', 'complained']);

/** An address that the customer suppressed, virtual ms. */
export interface Suppressed {
  email: string;
  /** From the first request on it may be suppressed, and from the first response on it is. */
  askedAtMs: number;
  atMs: number;
  /** From the first request to remove it on it may be removed, and from the response on it is. */
  removeAskedAtMs: number | undefined;
}

/** A webhook whose URL the customer changed. Times are virtual ms. */
export interface MovedWebhook {
  /** Its URL before. */
  url: string;
  /** When the response came. */
  atMs: number;
}

/** Actions of customers that the oracle must know. */
export interface CustomerActions {
  readonly faults: string[];
  readonly suppressed: Suppressed[];
  readonly movedWebhooks: MovedWebhook[];
}

export interface Habit {
  template: Template;
  random: Random;
  ledger: Entry[];
  deeds: CustomerActions;
  startMs: number;
  /** A multiple of the usual shares of scenarios. */
  share: number;
  /** Creates new DKIM keys, and publishes them. */
  rotate(): Promise<void>;
  /** Whether the wall clock is never set. */
  isSteady(): boolean;
  /** Whether several nodes share the database: what one node changes applies on the others within `PROPAGATION_MS`. */
  isShared: boolean;
  drawn(key: string): WantedMail;
  count(what: string): void;
}

type Run = () => Promise<unknown>;

/** Draws the habits of a scenario. */
export function drawCustomerActions(habit: Habit, choices: Choices): Run[] {
  const { random } = habit;
  const habits: [name: string, share: number, run: (own: Habit) => Promise<unknown>][] = [
    ['late-key', 0.16, repeatLate],
    ['move', 0.12, move],
    ['resend', 0.12, resend],
    ['edited-template', 0.12, editTemplate],
    ['suppress', 0.12, suppressScheduled],
    ['mixed-batch', 0.1, sendMixedBatch],
    ['cancel-late', 0.1, cancelLate],
    ['rotate-keys', 0.08, ({ rotate }) => rotate()],
    ['move-webhook', 0.12, moveWebhook],
  ];
  return habits.flatMap(([name, share, run]) => {
    const own = random.stream(name);
    if (!own.chance(share * habit.share) || !choices.has(name)) return [];
    return [
      () => {
        habit.count(`customers: ${name}`);
        return run({ ...habit, random: own });
      },
    ];
  });
}

function entryOf({ ledger, drawn }: Habit, key: string, more: Partial<WantedMail>): Entry {
  const plain = { via: 'http', by: 'shop', isDoubled: false, isImpatient: false, isReused: false } as const;
  const entry = newEntry({ ...drawn(key), ...plain, cancelAfterMs: undefined, fileBytes: 0, key, ...more });
  ledger.push(entry);
  return entry;
}

const idsOf = (entry: Entry): string[] => [...(entry.acknowledged.at(-1)?.values() ?? [])];
const now = (): number => here().timeline.nowMs;

/** Repeats a call until the response does not ask for a retry; undefined if that never happens. */
async function answered({ random }: Habit, call: () => Promise<Answer>): Promise<Answer | undefined> {
  let answer: Answer | undefined;
  await untilDone(async () => {
    const one = await call();
    if (isLater(one.status) && !/CONFLICT/.test(one.body)) return false;
    answer = one;
    return true;
  }, random);
  return answer;
}

async function statusesOf(habit: Habit, ids: readonly string[]): Promise<string[]> {
  const { shop } = habit.template.tenants;
  const statuses: string[] = [];
  for (const id of ids) {
    const answer = await answered(habit, () => apiCall(shop, 'GET', `/messages/${id}`, undefined));
    if (answer?.status === 200) statuses.push((JSON.parse(answer.body) as { status: string }).status);
  }
  return statuses;
}

async function untilSettled(habit: Habit, ids: readonly string[]): Promise<boolean> {
  for (let waitMs = MINUTE_MS; waitMs < 100 * HOUR_MS; waitMs *= 2) {
    const statuses = await statusesOf(habit, ids);
    if (statuses.length === ids.length && statuses.every((one) => FINAL.has(one))) return true;
    await here().timeline.wait(waitMs);
  }
  return false;
}

/** Repeats a key after hours: within a day it refers to the first message, and after that to nothing once that message is settled. */
async function repeatLate(habit: Habit): Promise<void> {
  const { template, random, deeds, ledger } = habit;
  const { shop } = template.tenants;
  const hours = random.pick([1, 23, 25, 25, 30]);
  const key = `repeated-after-${hours}`;
  const waits = random.stream('unsettled');
  // In some scenarios, scheduled for after the repetition.
  const isStillScheduled = hours > 24 && waits.chance(0.4);
  const scheduledMs = Math.round(habit.startMs + now() + hours * HOUR_MS + waits.between(HOUR_MS, 3 * HOUR_MS));
  const entry = entryOf(habit, key, { sendAtMs: isStillScheduled ? scheduledMs : undefined });
  const firstMs = now();
  await sendUntilAcknowledged(template, entry, random);
  const acknowledgedMs = now();
  const ids = idsOf(entry);
  if (ids.length === 0) return;
  await here().timeline.wait(hours * HOUR_MS);
  // After a clock change a day may be over early or late, so the same request may be accepted again.
  const isOther = hours > 24 || random.chance(0.5) || !habit.isSteady();
  // The reply to an attempt may be lost, and the next attempt then determines the result.
  const isSettled = (await statusesOf(habit, ids)).every((one) => FINAL.has(one));
  const later = isOther ? newEntry({ ...entry.mail, key: `${key}-other` }) : entry;
  const body = requestOf(later.mail, shop);
  let tries = 0;
  let begunMs = 0;
  const answer = await answered(habit, () => {
    tries += 1;
    begunMs = now();
    return apiCall(shop, 'POST', '/send', body, [`Idempotency-Key: ${key}`]);
  });
  if (answer === undefined || !habit.isSteady()) {
    if (isOther) ledger.push(later);
    return;
  }
  const { status } = answer;
  const isReplayed = /\r\nidempotent-replayed: true/.test(answer.headers);
  const name = `the key of ${key}`;
  if (status === 202 && isOther) {
    ledger.push(later);
    noteAccepted(later, (JSON.parse(answer.body) as { data: Accepted }).data);
  }
  if (now() - firstMs < KEY_MS - MINUTE_MS) {
    const same = status === 202 && !isOther ? (JSON.parse(answer.body) as { data: Accepted }).data.recipients : [];
    if (isOther && status !== 422) deeds.faults.push(`${name} was answered ${status} to another mail within a day`);
    if (!isOther && !(status === 202 && isReplayed && same.every(({ messageId }) => ids.includes(messageId))))
      deeds.faults.push(`${name} was answered ${status} within a day, and not with its first answer`);
  } else if (begunMs - acknowledgedMs > KEY_MS + MINUTE_MS && isSettled && tries === 1 && status !== 202)
    deeds.faults.push(`${name} was answered ${status} after more than a day, though its mail is settled`);
  // While its message is not settled, a key refers to it, whatever its age.
  else if (!isSettled && status === 202 && (await isUnsettled(habit, ids)))
    deeds.faults.push(`${name} was free for another mail, though its own is not settled`);
}

async function isUnsettled(habit: Habit, ids: readonly string[]): Promise<boolean> {
  return (await statusesOf(habit, ids)).some((one) => !FINAL.has(one));
}

/** Moves scheduled messages: later, earlier, or to now. */
async function move(habit: Habit): Promise<void> {
  const { template, random, deeds, startMs } = habit;
  const { shop } = template.tenants;
  const sendAtMs = Math.round(startMs + now() + random.between(5 * MINUTE_MS, 3 * HOUR_MS));
  const entry = entryOf(habit, 'moved', { sendAtMs, to: [`moved@${domainOf(random.below(3))}`] });
  await sendUntilAcknowledged(template, entry, random);
  const [id] = idsOf(entry);
  if (id === undefined) return;
  entry.movedToMs.push(sendAtMs);
  for (let times = 1 + random.below(2); times > 0; times -= 1) {
    await here().timeline.wait(random.between(0, 4 * MINUTE_MS));
    const toMs = Math.round(startMs + now() + random.pick([-MINUTE_MS, 10 * MINUTE_MS, 2 * HOUR_MS, 6 * HOUR_MS]));
    entry.movedToMs.push(toMs);
    const answer = await answered(habit, () =>
      apiCall(shop, 'PATCH', `/messages/${id}`, { sendAt: new Date(toMs).toISOString() }),
    );
    if (answer === undefined) return;
    if (answer.status === 200) entry.movedToMs.splice(0, entry.movedToMs.length, toMs);
    else if (answer.status !== 409) deeds.faults.push(`moving ${id} was answered ${answer.status} ${answer.body}`);
  }
}

/** Cancels messages in whatever state they have after hours. */
async function cancelLate(habit: Habit): Promise<void> {
  const { template, random, deeds } = habit;
  const { shop } = template.tenants;
  const cancelAfterMs = undefined;
  const sendAtMs = random.chance(0.4) ? Math.round(habit.startMs + now() + random.between(0, 5 * HOUR_MS)) : undefined;
  const entry = entryOf(habit, 'cancelled-late', { cancelAfterMs, sendAtMs });
  await sendUntilAcknowledged(template, entry, random);
  await here().timeline.wait(random.between(0, random.chance(0.5) ? 2 * MINUTE_MS : 5 * HOUR_MS));
  for (const id of idsOf(entry)) {
    let tries = 0;
    const answer = await answered(habit, () => {
      tries += 1;
      return apiCall(shop, 'POST', `/messages/${id}/cancel`, undefined);
    });
    if (answer?.status === 200) entry.cancelled.set(id, now());
    else if (answer?.status !== 409) deeds.faults.push(`cancelling ${id} was answered ${answer?.status}`);
    const again = await answered(habit, () => apiCall(shop, 'POST', `/messages/${id}/cancel`, undefined));
    if (answer?.status === 200 && again && again.status !== 409)
      deeds.faults.push(`cancelling ${id} again was answered ${again.status}`);
    if (tries === 1 && answer?.status === 409 && /its status is (scheduled|queued|delayed)/.test(answer.body))
      deeds.faults.push(`cancelling ${id} was refused: ${answer.body.slice(0, 200)}`);
  }
}

/** Resends messages once they are settled, and not before. */
async function resend(habit: Habit): Promise<void> {
  const { template, random, deeds } = habit;
  const { shop } = template.tenants;
  const entry = entryOf(habit, 'resent', { to: [`again@${domainOf(random.below(3))}`], length: 60 });
  await sendUntilAcknowledged(template, entry, random);
  const [id] = idsOf(entry);
  if (id === undefined) return;
  const ask = (): Promise<Answer> =>
    apiCall(shop, 'POST', `/messages/${id}/resend`, undefined, ['Idempotency-Key: again']);
  if (random.chance(0.5)) {
    entry.resends = 1;
    const early = await answered(habit, ask);
    if (early?.status === 200) {
      if (await isUnsettled(habit, [id])) deeds.faults.push(`${id} was sent again before it was settled`);
      noteResent(entry, early);
      return;
    }
    if (early && early.status !== 409) deeds.faults.push(`sending ${id} again was answered ${early.status}`);
  }
  if (!(await untilSettled(habit, [id]))) return;
  entry.resends = 1;
  const answer = await answered(habit, ask);
  if (answer?.status === 200) {
    noteResent(entry, answer);
    const again = await answered(habit, ask);
    if (again && again.body !== answer.body && habit.isSteady())
      deeds.faults.push(`sending ${id} again under one key was answered differently`);
  } else if (answer && !/content of this message has been deleted/.test(answer.body))
    deeds.faults.push(`sending ${id} again was answered ${answer.status} ${answer.body}`);
}

function noteResent(entry: Entry, { body }: Answer): void {
  const { recipients } = (JSON.parse(body) as { data: Accepted }).data;
  for (const { messageId } of recipients) entry.resentIds.push(messageId);
}

/** Sends two messages of one template that is edited between them: each has the version at its acceptance. */
async function editTemplate(habit: Habit): Promise<void> {
  const { template, random, deeds } = habit;
  const { shop } = template.tenants;
  const lengths = [30 + random.below(30), 70 + random.below(30)];
  const fields = (length: number) => ({ name: 'edited', subject: 'unused', text: 'x'.repeat(length) });
  const path = '/templates';
  const made = await answered(habit, () => apiCall(shop, 'POST', path, fields(lengths[0]!)));
  if (made === undefined) return;
  // The response to the first request may have been lost.
  const templateId = made.status === 201 ? (JSON.parse(made.body) as { templateId: string }).templateId : 'edited';
  if (made.status !== 201 && made.status !== 409) deeds.faults.push(`a template was answered ${made.status}`);
  const to = [`edited@${domainOf(random.below(3))}`];
  for (const [at, length] of lengths.entries()) {
    const sendAtMs = random.chance(0.5)
      ? Math.round(habit.startMs + now() + random.between(0, 30 * MINUTE_MS))
      : undefined;
    const entry = entryOf(habit, `edited-${at}`, { to, length, templateId, sendAtMs });
    await sendUntilAcknowledged(template, entry, random);
    if (at > 0 || entry.isGivenUp) return;
    const id = made.status === 201 ? templateId : await idOfTemplate(habit);
    const edited = await answered(habit, () => apiCall(shop, 'PUT', `${path}/${id}`, fields(lengths[1]!)));
    if (edited?.status !== 200) {
      deeds.faults.push(`editing a template was answered ${edited?.status} ${edited?.body.slice(0, 100)}`);
      return;
    }
    if (habit.isShared) await here().timeline.wait(PROPAGATION_MS);
  }
}

async function idOfTemplate(habit: Habit): Promise<string> {
  const answer = await answered(habit, () => apiCall(habit.template.tenants.shop, 'GET', '/templates', undefined));
  const all = JSON.parse(answer?.body ?? '[]') as { templateId: string; name: string }[];
  return all.find(({ name }) => name === 'edited')?.templateId ?? '';
}

/** Changes the URL of a webhook between two messages. */
async function moveWebhook(habit: Habit): Promise<void> {
  const { template, random, deeds } = habit;
  const { shop } = template.tenants;
  const to = [`moved@${domainOf(random.below(3))}`];
  await sendUntilAcknowledged(template, entryOf(habit, 'before-move', { to }), random);
  const listed = await answered(habit, () => apiCall(shop, 'GET', '/webhooks', undefined));
  const webhooks = JSON.parse(listed?.body ?? '[]') as { webhookId: string; url: string }[];
  if (webhooks.length === 0) return;
  const { webhookId, url } = random.pick(webhooks);
  const changed = { url: `${url}?${MOVED}` };
  const answer = await answered(habit, () => apiCall(shop, 'PATCH', `/webhooks/${webhookId}`, changed));
  if (answer?.status !== 200) {
    if (answer) deeds.faults.push(`moving ${url} was answered ${answer.status} ${answer.body.slice(0, 100)}`);
    return;
  }
  deeds.movedWebhooks.push({ url, atMs: now() });
  await here().timeline.wait(random.between(0, 30 * MINUTE_MS));
  await sendUntilAcknowledged(template, entryOf(habit, 'after-move', { to }), random);
}

/** Suppresses an address while a message to it is scheduled, and in half of the cases removes it before the next message. */
async function suppressScheduled(habit: Habit): Promise<void> {
  const { template, random, deeds, startMs } = habit;
  const { shop } = template.tenants;
  const email = `unwanted@${domainOf(random.below(3))}`;
  const sendAtMs = Math.round(startMs + now() + random.between(MINUTE_MS, 2 * HOUR_MS));
  const waiting = entryOf(habit, 'to-suppressed', { to: [email], sendAtMs });
  await sendUntilAcknowledged(template, waiting, random);
  const one: Suppressed = { email, askedAtMs: now(), atMs: Number.POSITIVE_INFINITY, removeAskedAtMs: undefined };
  deeds.suppressed.push(one);
  const endsAtMs = random.chance(0.4) ? now() + random.between(10 * MINUTE_MS, 3 * HOUR_MS) : undefined;
  const expiresAt = endsAtMs === undefined ? {} : { expiresAt: new Date(startMs + endsAtMs).toISOString() };
  one.removeAskedAtMs = endsAtMs;
  const answer = await answered(habit, () => apiCall(shop, 'POST', '/suppressions', { email, ...expiresAt }));
  if (answer === undefined) return;
  // Its lifetime may have ended before a repeated request was answered.
  if (answer.status === 400 && endsAtMs !== undefined) return;
  if (answer.status !== 201) deeds.faults.push(`suppressing ${email} was answered ${answer.status}`);
  one.atMs = now();
  await here().timeline.wait(endsAtMs === undefined ? random.between(0, 10 * MINUTE_MS) : endsAtMs - now() + MINUTE_MS);
  if (endsAtMs !== undefined) {
    const next = entryOf(habit, 'to-unsuppressed', { to: [email], sendAtMs: undefined });
    next.isWelcome = habit.isSteady();
    await sendUntilAcknowledged(template, next, random);
    return;
  }
  if (random.chance(0.5)) {
    one.removeAskedAtMs = now();
    const removed = await answered(habit, () => apiCall(shop, 'DELETE', `/suppressions/${email}`, undefined));
    if (removed && removed.status !== 200 && removed.status !== 404)
      deeds.faults.push(`removing the suppression of ${email} was answered ${removed.status}`);
    if (removed === undefined) return;
    const next = entryOf(habit, 'to-unsuppressed', { to: [email], sendAtMs: undefined });
    next.isWelcome = true;
    await sendUntilAcknowledged(template, next, random);
    return;
  }
  await sendUntilAcknowledged(
    template,
    entryOf(habit, 'to-suppressed-again', { to: [email], sendAtMs: undefined }),
    random,
  );
}

/** A batch with one invalid message: only that one is refused, and again when the batch is repeated. */
async function sendMixedBatch(habit: Habit): Promise<void> {
  const { template, random, deeds } = habit;
  const { shop } = template.tenants;
  const entries = Array.from({ length: 2 + random.below(3) }, (_, at) => entryOf(habit, `mixed-${at}`, {}));
  const bodies: unknown[] = entries.map(({ mail }) => requestOf(mail, shop));
  const badAt = random.below(bodies.length + 1);
  bodies.splice(badAt, 0, { ...requestOf(entries[0]!.mail, shop), subject: 'mixed-bad', to: ['no address'] });
  const key = 'Idempotency-Key: mixed';
  const send = async (): Promise<boolean> => {
    const answer = await apiCall(shop, 'POST', '/send/batch', { messages: bodies }, [key]);
    if (answer.status !== 200) {
      if (!isLater(answer.status)) deeds.faults.push(`a batch was answered ${answer.status}`);
      return false;
    }
    const { results } = JSON.parse(answer.body) as { results: { status: number; data?: Accepted }[] };
    const [bad] = results.splice(badAt, 1);
    if (bad?.status !== 400 && !isLater(bad?.status ?? 0))
      deeds.faults.push(`a batch answered ${bad?.status} to a mail without a recipient`);
    for (const [at, { status, data }] of results.entries()) {
      if (data) noteAccepted(entries[at]!, data);
      else if (!isLater(status)) deeds.faults.push(`a batch answered ${status} to a mail that is valid`);
    }
    return results.every(({ data }) => data !== undefined);
  };
  const isDone = await untilDone(send, random);
  for (const entry of entries) entry.isGivenUp = !isDone && entry.acknowledged.length === 0;
  if (isDone && random.chance(0.5)) await untilDone(send, random);
}
