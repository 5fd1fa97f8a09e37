/** Shared by rows with large files: registering a manifest, uploading a file, and a service configured for them. */
import { createHash } from 'node:crypto';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './lib.ts';
import { type BenchService, startService } from './service.ts';

const MAIN = fileURLToPath(new URL('../bin/postrider.js', import.meta.url));

/** Starts a service whose account may send 40,000,000 bytes. */
export async function startLargeService(environment: Record<string, string>): Promise<BenchService> {
  const service = await startService(environment);
  const env = { PATH: process.env.PATH, POSTRIDER_DATA_DIR: service.folder };
  const args = ['account', 'set', service.headers['x-id']!, '--email-limit', '40000000'];
  const raised = await run(process.execPath, [MAIN, ...args], { env, cwd: path.dirname(MAIN) });
  if (raised.process.exitCode !== 0) throw new Error(raised.err);
  for (;;) {
    const answer = await call(service, 'GET', '/account');
    if (JSON.stringify(answer).includes('40000000')) return service;
  }
}

/** Sends one JSON request; throws on anything except 2xx. */
export async function call<T>(service: BenchService, method: string, where: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${service.url}${where}`, {
    method,
    headers: { ...service.headers, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${where}: ${answer.status} ${text}`);
  return JSON.parse(text) as T;
}

export interface Registered {
  submissionId: string;
  url: string;
  headers: Record<string, string>;
}

export async function register(service: BenchService, bytes: Buffer): Promise<Registered> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const file = { name: 'file.bin', contentType: 'application/octet-stream', sizeBytes: bytes.length, sha256 };
  const made = await call<{
    attachmentSubmissionId: string;
    attachmentUploads: { uploadUrl: string; requiredHeaders: Record<string, string> }[];
  }>(service, 'POST', '/attachments', { attachments: [file] });
  const { uploadUrl, requiredHeaders } = made.attachmentUploads[0]!;
  const { pathname, search } = new URL(uploadUrl);
  const url = `${service.url}${pathname}${search}`;
  return { submissionId: made.attachmentSubmissionId, url, headers: requiredHeaders };
}

/** Uploads the bytes over a separate connection; rejects on anything except 200. */
export function upload(url: string, headers: Record<string, string>, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = http.request(url, {
      method: 'PUT',
      headers: { ...headers, 'content-length': bytes.length },
      agent: false,
    });
    sent.on('error', reject);
    sent.on('response', (answer) => {
      answer.resume().on('end', () => {
        if (answer.statusCode === 200) resolve();
        else reject(new Error(`upload: ${answer.statusCode}`));
      });
    });
    sent.end(bytes);
  });
}
