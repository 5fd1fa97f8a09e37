/**
 * The parts of the upload flow as a client creates them: manifests of bytes, and PUTs exactly as a test wants them, including invalid ones.
 * Returns every response with its status; rejects if the connection breaks.
 */
import { createHash, randomBytes } from 'node:crypto';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { Answer, JsonObject } from './api.ts';

export interface ManifestEntry {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Returns `sizeBytes` random bytes. */
export const someBytes = (sizeBytes: number): Buffer => randomBytes(sizeBytes);

export function manifestEntry(bytes: Uint8Array, changes: Partial<ManifestEntry> = {}): ManifestEntry {
  const described = { name: 'report.pdf', contentType: 'application/pdf', sizeBytes: bytes.length };
  return { ...described, sha256: sha256(bytes), ...changes };
}

export interface Put {
  /** Port instead of that of the URL. */
  port?: number;
  url: string;
  headers?: Record<string, string | string[]>;
  method?: string;
  /** The body; pieces are sent one by one, chunked. A Buffer is sent with its Content-Length. */
  body?: Buffer | AsyncIterable<Uint8Array>;
  /** Sends Expect: 100-continue, and the body only when asked to. */
  waitForContinue?: boolean;
}

export interface PutAnswer extends Answer {
  /** Whether 100 Continue was received. */
  continued: boolean;
}

/** Sends one request to an upload URL. */
export function put(one: Put): Promise<PutAnswer> {
  const url = new URL(one.url);
  const { body } = one;
  const headers: Record<string, string | string[]> = { ...one.headers };
  if (Buffer.isBuffer(body) && headers['Content-Length'] === undefined) headers['Content-Length'] = String(body.length);
  if (one.waitForContinue) headers.Expect = '100-continue';
  // Unchanged: test modifications of the URL are not normalized.
  const path = one.url.slice(url.origin.length);
  const port = one.port ?? url.port;
  return new Promise((resolve, reject) => {
    let continued = false;
    const sent = httpRequest({ host: '127.0.0.1', port, path, method: one.method ?? 'PUT', headers, agent: false });
    sent.on('error', reject);
    sent.on('response', (answer) => {
      read(answer).then((text) => {
        resolve({ status: answer.statusCode ?? 0, headers: flat(answer), text, body: parsed(text), continued });
      }, reject);
    });
    const send = (): void => {
      if (body === undefined || Buffer.isBuffer(body)) sent.end(body);
      else
        void pump(body, sent).catch((error: Error) => {
          sent.destroy();
          reject(error);
        });
    };
    if (one.waitForContinue) {
      sent.on('continue', () => {
        continued = true;
        send();
      });
      sent.flushHeaders();
    } else send();
  });
}

async function pump(body: AsyncIterable<Uint8Array>, sent: ReturnType<typeof httpRequest>): Promise<void> {
  for await (const piece of body) {
    if (sent.destroyed || sent.writableEnded) return;
    if (!sent.write(piece)) await writable(sent);
  }
  sent.end();
}

function writable(sent: ReturnType<typeof httpRequest>): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      sent.off('drain', done).off('close', done);
      resolve();
    };
    sent.on('drain', done).on('close', done);
  });
}

async function read(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function flat(answer: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]));
}

function parsed(text: string): JsonObject {
  try {
    return (JSON.parse(text || '{}') ?? {}) as JsonObject;
  } catch {
    return {};
  }
}
