/**
 * Checks a scenario after its end, by the responses to customers, what the other servers accepted, and the database. Each failure is a
 * sentence that names a promise of docs/explanation/promises.md.
 */
import { createHash } from 'node:crypto';
import { type Absence, mayBeLost } from './absences.ts';
import type { MovedWebhook, Suppressed } from './customer-actions.ts';
import { type Entry, fileOf, lengthOf } from './customers.ts';
import { daneFaults } from './dane.ts';
import { dialogueFaults } from './dialogue-oracle.ts';
import type { Rows } from './node.ts';
import type { Copy, Peer } from './peers.ts';
import { isNowhere, type Policies } from './policies.ts';
import { type PolicyHost, policyFaults } from './policy-hosts.ts';
import type { Down } from './process-lifetimes.ts';
import type { Receiver } from './receivers.ts';
import { REFUSALS, refusalBehind } from './refusals.ts';
import { reportedFaults } from './reported-oracle.ts';
import type { Report } from './reporters.ts';
import { type Attempt, type Conditions, scheduleFaults } from './schedule-oracle.ts';
import { type Signing, signingFaults } from './signing.ts';
import { TRANSITIONS } from './states.ts';
import { suppressionFaults } from './suppression-oracle.ts';
import { appliedFaults } from './tls-policy-oracle.ts';
import { webhookFaults } from './webhook-oracle.ts';

export interface Evidence {
  ledger: readonly Entry[];
  peers: readonly Peer[];
  receiver: Receiver;
  policies: Policies;
  policyHosts: readonly PolicyHost[];
  /** Whether the storage failed. */
  isRefused: boolean;
  /** Whether several nodes share the database. */
  isShared: boolean;
  /** The inbound reports. */
  reports: readonly Report[];
  /** The account whose live events go to the endpoint. */
  subscriber: string;
  database: Rows;
  /** When nodes died or were away long enough for others to take over their work, virtual ms. */
  deathsMs: readonly number[];
  /** The endpoint accepts everything after some minutes. */
  isShort: boolean;
  /** Whether the message was in progress at enough deaths to be dead-lettered. */
  isDeadly(messageId: string): boolean;
  /** Outages of the shared database. */
  outages: readonly Absence[];
  /** The wall clock at the start, and after it was set, in Unix ms. */
  startMs: number;
  clockSetAtMs: readonly number[];
  signing: Signing;
  /** No DNS query is lost. */
  isDnsSteady: boolean;
  /** Addresses that customers suppressed. */
  manually: readonly Suppressed[];
  movedWebhooks: readonly MovedWebhook[];
  /** Content is kept for only a day. */
  isContentShort: boolean;
  /** The wall clock at the end. */
  nowMs: number;
  conditions: Conditions;
  /** When the only node was down. */
  downs: readonly Down[];
  /** At how many starts a message was in progress. */
  deathsOf(messageId: string): number;
  /** Maximum time from a reply to its record. */
  recordMs: number;
  /** Whether the scenario ended regularly. */
  isOver: boolean;
}

export interface MessageRow {
  id: string;
  mode: string;
  recipient: string;
  status: string;
  attempts: number;
  expires_at: number;
  created_at: number;
  send_at: number | null;
  subject: string;
  /** The Message-ID of its copies. */
  header: string;
}

export interface EventRow {
  id: string;
  account_id: string;
  mode: string;
  type: string;
  message_id: string;
  at: number;
  /** JSON. */
  detail: string;
  /** For a bounce or a delay: reported after the delivery. */
  late: number | null;
}

const FINAL = new Set(['delivered', 'bounced', 'suppressed', 'cancelled', 'complained']);
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const ENDS = new Set(['Delivery', 'Bounce', 'Reject']);
const END: Record<string, string> = {
  delivered: 'Delivery',
  bounced: 'Bounce',
  suppressed: 'Reject',
  cancelled: 'Reject',
};
const MOST_CONNECTIONS = 20;
const DAY_MS = 86_400_000;
/** A message that was in progress at this many deaths is dead-lettered. */
export const DEADLY = 3;

export function faultsOf(evidence: Evidence): string[] {
  const messages = evidence.database.all<MessageRow>(
    `SELECT m.id, m.mode, m.recipient, m.status, m.attempts, m.expires_at, m.created_at, m.send_at, e.subject, e.header_message_id AS header FROM message m JOIN email e ON e.seq = m.email_seq`,
  );
  const events = evidence.database.all<EventRow>(
    `SELECT id, account_id, mode, type, message_id, at, detail,
       coalesce(json_extract(detail, '$.bounce.late'), json_extract(detail, '$.deliveryDelay.late')) AS late
     FROM event ORDER BY seq`,
  );
  const attempts = attemptsOf(evidence);
  const copies = evidence.peers.flatMap((peer) => peer.copies).sort((a, b) => a.atMs - b.atMs);
  return [
    ...(evidence.isOver ? [] : ['a message or an event has not come to its end within eight days']),
    ...ofAnswers(evidence, messages),
    ...ofCopies(evidence, { messages, copies }),
    ...ofCancellations(evidence, messages, copies),
    ...ofStates(evidence, messages),
    ...ofEvents({ messages, events }),
    ...webhookFaults({ ...evidence, events, isDeadly: evidence.deathsMs.length >= DEADLY }),
    ...ofBounces(evidence, { messages, events }),
    ...ofTimes(evidence, copies),
    ...ofMoves(evidence, messages),
    ...ofLifetimes(evidence, messages),
    ...ofContent(evidence),
    ...scheduleFaults({ ...evidence, messages, events, attempts }),
    ...dialogueFaults({ ...evidence, messages, attempts }),
    ...suppressionFaults({ ...evidence, messages, events, attempts }),
    ...ofPeers(evidence),
    ...daneFaults(evidence.policies.dane, copies),
    ...appliedFaults({ ...evidence, attempts, messages }),
    ...signingFaults(evidence.signing, {
      ...evidence,
      copies,
      isSteady: evidence.isDnsSteady && evidence.clockSetAtMs.length === 0 && !evidence.isShared,
    }),
    ...policyFaults(evidence.policyHosts, copies, evidence),
    ...reportedFaults({ ...evidence, copies, isSure: (copy) => isSureWithin(evidence.recordMs, copy) }),
  ];
}

type Recorded = Pick<Attempt, 'reply' | 'host' | 'outcome' | 'tlsPolicy' | 'dialogue'> & { time: string };

function attemptsOf({ database }: Evidence): Attempt[] {
  const rows = database.all<Attempt & { record: string }>('SELECT message_id, number, at, record FROM attempt');
  return rows.map(({ record, ...row }) => {
    const { time, reply, host, outcome, tlsPolicy, dialogue } = JSON.parse(record) as Recorded;
    return { ...row, startedMs: Date.parse(time), reply, host, outcome, tlsPolicy, dialogue };
  });
}

function ofAnswers({ ledger }: Evidence, messages: readonly MessageRow[]): string[] {
  const faults: string[] = [];
  const known = new Map(messages.map((one) => [one.id, one]));
  for (const { mail, acknowledged, strange, isShown, isGivenUp, isTurnedAway, resends } of ledger) {
    if (isGivenUp) faults.push(`${mail.key} was never acknowledged`);
    const isRefused = isTurnedAway && acknowledged.length === 0 && !mail.isDoubled;
    if (isRefused && messages.some((one) => one.subject === mail.key))
      faults.push(`${mail.key} was answered 503, and was accepted`);
    if (mail.by === 'sandbox' && acknowledged.length > 0 && !isShown) faults.push(`${mail.key} is in no virtual inbox`);
    for (const one of strange) faults.push(`the customer of ${mail.key} was answered: ${one}`);
    for (const answer of acknowledged) {
      // A submission gets one id, that of the first recipient.
      const named = mail.via === 'smtp' ? mail.to.slice(0, 1) : mail.to;
      if (!named.every((one) => answer.has(one)) || answer.size !== named.length)
        faults.push(`${mail.key} to ${named.join()} was acknowledged to ${[...answer.keys()].join()}`);
      for (const [recipient, id] of answer) {
        if (known.get(id)?.recipient !== recipient) faults.push(`lost: ${id} of ${mail.key} was acknowledged`);
      }
    }
    for (const recipient of mail.to) {
      // A resend is another message.
      const most = 1 + resends;
      const rows = messages.filter((one) => one.subject === mail.key && one.recipient === recipient);
      if (rows.length > most) faults.push(`key ${mail.key}: ${rows.length} messages to ${recipient}`);
      if (rows.length === 0 && acknowledged.length > 0)
        faults.push(`lost: ${mail.key} to ${recipient} was acknowledged`);
    }
  }
  return faults;
}

/** Returns a common name of a message and its copies: a resend has another Message-ID. */
function nameOf(one: Copy | MessageRow): string {
  const header = 'header' in one ? one.header : one.messageId;
  return `${header.replace(/[<>]/g, '')} ${one.recipient}`;
}

function ofCancellations({ ledger }: Evidence, messages: readonly MessageRow[], copies: readonly Copy[]): string[] {
  const faults: string[] = [];
  for (const message of messages) {
    const entry = ledger.find((one) => one.cancelled.has(message.id));
    if (entry === undefined) continue;
    const atMs = entry.cancelled.get(message.id)!;
    if (message.status !== 'cancelled') faults.push(`${message.id} was cancelled, and is ${message.status}`);
    const after = copies.filter((copy) => nameOf(copy) === nameOf(message) && copy.dotAtMs > atMs && !copy.isOfTheDead);
    if (after.length > 0) faults.push(`${message.id} was cancelled, and came to its recipient after that`);
  }
  return faults;
}

function ofCopies(
  { ledger, reports, recordMs, policies: { enforced, publishing, dane } }: Evidence,
  { messages, copies }: { messages: readonly MessageRow[]; copies: readonly Copy[] },
): string[] {
  const faults: string[] = [];
  const wanted = new Map(ledger.map((one) => [one.mail.key, one.mail]));
  const byMessage = Map.groupBy(copies, nameOf);
  for (const copy of copies) {
    const mail = wanted.get(copy.subject);
    if (!mail?.to.includes(copy.recipient)) faults.push(`phantom: ${copy.subject} came to ${copy.recipient}`);
    if (mail && copy.length !== lengthOf(mail)) {
      faults.push(`${copy.subject} has ${copy.length} of its ${lengthOf(mail)} characters`);
    }
    const domain = copy.recipient.split('@')[1]!;
    if (enforced.has(domain) && !publishing.has(domain) && !copy.isCertified)
      faults.push(`policy: ${copy.subject} came to a domain that asks for TLS without it`);
    if (mail?.by === 'sandbox') faults.push(`${copy.subject} left the sandbox`);
    const digest = mail && mail.fileBytes > 0 ? sha256(fileOf(mail)) : undefined;
    if (copy.fileDigest !== digest) faults.push(`${copy.subject} came with another file`);
    if (mail?.requireTls && !copy.inTls) faults.push(`policy: ${copy.subject} asks for TLS and came in the clear`);
    // Matching TLSA records count as a valid certificate.
    if (mail?.requireTls === 'verified' && !copy.isCertified && !dane.has(copy.peer))
      faults.push(`policy: ${copy.subject} asks for a certificate and came without`);
  }
  for (const [link, own] of Map.groupBy(copies, (copy) => copy.unsubscribe)) {
    if (link !== '' && new Set(own.map(({ recipient }) => recipient)).size > 1)
      faults.push(`${own[0]!.subject} has the link of another recipient: ${link}`);
  }
  for (const { subject, unsubscribe } of copies) {
    if (wanted.get(subject)?.hasUnsubscribe && unsubscribe === '') faults.push(`${subject} has no List-Unsubscribe`);
  }
  const known = new Set(messages.map(nameOf));
  for (const [name] of byMessage) if (!known.has(name)) faults.push(`${name} came, and there is no such message`);
  const resent = new Map(ledger.map(({ mail, resends }) => [mail.key, resends]));
  for (const [, own] of Map.groupBy(copies, (copy) => `${copy.subject} ${copy.recipient}`)) {
    const [{ subject, recipient }] = own as [Copy];
    if (new Set(own.map((copy) => copy.messageId)).size > 1 + (resent.get(subject) ?? 0))
      faults.push(`copies of ${subject} to ${recipient} differ in Message-ID`);
  }
  const reported = new Set(reports.map((one) => one.messageId));
  for (const message of messages) {
    if (message.mode === 'sandbox') continue;
    const own = byMessage.get(nameOf(message)) ?? [];
    if (message.status === 'delivered' && own.length === 0)
      faults.push(`${message.id} is delivered, and nobody took it`);
    const sure = own.find((copy) => isSureWithin(recordMs, copy));
    if (sure && message.status !== 'delivered' && !reported.has(message.id))
      faults.push(`${message.id} was taken, and is ${message.status}`);
    // A server may take long to answer a dot of a node that is dead by then.
    const after = own.filter((copy) => sure && copy !== sure && copy.dotAtMs > sure.atMs && !copy.isOfTheDead);
    if (after.length > 0) faults.push(`${message.id}: another copy after one that was answered`);
  }
  return faults;
}

/** Whether Postrider must know about the copy: the reply arrived, and the node lived long enough to record it. */
function isSureWithin(recordMs: number, { heardAtMs, atMs, sender }: Copy): boolean {
  return heardAtMs !== undefined && ![atMs, heardAtMs].some((ms) => mayBeLost(sender, ms, recordMs));
}

function ofStates({ database }: Evidence, messages: readonly MessageRow[]): string[] {
  const faults: string[] = [];
  for (const one of messages) if (!FINAL.has(one.status)) faults.push(`${one.id} is ${one.status} in the end`);
  const changes = database.all<{ id: string; before: string | null; after: string }>(
    'SELECT id, before, after FROM simulated_change ORDER BY seq',
  );
  for (const { id, before, after } of changes) {
    if (!TRANSITIONS.has(`${before ?? ''}>${after}`)) faults.push(`${id} went from ${before} to ${after}`);
  }
  const { held } = database.get<{ held: number }>('SELECT count(*) AS held FROM work')!;
  if (held > 0) faults.push(`${held} rows of work are left for ever`);
  for (const { subject } of database.all<{ subject: string }>('SELECT subject FROM simulated_crash'))
    faults.push(`${subject} counts another crash, and only waited`);
  return faults;
}

function ofEvents({ messages, events }: { messages: readonly MessageRow[]; events: readonly EventRow[] }): string[] {
  const faults: string[] = [];
  const byMessage = Map.groupBy(events, (event) => event.message_id);
  for (const { id, status } of messages) {
    const own = byMessage.get(id) ?? [];
    const types = own.map((event) => event.type);
    if (own.some((event, at) => at > 0 && event.at <= own[at - 1]!.at)) faults.push(`${id}: its events run backwards`);
    const ends = own.filter(({ type, late }) => ENDS.has(type) && late !== 1).map(({ type }) => type);
    const isLate = own.some(({ type, late }) => type === 'Bounce' && late === 1);
    if (types.filter((type) => type === 'Send').length !== 1) faults.push(`${id}: events ${types.join(', ')}`);
    const wanted = isLate || status === 'complained' ? 'Delivery' : END[status];
    if (wanted !== undefined && ends.join() !== wanted)
      faults.push(`${id} is ${status} with events ${types.join(', ')}`);
    if (own.filter(({ type, late }) => type === 'DeliveryDelay' && late !== 1).length > 1)
      faults.push(`${id}: delayed twice in the log`);
  }
  return faults;
}

/** The reply of a bounce that ends a message which crashes the process, or seems to. */
const DEAD_LETTER = /internal error occurred three times/;

function ofBounces(
  { peers, isDeadly, database, clockSetAtMs, reports }: Evidence,
  { messages, events }: { messages: readonly MessageRow[]; events: readonly EventRow[] },
): string[] {
  const refused = new Set(peers.flatMap((peer) => [...peer.refused]));
  const isSenderRefused = peers.some(({ refusedSenders }) => refusedSenders > 0);
  const faults: string[] = [];
  for (const { id, mode, recipient, status, expires_at: expiresAt, created_at: createdAt } of messages) {
    if (mode === 'sandbox') {
      const isSimulated = recipient.startsWith('bounced@');
      if (isSimulated !== (status === 'bounced') && !isDeadly(id))
        faults.push(`${id} to ${recipient} is ${status} in the sandbox`);
      continue;
    }
    // Late reports have separate checks.
    if (reports.some((one) => one.messageId === id && one.kind === 'bounce')) continue;
    if (status !== 'bounced' || refused.has(recipient) || isNowhere(recipient)) continue;
    const bounce = events.find((event) => event.message_id === id && event.type === 'Bounce');
    const reply = bounce && JSON.parse(bounce.detail).bounce.reply;
    if (DEAD_LETTER.test(reply) && isDeadly(id)) continue;
    if (reply === REFUSALS.sender.reply && isSenderRefused) continue;
    if (bounce && bounce.at < expiresAt) faults.push(`${id} bounced, and nobody refused it`);
    const [setAtMs] = clockSetAtMs;
    if (setAtMs === undefined || createdAt >= setAtMs || (bounce?.at ?? 0) < setAtMs) continue;
    // The documented exception: the server asked to wait until after the lifetime, or blocks the host.
    if (reply?.startsWith('421 ') || refusalBehind(reply, recipient)?.isBlock) continue;
    const tried = database.all<{ at: number }>('SELECT at FROM attempt WHERE message_id = ?', id);
    if (!tried.some(({ at }) => at >= setAtMs)) faults.push(`${id} expired by a clock that was set, untried since`);
  }
  return faults;
}

/** Unix ms before which no copy may arrive. */
const earliestOf = ({ mail, movedToMs }: Entry): number =>
  movedToMs.length > 0 ? Math.min(...movedToMs) : (mail.sendAtMs ?? 0);

/** A moved message is scheduled for the time that was acknowledged last. */
function ofMoves({ ledger }: Evidence, messages: readonly MessageRow[]): string[] {
  return ledger.flatMap(({ mail, movedToMs, cancelled }) => {
    const [toMs] = movedToMs;
    if (toMs === undefined || movedToMs.length > 1 || cancelled.size > 0) return [];
    const rows = messages.filter(({ subject, send_at: sendAtMs }) => subject === mail.key && (sendAtMs ?? 0) < toMs);
    return rows.map(({ id, send_at: sendAtMs }) => `${id} was moved to ${toMs}, and is scheduled for ${sendAtMs}`);
  });
}

/** The lifetime of a message counts from the later of its acceptance and its scheduled time; from the latter alone once it was moved. */
function ofLifetimes({ ledger }: Evidence, messages: readonly MessageRow[]): string[] {
  // A message that is moved to now by a clock that was set back is due before it was accepted.
  const moved = new Set(ledger.filter(({ movedToMs }) => movedToMs.length > 0).map(({ mail }) => mail.key));
  const seconds = new Map(
    ledger.flatMap(({ mail, resends }) =>
      mail.via === 'http' && resends === 0 ? [[mail.key, mail.expiresAfterSeconds] as const] : [],
    ),
  );
  return messages.flatMap(({ id, subject, expires_at: expiresAt, created_at: createdAt, send_at: sendAt }) => {
    const wanted = seconds.get(subject);
    const countsFrom = sendAt !== null && moved.has(subject) ? sendAt : Math.max(createdAt, sendAt ?? 0);
    const own = (expiresAt - countsFrom) / 1_000;
    return wanted === undefined || Math.abs(own - wanted) < 2 ? [] : [`${id} expires after ${own} s, of ${wanted}`];
  });
}

/** Content that is not retained is removed when its message is settled, and all other content is kept for at least a day. */
function ofContent({ database, isContentShort, clockSetAtMs, nowMs }: Evidence): string[] {
  const rows = database.all<{ seq: number; subject: string; retain: string; gone: number; createdMs: number }>(
    `SELECT e.seq, e.subject, e.retain, CASE WHEN content IS NULL AND blob_key IS NULL THEN 1 ELSE 0 END AS gone,
       e.created_at AS "createdMs" FROM email e`,
  );
  const keptMs = isContentShort ? DAY_MS : 7 * DAY_MS;
  return rows.flatMap(({ subject, retain, gone, createdMs }) => {
    if (retain === 'none')
      return gone === 1 ? [] : [`the content of ${subject} is kept, though its customer wants that not`];
    const isYoung = clockSetAtMs.length === 0 && nowMs < createdMs + keptMs;
    return gone === 1 && isYoung ? [`the content of ${subject} is gone before its time`] : [];
  });
}

/** Scheduled messages waited. */
function ofTimes({ ledger, startMs, clockSetAtMs }: Evidence, copies: readonly Copy[]): string[] {
  if (clockSetAtMs.length > 0) return [];
  const wanted = new Map(ledger.map((entry) => [entry.mail.key, earliestOf(entry)]));
  const early = copies.filter((copy) => startMs + copy.atMs < (wanted.get(copy.subject) ?? 0));
  return early.map((copy) => `${copy.subject} came before its time`);
}

/**
 * Connections over the limit: at most twice the limit per minute, and as many again for each process that ended, because a new process does
 * not know the limit.
 */
function ofLimit({ name, manners, turnedAway }: Peer): string[] {
  const most = Math.max(2 * manners.connections, 3);
  for (const { atMs: fromMs } of turnedAway) {
    const untilMs = fromMs + 60_000;
    const minute = turnedAway.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs);
    const processes = [...new Set(minute.map(({ remoteProcess }) => remoteProcess))];
    const ended = processes.filter(
      (remoteProcess) => remoteProcess?.endedMs !== undefined && remoteProcess.endedMs < untilMs,
    ).length;
    if (minute.length > most * (1 + ended)) return [`${name} sent ${minute.length} connections away in a minute`];
  }
  return [];
}

function ofPeers({ peers, outages, clockSetAtMs }: Evidence): string[] {
  return peers.flatMap((peer) => {
    const faults: string[] = [];
    if (peer.mostOpen > MOST_CONNECTIONS) faults.push(`${peer.name} had ${peer.mostOpen} connections at once`);
    // Pauses use the wall clock.
    if (clockSetAtMs.length === 0)
      faults.push(...peer.clientBehavior.faults(outages).map((one) => `${peer.name} had ${one}`));
    return [...faults, ...ofLimit(peer)];
  });
}
