/**
 * The customers of the scenario: they send over HTTP and SMTP, and retry unanswered requests with the same key, as the contract says. The
 * ledger records what was acknowledged to them; they see only the responses.
 */
import { createHash } from 'node:crypto';
import { here } from './globals.ts';
import type { SimSocket } from './network.ts';
import { HTTP_PORT, SMTP_PORT } from './node.ts';
import type { Random } from './random.ts';
import { SENDER_DOMAIN, type Template, type Tenant } from './template.ts';
import { SimTlsSocket } from './tls.ts';

const OUR_ADDRESS = '192.0.2.1';
const CUSTOMER_ADDRESS = '203.0.113.7';

export interface WantedMail {
  key: string;
  to: string[];
  by: keyof Template['tenants'];
  via: 'http' | 'smtp';
  expiresAfterSeconds: number;
  requireTls: boolean | 'verified';
  /** Characters of its text; large ones become blobs. */
  length: number;
  /** Unix ms; undefined for now. Only over HTTP. */
  sendAtMs: number | undefined;
  /** The customer cancels the message this long after its acknowledgement. */
  cancelAfterMs: number | undefined;
  /** Sends two requests at the same moment. */
  isDoubled: boolean;
  /** The customer gives up if the first response is a 503. */
  isImpatient: boolean;
  /** Sends another message with the same key once this one is acknowledged. */
  isReused: boolean;
  /** Size of a file that is uploaded before the send; 0 for none. */
  fileBytes: number;
  /** Content retention, if the customer sets it. */
  retain?: 'none' | '7d';
  /** Has the header List-Unsubscribe with a link of its own for each recipient. */
  hasUnsubscribe?: boolean;
  /** The template with its text, instead of its own text. */
  templateId?: string;
}

/** Returns the content of a message's file. */
export const fileOf = ({ key, fileBytes }: WantedMail): Buffer => Buffer.alloc(fileBytes, `the file of ${key} `);

const LINE_LENGTH = 70;

/** Characters that must reach the recipient; SMTP submissions have complete lines. */
export const lengthOf = ({ via, length }: WantedMail): number =>
  via === 'http' ? length : Math.ceil(length / LINE_LENGTH) * LINE_LENGTH;

/** What a customer knows about a message. */
export interface Entry {
  mail: WantedMail;
  attempts: number;
  /** Message ids by recipient, as acknowledged; each response must be the same. */
  acknowledged: Map<string, string>[];
  /** Time of the first acknowledgement, virtual ms. */
  acknowledgedAtMs: number | undefined;
  /** Message ids with an acknowledged cancellation, and its time. */
  cancelled: Map<string, number>;
  /** The virtual inbox showed it; only for sandbox messages. */
  isShown: boolean;
  /** The customer tried for hours without an acknowledgement. */
  isGivenUp: boolean;
  /** A 503 said that nothing was accepted, and the customer gave up. */
  isTurnedAway: boolean;
  /** Times requested by moves, Unix ms; once one is acknowledged, only that one. */
  movedToMs: number[];
  /** How often it may have been resent, and the messages of the resends. */
  resends: number;
  resentIds: string[];
  /** Its recipient was removed from the suppression list before. */
  isWelcome: boolean;
  /** Responses that no customer should see. */
  strange: string[];
}

/** Returns an entry for a message before its first request. */
export const newEntry = (mail: WantedMail): Entry => ({
  mail,
  attempts: 0,
  acknowledged: [],
  acknowledgedAtMs: undefined,
  cancelled: new Map(),
  isShown: false,
  isGivenUp: false,
  isTurnedAway: false,
  strange: [],
  movedToMs: [],
  resends: 0,
  resentIds: [],
  isWelcome: false,
});

export interface Answer {
  status: number;
  headers: string;
  body: string;
  /** Cursor of the next page, or of later log entries. */
  cursor: string | undefined;
}

const ANSWER_MS = 60_000;

const US = { host: OUR_ADDRESS, port: HTTP_PORT };

/** Sends one request on its own connection, to the service or to `to`; rejects if no complete response arrives. */
export function request(
  method: string,
  path: string,
  { headers, body, to = US }: { headers: string[]; body: string; to?: typeof US },
) {
  return new Promise<Answer>((resolve, reject) => {
    const socket = here().network.connect(to, CUSTOMER_ADDRESS);
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), ANSWER_MS);
    let text = '';
    const end = (error?: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      if (error) reject(error);
    };
    socket.on('error', end);
    socket.on('close', () => end(new Error('closed')));
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const head = text.indexOf('\r\n\r\n');
      if (head < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
      const rest = text.slice(head + 4);
      if (Buffer.byteLength(rest) < length) return;
      const fields = text.slice(0, head);
      const cursor = /\r\nx-next-cursor: (.*)/i.exec(fields)?.[1];
      resolve({ status: Number(text.slice(9, 12)), headers: fields.toLowerCase(), body: rest, cursor });
      end();
    });
    const lines = [`${method} ${path} HTTP/1.1`, `Host: ${OUR_ADDRESS}`, 'Connection: close', ...headers];
    socket.write(`${lines.join('\r\n')}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  });
}

export function apiCall(
  { apiKey, accountId }: Tenant,
  method: string,
  path: string,
  body: unknown,
  more: string[] = [],
): Promise<Answer> {
  const headers = [`X-Api-Key: ${apiKey}`, `X-Id: ${accountId}`, ...more];
  const text = body === undefined ? '' : JSON.stringify(body);
  return request(method, path, { headers: [...headers, 'Content-Type: application/json'], body: text });
}

/** Returns the POST /send body of the message. */
export const requestOf = (mail: WantedMail, { domain }: Tenant) => ({
  from: `Shop <orders@${domain}>`,
  to: mail.to,
  subject: mail.key,
  ...(mail.templateId === undefined ? { text: 'x'.repeat(mail.length) } : { templateId: mail.templateId }),
  expiresAfterSeconds: mail.expiresAfterSeconds,
  requireTls: mail.requireTls,
  metadata: { key: mail.key },
  ...(mail.sendAtMs !== undefined && { sendAt: new Date(mail.sendAtMs).toISOString() }),
  ...(mail.retain !== undefined && { retainContent: mail.retain }),
  ...(mail.hasUnsubscribe && { listUnsubscribe: true }),
});

export interface Accepted {
  recipients: { email: string; messageId: string }[];
}

export function noteAccepted(entry: Entry, { recipients }: Accepted): void {
  entry.acknowledged.push(new Map(recipients.map((one) => [one.email, one.messageId])));
  entry.acknowledgedAtMs ??= here().timeline.nowMs;
}

/** Whether a response asks for a retry. */
export const isLater = (status: number): boolean => [409, 429, 500, 503].includes(status);

/** Records a response that acknowledges nothing: unexpected unless it asks for a retry in the words of the contract. */
function noteRefusal({ strange }: Entry, { status, body }: Answer): void {
  const isWorded = status !== 503 || /"(?:OVERLOADED|UNAVAILABLE)"/.test(body);
  if (!isLater(status) || !isWorded) strange.push(`${status} ${body.slice(0, 200)}`);
}

async function sendHttp({ tenants }: Template, entry: Entry): Promise<boolean> {
  const { mail } = entry;
  const tenant = tenants[mail.by];
  const upload = mail.fileBytes > 0 ? await uploaded(tenant, entry) : {};
  if (upload === undefined) return false;
  const body = { ...requestOf(mail, tenant), ...upload };
  const answer = await apiCall(tenant, 'POST', '/send', body, [`Idempotency-Key: ${mail.key}`]);
  if (answer.status === 202) {
    noteAccepted(entry, (JSON.parse(answer.body) as { data: Accepted }).data);
    return true;
  }
  noteRefusal(entry, answer);
  const isSure = answer.status === 503 && !OUTCOME_UNKNOWN.test(answer.body);
  entry.isTurnedAway = isSure && mail.isImpatient && entry.attempts === 1;
  return entry.isTurnedAway;
}

/** The one 503 after which a mail may have been accepted. */
const OUTCOME_UNKNOWN = /cannot tell whether/;

/** Sends another message with the same key, which must be refused; returns true when nothing is left to do. */
async function reuseKey({ tenants }: Template, { mail, strange }: Entry): Promise<boolean> {
  const tenant = tenants[mail.by];
  const body = { ...requestOf(mail, tenant), text: 'another one' };
  const answer = await apiCall(tenant, 'POST', '/send', body, [`Idempotency-Key: ${mail.key}`]);
  if (answer.status !== 422 && !isLater(answer.status)) strange.push(`${answer.status} to another mail under its key`);
  return !isLater(answer.status);
}

interface Registered {
  attachmentSubmissionId: string;
  attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
}

/** Uploads the file; undefined if something failed. An upload that was already used is not an error: its response was lost. */
async function uploaded(tenant: Tenant, entry: Entry): Promise<{ attachmentSubmissionId: string } | undefined> {
  const { mail, strange } = entry;
  const content = fileOf(mail).toString('latin1');
  const sha256 = createHash('sha256').update(content).digest('hex');
  const attachments = [{ name: 'file.txt', contentType: 'text/plain', sizeBytes: mail.fileBytes, sha256 }];
  const answer = await apiCall(tenant, 'POST', '/attachments', { attachments }, [`Idempotency-Key: ${mail.key}`]);
  if (answer.status !== 201) {
    noteRefusal(entry, answer);
    return undefined;
  }
  const { attachmentSubmissionId, attachmentUploads } = JSON.parse(answer.body) as Registered;
  const { uploadUrl, requiredHeaders } = attachmentUploads[0]!;
  const headers = Object.entries(requiredHeaders).map(([name, value]) => `${name}: ${value}`);
  const { hostname, port, pathname, search } = new URL(uploadUrl);
  // Directly to the object store, if there is one.
  const to = search === '' ? US : { host: hostname, port: Number(port) };
  const put = await request('PUT', `${pathname}${search}`, { headers, body: content, to });
  if (put.status !== 200 && put.status !== 403 && !isLater(put.status)) strange.push(`${put.status} to an upload`);
  return put.status === 200 || put.status === 403 ? { attachmentSubmissionId } : undefined;
}

interface BatchResult {
  status: number;
  data?: Accepted;
}

/** Sends several messages in one request, each accepted or not; returns true when all are. */
async function sendBatch({ tenants }: Template, key: string, entries: readonly Entry[]): Promise<boolean> {
  const tenant = tenants[entries[0]!.mail.by];
  const body = { messages: entries.map(({ mail }) => requestOf(mail, tenant)) };
  const answer = await apiCall(tenant, 'POST', '/send/batch', body, [`Idempotency-Key: ${key}`]);
  if (answer.status !== 200) {
    noteRefusal(entries[0]!, answer);
    return false;
  }
  const { results } = JSON.parse(answer.body) as { results: BatchResult[] };
  for (const [at, { status, data }] of results.entries()) {
    if (data) noteAccepted(entries[at]!, data);
    else if (!isLater(status)) entries[at]!.strange.push(`${status} in a batch`);
  }
  return results.every(({ data }) => data !== undefined);
}

/** Returns the replies of a server in order; rejects when the connection ends. */
export function talker(socket: SimSocket | SimTlsSocket) {
  let text = '';
  let broken: Error | undefined;
  let wake: (() => void) | undefined;
  const fail = (error?: Error): void => {
    broken ??= error ?? new Error('closed');
    wake?.();
  };
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    wake?.();
  });
  socket.on('error', fail).on('close', () => fail());
  const reply = async (): Promise<string> => {
    for (;;) {
      const whole = /^(?:\d{3}-.*\r\n)*\d{3} .*\r\n/.exec(text)?.[0];
      if (whole !== undefined) {
        text = text.slice(whole.length);
        return whole;
      }
      if (broken) throw broken;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    ask: (line: string): Promise<string> => {
      socket.write(`${line}\r\n`);
      return reply();
    },
    reply,
  };
}

export class Unexpected extends Error {}

export async function expectCode(code: string, reply: Promise<string>): Promise<string> {
  const said = await reply;
  if (!said.startsWith(code)) throw new Unexpected(said.trim());
  return said;
}

const EIGHT_BIT_FIELDS = [
  'MIME-Version: 1.0',
  'Content-Type: text/plain; charset=utf-8',
  'Content-Transfer-Encoding: 8bit',
];

async function sendSmtp(template: Template, entry: Entry): Promise<boolean> {
  const { mail, strange } = entry;
  const socket = here().network.connect({ host: OUR_ADDRESS, port: SMTP_PORT }, CUSTOMER_ADDRESS);
  const timer = setTimeout(() => socket.destroy(new Error('no answer')), 2 * ANSWER_MS);
  try {
    const plain = talker(socket);
    await expectCode('220', plain.reply());
    await expectCode('250', plain.ask('EHLO customer.example'));
    await expectCode('220', plain.ask('STARTTLS'));
    socket.removeAllListeners('data');
    const { ask } = talker(new SimTlsSocket(socket, { rejectUnauthorized: false }));
    await expectCode('250', ask('EHLO customer.example'));
    const { username, password } = template.smtp;
    const token = Buffer.from(`\0${username}\0${password}`).toString('base64');
    await expectCode('235', ask(`AUTH PLAIN ${token}`));
    await expectCode('250', ask(`MAIL FROM:<orders@${SENDER_DOMAIN}>`));
    for (const to of mail.to) await expectCode('250', ask(`RCPT TO:<${to}>`));
    await expectCode('354', ask('DATA'));
    const header = [`From: orders@${SENDER_DOMAIN}`, `To: ${mail.to.join(', ')}`, `Subject: ${mail.key}`];
    const own = [`Idempotency-Key: ${mail.key}`, `Message-ID: <${mail.key}@${SENDER_DOMAIN}>`];
    const isEightBit = mail.length % 2 === 1;
    if (isEightBit) own.push(...EIGHT_BIT_FIELDS);
    const text = 'x'.repeat(LINE_LENGTH);
    const lines = Array.from({ length: lengthOf(mail) / LINE_LENGTH }, () => text);
    if (isEightBit) lines.push('Grüße');
    const said = await expectCode('250', ask([...header, ...own, '', ...lines, '.'].join('\r\n')));
    const id = /queued as (msg_\w+)/.exec(said)?.[1];
    if (id === undefined) strange.push(said);
    else noteAccepted(entry, { recipients: [{ email: mail.to[0]!, messageId: id }] });
    return true;
  } catch (error) {
    if (error instanceof Unexpected && !/^4\d\d/.test(error.message)) strange.push(error.message);
    return false;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

async function cancel({ tenants }: Template, { mail, acknowledged, cancelled }: Entry): Promise<void> {
  if (mail.cancelAfterMs === undefined) return;
  const { timeline } = here();
  await timeline.wait(mail.cancelAfterMs);
  for (const id of acknowledged.at(-1)?.values() ?? []) {
    const answer = await apiCall(tenants[mail.by], 'POST', `/messages/${id}/cancel`, undefined).catch(() => undefined);
    if (answer?.status === 200) cancelled.set(id, timeline.nowMs);
  }
}

/** Retries until success; gives up after some hours. Returns whether it succeeded. */
export async function untilDone(attempt: () => Promise<boolean>, random: Random): Promise<boolean> {
  for (let times = 0; times < 60; times += 1) {
    if (await attempt().catch(() => false)) return true;
    await here().timeline.wait(Math.min(600_000, 500 * 2 ** times) * random.between(0.5, 1.5));
  }
  return false;
}

/** Sends until it is acknowledged, with the same key. */
export async function sendUntilAcknowledged(template: Template, entry: Entry, random: Random): Promise<void> {
  const send = entry.mail.via === 'http' ? sendHttp : sendSmtp;
  const isSent = await untilDone(() => {
    entry.attempts += 1;
    return send(template, entry);
  }, random);
  entry.isGivenUp = !isSent;
  if (!isSent) return;
  if (entry.mail.isReused && !entry.isTurnedAway) await untilDone(() => reuseKey(template, entry), random);
  if (entry.mail.by === 'sandbox') await untilDone(() => look(template, entry), random);
  else await cancel(template, entry);
}

/** Whether the virtual inbox shows the message. */
async function look({ tenants }: Template, entry: Entry): Promise<boolean> {
  const { key, to } = entry.mail;
  const answer = await apiCall(tenants.sandbox, 'GET', `/sandbox/inbox?subject=${key}`, undefined);
  if (answer.status !== 200) return false;
  const items = JSON.parse(answer.body) as { to: string; subject: string }[];
  entry.isShown = to.every((address) => items.some((one) => one.to === address && one.subject === key));
  return entry.isShown;
}

export async function batchUntilAcknowledged(
  template: Template,
  entries: readonly Entry[],
  { key, random }: { key: string; random: Random },
): Promise<void> {
  if (await untilDone(() => sendBatch(template, key, entries), random)) return;
  for (const entry of entries) entry.isGivenUp = entry.acknowledged.length === 0;
}
