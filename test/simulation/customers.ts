/**
 * The customers of the world: they send over HTTP and SMTP, and repeat with the same key what got no answer, as the contract tells them
 * to. What was acknowledged to them goes into the ledger; they never look behind the answers.
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
  /** Unix ms; undefined at once. Over HTTP alone. */
  sendAtMs: number | undefined;
  /** The customer cancels what is acknowledged so long after that. */
  cancelAfterMs: number | undefined;
  /** That two requests go out at the same moment. */
  isDoubled: boolean;
  /** That the customer gives up where the first answer is a 503. */
  isImpatient: boolean;
  /** That another mail is sent under the same key, once this one is acknowledged. */
  isReused: boolean;
  /** Of a file that is uploaded before the mail is sent; 0 for none. */
  fileBytes: number;
  /** How long its content is kept, where the customer says so. */
  retain?: 'none' | '7d';
  /** Of the template that has its text, in place of its own. */
  templateId?: string;
}

/** What the file of a mail holds. */
export const fileOf = ({ key, fileBytes }: WantedMail): Buffer => Buffer.alloc(fileBytes, `the file of ${key} `);

const LINE_LENGTH = 70;

/** Characters that have to come to the recipient; lines are whole where they are submitted as such. */
export const lengthOf = ({ via, length }: WantedMail): number =>
  via === 'http' ? length : Math.ceil(length / LINE_LENGTH) * LINE_LENGTH;

/** What a customer knows of a mail. */
export interface Entry {
  mail: WantedMail;
  attempts: number;
  /** Message ids by recipient, as they were acknowledged; each answer must say the same. */
  acknowledged: Map<string, string>[];
  /** When it was first acknowledged, virtual ms. */
  acknowledgedAtMs: number | undefined;
  /** Message ids whose cancellation was acknowledged, with the time. */
  cancelled: Map<string, number>;
  /** That the virtual inbox showed it; of mail in the sandbox alone. */
  isShown: boolean;
  /** That the customer tried for hours, and was never acknowledged. */
  isGivenUp: boolean;
  /** That a 503 said that nothing was accepted, and the customer left it at that. */
  isTurnedAway: boolean;
  /** Times that a request to move it named, Unix ms; once one is acknowledged that alone. */
  movedToMs: number[];
  /** How often it may have been sent again, and the messages of that. */
  resends: number;
  resentIds: string[];
  /** That its recipient was let off the suppression list before. */
  isWelcome: boolean;
  /** Answers that no customer should see. */
  strange: string[];
}

/** A mail of which nothing has happened yet. */
export const newEntry = (mail: WantedMail): Entry => ({
  ...{ mail, attempts: 0, acknowledged: [], acknowledgedAtMs: undefined, cancelled: new Map() },
  ...{ isShown: false, isGivenUp: false, isTurnedAway: false, strange: [] },
  ...{ movedToMs: [], resends: 0, resentIds: [], isWelcome: false },
});

export interface Answer {
  status: number;
  headers: string;
  body: string;
  /** Of the next page, or of what follows in a log. */
  cursor: string | undefined;
}

const ANSWER_MS = 60_000;

const US = { host: OUR_ADDRESS, port: HTTP_PORT };

/** One request on a connection of its own, to us or to who is named; rejects when no whole answer came. */
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

/** What asks for the mail, as POST /send has it. */
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
});

export interface Accepted {
  recipients: { email: string; messageId: string }[];
}

export function noteAccepted(entry: Entry, { recipients }: Accepted): void {
  entry.acknowledged.push(new Map(recipients.map((one) => [one.email, one.messageId])));
  entry.acknowledgedAtMs ??= here().timeline.nowMs;
}

/** Answers that ask to come again. */
export const isLater = (status: number): boolean => [409, 429, 500, 503].includes(status);

/** An answer that acknowledges nothing: strange unless it asks to come again, in the words of the contract. */
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

/** Another mail under the same key, which is refused; true when there is nothing more to do. */
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

/** The file is where the send can name it; undefined where something failed. An upload that was used is no fault: the answer was lost. */
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
  // To the store itself, where there is one.
  const to = search === '' ? US : { host: hostname, port: Number(port) };
  const put = await request('PUT', `${pathname}${search}`, { headers, body: content, to });
  if (put.status !== 200 && put.status !== 403 && !isLater(put.status)) strange.push(`${put.status} to an upload`);
  return put.status === 200 || put.status === 403 ? { attachmentSubmissionId } : undefined;
}

interface BatchResult {
  status: number;
  data?: Accepted;
}

/** Several mails in one request, each of which is accepted or not; true when all of them are. */
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

/** Replies of a server, one after the other; rejects when the connection ends. */
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
    const text = 'x'.repeat(LINE_LENGTH);
    const lines = Array.from({ length: lengthOf(mail) / LINE_LENGTH }, () => text);
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

/** Tries until it succeeds; gives up after some hours, as people do. Says whether it did. */
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

/** Whether the virtual inbox shows the mail. */
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
