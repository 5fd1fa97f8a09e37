/**
 * Links to one file of a sent email, for clients that fetch `download_url` without a key. A link is signed with a key that is used for
 * nothing else, and it expires. Nothing is stored.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { Readable } from 'node:stream';
import type { Caller } from '../../accounts/accounts.ts';
import { failure, refuse } from '../../base/failure.ts';
import type { Mode } from '../../base/mode.ts';
import { defineRoute, type RouteDefinition } from '../../http/route.ts';
import { readMail } from '../../mail/inbound/read-mail.ts';
import { decodeWhole } from '../../mail/inbound/transfer-decoding.ts';
import { findContentOperation, readContent } from '../../messages/messages.ts';
import { PREFIX, type ResendDoorDeps } from './endpoint.ts';

export interface FileGrant {
  accountId: string;
  mode: Mode;
  messageId: string;
  /** Position of the file in the email, from 0. */
  index: number;
  /** Unix ms. */
  expiresAtMs: number;
}

const FILES_PATH = `${PREFIX}/files/`;
const TOKEN = /^([0-9A-Za-z_-]{1,400})\.([0-9A-Za-z_-]{43})$/;
/** Maximum concurrent downloads, because each reads a complete email into memory. */
const READERS_AT_ONCE = 10;

/** Creates and opens links. `secretKey` is the service's key (32 bytes); the base URL is read at each use. */
export function createFileLinks(base: ResendDoorDeps['linkBase']) {
  const key = Buffer.from(hkdfSync('sha256', base.secretKey, '', 'postrider resend files', 32));
  const sign = (text: string): string => createHmac('sha256', key).update(text).digest('base64url');
  return {
    url: ({ accountId, mode, messageId, index, expiresAtMs }: FileGrant): string => {
      const text = Buffer.from(JSON.stringify([accountId, mode, messageId, index, expiresAtMs])).toString('base64url');
      return `${base.baseUrl}${FILES_PATH}${text}.${sign(text)}`;
    },
    open: (token: string, nowMs: number): FileGrant | undefined => {
      const [, text, signature] = TOKEN.exec(token) ?? [];
      if (text === undefined || signature === undefined) return undefined;
      if (!timingSafeEqual(Buffer.from(signature), Buffer.from(sign(text)))) return undefined;
      const [accountId, mode, messageId, index, expiresAtMs] = JSON.parse(
        Buffer.from(text, 'base64url').toString(),
      ) as [string, Mode, string, number, number];
      return nowMs < expiresAtMs ? { accountId, mode, messageId, index, expiresAtMs } : undefined;
    },
  };
}

const NO_LINK = refuse(failure('NOT_FOUND', { message: 'This link is not valid, or has expired.' }));

/** Reads content completely into memory. */
export async function bytesOf(content: Buffer | Readable): Promise<Buffer> {
  if (Buffer.isBuffer(content)) return content;
  const chunks: Buffer[] = [];
  for await (const chunk of content) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function savedAs(name: string): string {
  return `attachment; filename="${name.replace(/[^\x20-\x7e]|["\\%]/g, '_')}"; filename*=UTF-8''${encodeURIComponent(name)}`;
}

export function fileRoute({ database, blobs, clock, linkBase }: ResendDoorDeps): RouteDefinition<Caller> {
  const links = createFileLinks(linkBase);
  return defineRoute<Caller>({
    method: 'GET',
    path: `${FILES_PATH}:token`,
    tag: 'resend',
    access: { auth: 'none' },
    load: { atOnce: READERS_AT_ONCE },
    summary: 'Download an attachment of a sent email',
    response: { status: 200, contentType: '*/*' },
    async handle({ params }) {
      const grant = links.open(params.token ?? '', clock.now());
      const found = grant && (await database.execute(findContentOperation, grant));
      const content = found && (await readContent(found, blobs));
      if (grant === undefined || content === undefined) return NO_LINK;
      const bytes = await bytesOf(content);
      const file = (await readMail(bytes)).files[grant.index];
      if (file === undefined) return NO_LINK;
      const whole = await decodeWhole(bytes.subarray(file.from, file.to), file.encoding);
      const { offset, length } = file.within ?? { offset: 0, length: whole.length };
      return {
        ok: true,
        contentType: file.contentType,
        content: whole.subarray(offset, offset + length),
        headers: {
          'Content-Security-Policy': "default-src 'none'; sandbox",
          'Content-Disposition': savedAs(file.name),
        },
      };
    },
  });
}
