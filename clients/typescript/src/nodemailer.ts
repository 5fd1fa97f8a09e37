/**
 * A transport for nodemailer: `nodemailer.createTransport(new PostriderTransport({ url, accountId, apiKey }))` hands mail over HTTP
 * instead of SMTP, attachments included, large ones by an upload. What the API cannot carry is refused, never left out.
 */
import { Postrider } from './client.ts';
import type { Email, EmailAttachment } from './emails.ts';
import { PostriderError } from './error.ts';
import type { ClientOptions } from './http.ts';
import type { SendResult } from './schema.ts';

/** `postrider` of a mail: fields of the API that nodemailer has no word for, such as tags, metadata, sendAt and templateId. */
export interface PostriderFields
  extends Omit<Partial<Email>, 'from' | 'to' | 'cc' | 'bcc' | 'replyTo' | 'attachments'> {
  /** The same for every try of the same mail; made here by default. */
  idempotencyKey?: string;
}

interface Address {
  name?: string;
  address?: string;
  group?: Address[];
}

interface MailAttachment {
  filename?: string | false;
  contentType?: string;
  content?: string;
  encoding?: string;
  cid?: string;
}

interface MailData {
  from?: Address | null;
  to?: Address[] | null;
  cc?: Address[] | null;
  bcc?: Address[] | null;
  replyTo?: Address[] | null;
  subject?: string;
  text?: string;
  html?: string;
  attachments?: MailAttachment[];
  normalizedHeaders?: Record<string, string>;
  priority?: string;
  xMailer?: string | false;
  postrider?: PostriderFields;
}

interface Envelope {
  from: string | false;
  to: string[];
}

/** What nodemailer gives to a transport. */
interface NodemailerMessage {
  data: object;
  message: { getEnvelope(): Envelope } | null;
  normalize(done: (error: Error | null, data: MailData) => void): void;
}

export interface PostriderSentInfo {
  envelope: Envelope;
  /** The first recipient's, msg_…. */
  messageId: string;
  accepted: string[];
  /** Addresses on the suppression list. */
  rejected: string[];
  pending: string[];
  response: string;
  /** What the API answered. */
  result: SendResult;
}

/** Fields of nodemailer whose meaning the API has no room for. */
const UNSUPPORTED = [
  'raw',
  'envelope',
  'sender',
  'date',
  'messageId',
  'alternatives',
  'icalEvent',
  'amp',
  'watchHtml',
  'dkim',
];

const PRIORITIES: Record<string, Record<string, string>> = {
  high: { 'X-Priority': '1 (Highest)', 'X-MSMail-Priority': 'High', Importance: 'High' },
  low: { 'X-Priority': '5 (Lowest)', 'X-MSMail-Priority': 'Low', Importance: 'Low' },
};

function unsupported(what: string): PostriderError {
  return new PostriderError(`${what} cannot be sent over the API; send this mail over SMTP.`, {
    code: 'INVALID_REQUEST',
  });
}

function textOf({ name, address, group }: Address): string[] {
  if (group !== undefined) return group.flatMap(textOf);
  if (!address) return [];
  return [name ? `"${name.replaceAll(/["\\]/g, '\\$&')}" <${address}>` : address];
}

const listOf = (addresses: Address[] | null | undefined): string[] => (addresses ?? []).flatMap(textOf);

function attachmentOf({ filename, contentType, content = '', encoding, cid }: MailAttachment): EmailAttachment {
  return {
    name: filename || 'attachment',
    contentType: contentType ?? 'application/octet-stream',
    // Normalized: bytes are Base64, and any other content is text.
    content: encoding === 'base64' ? content : new TextEncoder().encode(content),
    ...(cid === undefined ? {} : { contentId: cid }),
  };
}

function emailOf(data: MailData): Email {
  const { idempotencyKey, headers, ...fields } = data.postrider ?? {};
  const { priority = '', xMailer } = data;
  const extra = {
    ...data.normalizedHeaders,
    ...PRIORITIES[priority.toLowerCase()],
    ...(typeof xMailer === 'string' ? { 'X-Mailer': xMailer } : {}),
    ...headers,
  };
  const [from] = data.from ? textOf(data.from) : [];
  const lists = { to: listOf(data.to), cc: listOf(data.cc), bcc: listOf(data.bcc), replyTo: listOf(data.replyTo) };
  const attachments = (data.attachments ?? []).map(attachmentOf);
  return {
    ...(from === undefined ? {} : { from }),
    ...Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)),
    ...(data.subject === undefined ? {} : { subject: data.subject }),
    ...(data.text ? { text: data.text } : {}),
    ...(data.html ? { html: data.html } : {}),
    ...(attachments.length === 0 ? {} : { attachments }),
    ...(Object.keys(extra).length === 0 ? {} : { headers: extra }),
    // What is handed over is what was written: no variables, unless they are asked for.
    render: false,
    ...fields,
  };
}

function infoOf(result: SendResult, envelope: Envelope): PostriderSentInfo {
  const emails = (isSuppressed: boolean): string[] =>
    result.recipients.filter(({ status }) => (status === 'suppressed') === isSuppressed).map(({ email }) => email);
  const { messageId } = result;
  const outcomes = { accepted: emails(false), rejected: emails(true), pending: [] };
  return { envelope, messageId, ...outcomes, response: `202 ${result.status} as ${messageId}`, result };
}

export class PostriderTransport {
  readonly name = 'Postrider';
  readonly version = '0.1.0';
  readonly client: Postrider;

  constructor(options: ClientOptions | Postrider) {
    this.client = options instanceof Postrider ? options : new Postrider(options);
  }

  send(mail: NodemailerMessage, done: (error: Error | null, info: PostriderSentInfo) => void): void {
    this.#send(mail).then(
      (info) => done(null, info),
      (error: Error) => done(error, undefined as never),
    );
  }

  /** Whether the service is there and takes the key; answers a callback, or a promise without one. */
  verify(done?: (error: Error | null, success?: true) => void): Promise<true> | undefined {
    const checked = this.#check();
    if (done === undefined) return checked;
    checked.then(() => done(null, true), done);
    return undefined;
  }

  async #check(): Promise<true> {
    try {
      await this.client.account.get();
    } catch (error) {
      // A key of scope send may not read the account, and is good.
      if (!(error instanceof PostriderError) || error.code !== 'FORBIDDEN') throw error;
    }
    return true;
  }

  async #send(mail: NodemailerMessage): Promise<PostriderSentInfo> {
    const given = mail.data as Record<string, unknown>;
    const refused = UNSUPPORTED.find((name) => given[name] !== undefined && given[name] !== null);
    if (refused !== undefined) throw unsupported(`The field ${refused}`);
    for (const one of (given.attachments ?? []) as { raw?: unknown; headers?: unknown }[]) {
      if (one.raw !== undefined || one.headers !== undefined) throw unsupported('An attachment with raw or headers');
    }
    const envelope = mail.message!.getEnvelope();
    const data = await new Promise<MailData>((resolve, reject) => {
      mail.normalize((error, normalized) => (error ? reject(error) : resolve(normalized)));
    });
    const key = data.postrider?.idempotencyKey;
    const result = await this.client.emails.send(emailOf(data), key === undefined ? {} : { idempotencyKey: key });
    return infoOf(result, envelope);
  }
}
