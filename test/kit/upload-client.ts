/**
 * A client of the upload flow for the running service: registers manifests, uploads and sends step by step, so that a test can stop, repeat
 * or damage any step.
 */
import type { Answer, Api, JsonObject } from './api.ts';
import { type ManifestEntry, manifestEntry, type PutAnswer, put } from './upload.ts';

export interface FileToUpload {
  bytes: Buffer;
  name?: string;
  contentType?: string;
}

export interface Registered {
  id: string;
  expiresAt: number;
  uploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
}

const keyHeader = (key?: string): Record<string, string> => (key === undefined ? {} : { 'Idempotency-Key': key });

export function entryOf({ bytes, name = 'file.bin', contentType = 'application/pdf' }: FileToUpload): ManifestEntry {
  return manifestEntry(bytes, { name, contentType });
}

/** POST /attachments; throws unless the status is 201. */
export async function register(api: Api, files: readonly FileToUpload[], key?: string): Promise<Registered> {
  const answer = await api.post('/attachments', { attachments: files.map(entryOf) }, keyHeader(key));
  if (answer.status !== 201) throw new Error(answer.text);
  const { attachmentSubmissionId: id, expiresAt, attachmentUploads: uploads } = answer.body;
  return { id, expiresAt, uploads };
}

/** PUT of one file of a submission. */
export function upload(registered: Registered, number: number, bytes: Buffer): Promise<PutAnswer> {
  const { uploadUrl, requiredHeaders } = registered.uploads[number]!;
  return put({ url: uploadUrl, headers: requiredHeaders, body: bytes });
}

/** Registers and uploads; throws unless every PUT returns 200. */
export async function uploadAll(api: Api, files: readonly FileToUpload[], key?: string): Promise<Registered> {
  const registered = await register(api, files, key);
  const answers = await Promise.all(files.map((file, number) => upload(registered, number, file.bytes)));
  for (const answer of answers) if (answer.status !== 200) throw new Error(answer.text);
  return registered;
}

/** POST /send with a submission. */
export function sendSubmission(api: Api, id: string, mail: JsonObject, key?: string): Promise<Answer> {
  return api.post('/send', { ...mail, attachmentSubmissionId: id }, keyHeader(key));
}
