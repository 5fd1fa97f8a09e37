/**
 * Reads and sends the local files of an email: inline as Base64, in a manifest with digests, or by PUT to an upload URL. Also draws the
 * progress line on stderr, which is displayed only on a terminal.
 */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, statSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import path from 'node:path';
import { request as httpRequest } from '../net/node-http.ts';
import { CommandError, type Streams } from './command.ts';
import { networkReason } from './network-error.ts';

const CONTENT_TYPES: Record<string, string> = {
  '.csv': 'text/csv',
  '.gif': 'image/gif',
  '.html': 'text/html',
  '.ics': 'text/calendar',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.json': 'application/json',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
  '.xml': 'application/xml',
  '.zip': 'application/zip',
};

export interface LocalFile {
  path: string;
  name: string;
  contentType: string;
  sizeBytes: number;
}

export interface ManifestItem {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
}

/** Returns the properties of the file; throws NO_FILE if it cannot be read. */
export function localFile(file: string): LocalFile {
  let stats: ReturnType<typeof statSync>;
  try {
    stats = statSync(file);
  } catch {
    throw new CommandError('NO_FILE', `${file} cannot be read; check its path and permissions`);
  }
  if (!stats.isFile()) throw new CommandError('NO_FILE', `${file} is not a file`);
  const contentType = CONTENT_TYPES[path.extname(file).toLowerCase()] ?? 'application/octet-stream';
  return { path: file, name: path.basename(file), contentType, sizeBytes: stats.size };
}

/** Returns an item of `attachments` in POST /send. */
export function inlineAttachment(file: LocalFile): { name: string; contentType: string; content: string } {
  const { name, contentType } = file;
  return { name, contentType, content: readFileSync(file.path).toString('base64') };
}

/** Reads the file and returns its item in the manifest of POST /attachments. */
export async function manifestItem(file: LocalFile, onBytes: (count: number) => void): Promise<ManifestItem> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of createReadStream(file.path)) {
    const bytes = chunk as Buffer;
    hash.update(bytes);
    sizeBytes += bytes.length;
    onBytes(bytes.length);
  }
  const { name, contentType } = file;
  return { name, contentType, sizeBytes, sha256: hash.digest('hex') };
}

const STALL_MS = 60_000;
const ANSWER_CHARACTERS = 4_000;

export interface UploadAnswer {
  status: number;
  /** Start of the response: an error of Postrider, or of the storage behind the URL. */
  text: string;
}

/** Resolves with any response of the server; throws NO_ANSWER if there is none. */
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
      const what = `the upload of ${file.name} was interrupted (${networkReason(error)})`;
      reject(new CommandError('NO_ANSWER', `${what}; repeat the same command to resume it`));
    };
    sent.on('timeout', () => fail(new Error('no data was transferred for a minute')));
    sent.on('error', fail);
    sent.on('response', (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        if (text.length < ANSWER_CHARACTERS) text += chunk;
      });
      answer.on('error', fail);
      answer.on('end', () => {
        // A response before the end of the file is a refusal, so the upload stops.
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

const REDRAW_MS = 100;
const BAR_CHARACTERS = 24;
export const ERASE_LINE = '\r\u001b[K';

interface Progress {
  /** Displays that this many bytes are done. */
  show(doneBytes: number): void;
  /** Removes the line. */
  end(): void;
}

function megabytes(bytes: number): string {
  return (bytes / 1_000_000).toFixed(1);
}

/** Returns the progress line for `doneBytes` of `totalBytes`, `seconds` after `fromBytes` were done. */
export function progressLine(
  label: string,
  at: { doneBytes: number; totalBytes: number; fromBytes: number; seconds: number },
): string {
  const share = at.totalBytes === 0 ? 1 : at.doneBytes / at.totalBytes;
  const filled = Math.floor(share * BAR_CHARACTERS);
  const bar = '#'.repeat(filled) + '.'.repeat(BAR_CHARACTERS - filled);
  const percent = `${Math.floor(share * 100)}%`.padStart(4);
  const rate = at.seconds > 0 ? `  ${megabytes((at.doneBytes - at.fromBytes) / at.seconds)} MB/s` : '';
  return `${label} [${bar}] ${percent}  ${megabytes(at.doneBytes)} of ${megabytes(at.totalBytes)} MB${rate}`;
}

/** Starts a progress line. `fromBytes` were already uploaded by an earlier run. */
export function startProgress(
  streams: Streams,
  label: string,
  { totalBytes, fromBytes = 0 }: { totalBytes: number; fromBytes?: number },
): Progress {
  if (streams.errIsTerminal !== true) return { show: () => undefined, end: () => undefined };
  const startedMs = performance.now();
  let drawn = Number.NEGATIVE_INFINITY;
  return {
    show: (doneBytes) => {
      const now = performance.now();
      if (now - drawn < REDRAW_MS && doneBytes < totalBytes) return;
      drawn = now;
      const seconds = (now - startedMs) / 1000;
      streams.err(`${ERASE_LINE}${progressLine(label, { doneBytes, totalBytes, fromBytes, seconds })}`);
    },
    end: () => streams.err(ERASE_LINE),
  };
}
