/** A message with separately stored files, composed as acceptance does it, and the expected bytes, created independently. */
import { createHash } from 'node:crypto';
import { composeSkeleton, type MailBySize } from '../../src/mail/compose/compose.ts';
import type { EmailFile } from '../../src/messages/messages.ts';
import type { Blobs } from '../../src/storage/blobs/blobs.ts';

export interface LargeMail {
  /** Everything except the files. */
  content: Buffer;
  files: EmailFile[];
  sizeBytes: number;
  whole(): Buffer;
}

export const LARGE_PARTS: Omit<MailBySize, 'attachments'> = {
  from: { name: 'Shop', address: 'orders@shop.example', local: 'orders', domain: 'shop.example' },
  to: [{ name: '', address: 'a@x.example', local: 'a', domain: 'x.example' }],
  cc: [],
  replyTo: [],
  subject: 'Your files',
  text: 'Hello,\n\nthe files are attached.\n.\n..dots and \ttabs  and spaces \n',
  headers: [],
  messageId: '<large@shop.example>',
  dateMs: Date.UTC(2026, 10, 20),
};

/** Formats Base64 in lines of 76 characters, each with CRLF. */
export function base64Text(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('base64');
  return text === '' ? '' : text.replace(/.{76}(?=.)/g, '$&\r\n').concat('\r\n');
}

/** Stores the files and composes a message with them. */
export async function largeMail(
  blobs: Blobs,
  files: readonly { name?: string; contentType?: string; contentId?: string; bytes: Buffer }[],
  parts: Partial<MailBySize> = {},
): Promise<LargeMail> {
  const attachments = files.map(({ name, contentType, contentId, bytes }, index) => ({
    name: name ?? `file${index}.bin`,
    contentType: contentType ?? 'application/octet-stream',
    sizeBytes: bytes.length,
    ...(contentId === undefined ? {} : { contentId }),
  }));
  const { pieces, order, sizeBytes } = composeSkeleton({ ...LARGE_PARTS, ...parts, attachments });
  const placed: EmailFile[] = [];
  let at = 0;
  for (const [index, number] of order.entries()) {
    at += pieces[index]!.length;
    const { bytes } = files[number]!;
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    placed.push({ at, blobKey: await blobs.put(bytes), sizeBytes: bytes.length, sha256 });
  }
  const whole = (): Buffer =>
    Buffer.concat(
      pieces.flatMap((piece, index) => {
        const number = order[index];
        return number === undefined ? [piece] : [piece, Buffer.from(base64Text(files[number]!.bytes))];
      }),
    );
  return { content: Buffer.concat(pieces), files: placed, sizeBytes, whole };
}
