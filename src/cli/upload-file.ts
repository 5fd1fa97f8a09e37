/** PUT of a local file to an upload URL: streamed, with its length, and cut when nothing moves any more. */
import { createReadStream } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { CommandError } from './command.ts';
import type { LocalFile } from './send-files.ts';

const STALL_MS = 60_000;
const ANSWER_CHARACTERS = 4_000;

export interface UploadAnswer {
  status: number;
  /** Its beginning: a refusal of Postrider, or of the storage that the URL belongs to. */
  text: string;
}

/** Resolves with whatever the server answers; throws NO_ANSWER when it gives none. */
export function uploadFile(
  file: LocalFile,
  upload: { uploadUrl: string; requiredHeaders: Record<string, string> },
  onBytes: (count: number) => void,
): Promise<UploadAnswer> {
  const url = new URL(upload.uploadUrl);
  const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const headers = { ...upload.requiredHeaders, 'Content-Length': String(file.sizeBytes) };
    const sent = request(url, { method: 'PUT', headers, agent: false, timeout: STALL_MS });
    const content = createReadStream(file.path, { end: Math.max(0, file.sizeBytes - 1) });
    const fail = (error: Error & { code?: string }): void => {
      content.destroy();
      sent.destroy();
      const what = `the upload of ${file.name} broke off (${error.code ?? error.message})`;
      reject(new CommandError('NO_ANSWER', `${what}; repeat the same command to continue it`));
    };
    sent.on('timeout', () => fail(new Error('nothing moved for a minute')));
    sent.on('error', fail);
    sent.on('response', (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        if (text.length < ANSWER_CHARACTERS) text += chunk;
      });
      answer.on('error', fail);
      answer.on('end', () => {
        // An answer before the end of the file is a refusal: the rest is not wanted.
        content.destroy();
        sent.destroy();
        resolve({ status: answer.statusCode ?? 0, text });
      });
    });
    content.on('error', fail);
    content.on('data', (chunk) => onBytes(chunk.length));
    if (file.sizeBytes === 0) sent.end();
    else content.pipe(sent);
  });
}
