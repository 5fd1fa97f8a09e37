/** Submits messages to the reader as a session does: in pieces, to a sink that keeps the result. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createSubmissionReader, type SubmissionResult, type SubmittedMail } from '../../src/mail/mime/submitted.ts';

export const SUBMITTED_AT = Date.UTC(2026, 10, 20, 9, 44);
export const MAX_BYTES = 2_000_000;
/** Fields that need no edit; tests append theirs. */
export const GOOD = 'From: Ann <ann@shop.example>\r\nDate: x\r\nMessage-ID: <1@shop.example>\r\n';

export interface Submitted {
  result: SubmissionResult;
  content: Buffer;
}

/** Submits in pieces of these sizes, repeating the last size. */
export function submit(mail: Buffer | string, sizes: readonly number[] = [Number.MAX_SAFE_INTEGER]): Submitted {
  const bytes = Buffer.isBuffer(mail) ? mail : Buffer.from(mail);
  const sunk: Buffer[] = [];
  const reader = createSubmissionReader({
    sink: (chunk) => sunk.push(chunk),
    nowMs: SUBMITTED_AT,
    maxBytes: MAX_BYTES,
    hostname: 'mx.host.example',
  });
  for (let at = 0, i = 0; at < bytes.length; i += 1) {
    const size = Math.max(1, sizes[Math.min(i, sizes.length - 1)]!);
    reader.write(bytes.subarray(at, at + size));
    at += size;
  }
  assert.equal(reader.sizeBytes, bytes.length);
  return { result: reader.end(), content: Buffer.concat(sunk) };
}

/** Returns the message, which must be accepted. */
export function accepted(mail: Buffer | string): SubmittedMail & { content: Buffer } {
  const { result, content } = submit(mail);
  assert.ok(result.ok, result.ok ? '' : result.refusal.text);
  return { ...result.mail, content };
}

/** Returns the refusal of a message that must be refused: `550 5.6.0 text`. */
export function refusal(mail: Buffer | string): string {
  const { result } = submit(mail);
  assert.ok(!result.ok, 'the message was accepted');
  const { code, enhanced, text } = result.refusal;
  assert.match(text, /^[\x20-\x7e]{10,400}$/);
  return `${code} ${enhanced} ${text}`;
}

/** Returns the messages of test/corpus, each with its file name. */
export function corpus(): { name: string; content: Buffer }[] {
  const folder = new URL('../corpus/', import.meta.url);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.eml'))
    .sort()
    .map((name) => ({ name, content: readFileSync(new URL(name, folder)) }));
}

/** Returns the expected edits, computed independently of the reader: line by line, as text. */
export function expectedEdit(mail: Buffer): RegExp {
  const text = mail.toString('latin1');
  const end = text.indexOf('\r\n\r\n');
  const header = end < 0 ? text : text.slice(0, end + 2);
  const kept: string[] = [];
  let cutting = false;
  for (const line of header.split(/(?<=\n)/)) {
    if (!/^[ \t]/.test(line)) {
      cutting = /^(bcc|resent-bcc|return-path|idempotency-key|x-sandbox-outcome|x-postrider-[^:]*):/i.test(line);
    }
    if (!cutting) kept.push(line);
  }
  const quoted = (one: string) => RegExp.escape(one);
  let pattern = `^${quoted(kept.join(''))}`;
  if (!/^date:/im.test(header)) pattern += quoted('Date: Fri, 20 Nov 2026 09:44:00 +0000\r\n');
  if (!/^message-id:/im.test(header)) pattern += 'Message-ID: <[0-9A-Za-z.]+@[a-z.]+>\r\n';
  return new RegExp(`${pattern}${quoted(end < 0 ? '\r\n' : text.slice(end + 2))}$`);
}
