/** Streams messages and attachments from storage. */
import { Readable } from 'node:stream';
import { failure, refuse } from '../base/failure.ts';
import type { ContentAnswer, RouteAnswer } from '../http/route.ts';
import { findInboundOperation } from '../inbound/inbound.ts';
import type { MailFile } from '../mail/inbound/read-mail.ts';
import { decodeStream } from '../mail/inbound/transfer-decoding.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import type { Database } from '../storage/database.ts';
import type { InboundMessage } from './message-store.ts';

/** Anyone can write the content, so a browser must not run its scripts. */
const NOT_RUN = { 'Content-Security-Policy': "default-src 'none'; sandbox" };
const GONE = refuse(failure('NOT_FOUND', { message: 'The content of this message has been deleted.' }));
const NO_FILE = refuse(failure('NOT_FOUND', { message: 'This message has no such attachment.' }));

type MailKey = Pick<InboundMessage, 'id' | 'accountId' | 'mode'>;

interface Kept {
  database: Database;
  blobs: Blobs;
}

async function openContent(
  { database, blobs }: Kept,
  { id, accountId, mode }: MailKey,
): Promise<Buffer | Readable | undefined> {
  const found = await database.execute(findInboundOperation, { id, accountId, mode });
  if (!found) return undefined;
  return found.blobKey === null
    ? found.content === null
      ? undefined
      : Buffer.from(found.content)
    : blobs.read(found.blobKey);
}

/** Returns the complete message, byte for byte; browsers download it and never display it. */
export async function rawAnswer(kept: Kept, mail: MailKey): Promise<RouteAnswer> {
  const content = await openContent(kept, mail);
  if (content === undefined) return GONE;
  return { ok: true, contentType: 'message/rfc822', content, headers: savedAs(`${mail.id}.eml`) };
}

/** Returns one attachment, decoded; browsers download it and never display it. */
export async function fileAnswer(kept: Kept, mail: InboundMessage, number: number): Promise<RouteAnswer> {
  const file = (JSON.parse(mail.files) as MailFile[])[number];
  if (file === undefined) return NO_FILE;
  const content = await openContent(kept, mail);
  if (content === undefined) return GONE;
  const bytes = Buffer.isBuffer(content) ? Readable.from([content]) : content;
  const encoded = range(bytes, { from: file.from, to: file.to });
  const whole = decodeStream(encoded, file.encoding);
  const { offset = 0, length = 0 } = file.within ?? {};
  const wanted = file.within ? range(whole, { from: offset, to: offset + length }) : whole;
  const decoded = Readable.from(wanted, { objectMode: false });
  decoded.once('close', () => bytes.destroy());
  return {
    ok: true,
    contentType: file.contentType,
    content: decoded,
    headers: savedAs(file.name),
  } satisfies ContentAnswer;
}

function savedAs(name: string): Record<string, string> {
  const ascii = name.replace(/[^\x20-\x7e]|["\\%]/g, '_');
  const coded = encodeURIComponent(name).replace(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return { ...NOT_RUN, 'Content-Disposition': `attachment; filename="${ascii}"; filename*=UTF-8''${coded}` };
}

async function* range(
  source: AsyncIterable<Buffer>,
  { from, to }: { from: number; to: number },
): AsyncGenerator<Buffer> {
  let at = 0;
  for await (const chunk of source) {
    const begin = Math.max(0, from - at);
    const end = Math.min(chunk.length, to - at);
    if (begin < end) yield chunk.subarray(begin, end);
    at += chunk.length;
    if (at >= to) return;
  }
}
