/**
 * Load of every kind that is stored on the disk: small messages, messages with a file, changing templates, uploads. Each acknowledged
 * response is recorded as a fact: when it was read, and how to check later whether it still holds.
 */
import { createCipheriv, createHash } from 'node:crypto';
import type { Answer, Api } from '../kit/api.ts';
import { register, sendSubmission, upload } from '../kit/upload-client.ts';
import { type Ledger, type Load, smallMail, startLoad } from './ledger.ts';

const FILE_BYTES = 150_000;

export interface Fact {
  what: string;
  /** The key of the message, if the fact is about one. */
  key: string | undefined;
  /** Unix milliseconds at which the response was read. */
  at: number;
  /** Number of cuts before the request started. */
  cutsBefore: number;
  holds(): Promise<boolean>;
}

export interface PowerLoad extends Load {
  facts: Fact[];
}

/** The file of a key: different for every key, and the same at every call. */
export function fileOf(key: string): Buffer {
  const digest = createHash('sha256').update(key).digest();
  const stream = createCipheriv('aes-128-ctr', digest.subarray(0, 16), digest.subarray(16));
  return stream.update(Buffer.alloc(FILE_BYTES));
}

const KINDS = ['small', 'file', 'template', 'upload', 'small', 'file', 'new template', 'file'] as const;

export const kindOf = (key: string): (typeof KINDS)[number] => KINDS[Number(key.replace(/\D/g, '')) % KINDS.length]!;

/** Whether a composed message belongs to the key, to the last byte of its file. */
export function isMailOf(key: string, raw: string): boolean {
  if (!raw.includes(`This is ${key}.`)) return false;
  if (!['file', 'upload'].includes(kindOf(key))) return true;
  return raw.replaceAll(/\r?\n/g, '').includes(fileOf(key).toString('base64'));
}

export interface PowerLoadOptions {
  api: Api;
  ledger: Ledger;
  from: string;
  workers: number;
  /** Number of cuts so far. */
  cuts: () => number;
  /** Resolves when the load may continue. */
  ready: () => Promise<void>;
}

export async function startPowerLoad(options: PowerLoadOptions): Promise<PowerLoad> {
  const { api, ledger, from } = options;
  const facts: Fact[] = [];

  /** Makes the call, and records its promise if it is acknowledged. */
  const promised = async (
    call: () => Promise<Answer>,
    fact: { what: string; key?: string; status: number; holds: (answer: Answer) => Promise<boolean> },
  ): Promise<Answer> => {
    const cutsBefore = options.cuts();
    const answer = await call();
    const at = Date.now();
    const { what, key, status } = fact;
    if (answer.status === status) facts.push({ what, key, at, cutsBefore, holds: () => fact.holds(answer) });
    return answer;
  };

  const isStored = async (key: string, { body }: Answer): Promise<boolean> => {
    const content = await api.get(`/messages/${body.data.messageId}/content`);
    if (content.status !== 200 && content.status !== 404) throw new Error(content.text);
    return content.status === 200 && isMailOf(key, content.text);
  };
  const send = (key: string, call: () => Promise<Answer>): Promise<Answer> =>
    promised(call, { what: `${kindOf(key)} mail`, key, status: 202, holds: (answer) => isStored(key, answer) });
  const post = (key: string, body: object): Promise<Answer> =>
    send(key, () => api.post('/send', body, { 'Idempotency-Key': key }));

  const content = (mark: string) => ({ subject: 'T', text: `This is {{ key }}.\n${mark}` });
  const made = await api.post('/templates', { name: 'receipt', ...content('first') });
  if (made.status !== 201) throw new Error(made.text);
  const { templateId } = made.body;

  const newTemplate = async (key: string): Promise<void> => {
    const holds = async ({ body }: Answer): Promise<boolean> => {
      const version = (await api.get(`/templates/${templateId}/versions`)).body as unknown as { version: number }[];
      return version[0]!.version >= body.version;
    };
    const change = () => api.put(`/templates/${templateId}`, { name: 'receipt', ...content(key) });
    await promised(change, { what: 'template', status: 200, holds });
  };

  const sendUpload = async (key: string): Promise<Answer | undefined> => {
    const mail = smallMail(from, key);
    const bytes = fileOf(key);
    const registered = await register(api, [{ bytes }], key);
    const holds = async (): Promise<boolean> => {
      const { body } = await api.get(`/attachments/${registered.id}`);
      return body.status === 'used' || body.files?.[0]?.status === 'uploaded';
    };
    const put = () => upload(registered, 0, bytes);
    const answer = await promised(put, { what: 'upload', status: 200, holds });
    // 403: an earlier request was accepted, and its response was lost.
    if (answer.status !== 200 && answer.status !== 403) return undefined;
    return send(key, () => sendSubmission(api, registered.id, mail, key));
  };

  const request = async (key: string): Promise<Answer | undefined> => {
    await options.ready();
    const kind = kindOf(key);
    const mail = smallMail(from, key);
    if (kind === 'upload') return sendUpload(key);
    if (kind === 'new template') await newTemplate(key);
    if (kind === 'file') {
      const file = { name: 'file.bin', contentType: 'application/pdf', content: fileOf(key).toString('base64') };
      return post(key, { ...mail, attachments: [file] });
    }
    if (kind === 'small') return post(key, mail);
    return post(key, { from, to: mail.to, templateId, templateVariables: { key } });
  };
  return { ...startLoad({ api, ledger, from, workers: options.workers, prefix: 'p', request }), facts };
}
