/**
 * Parses a message into HTML, text, headers and files. Loaded on demand. Inline images are embedded as data, since the frame may not make
 * requests.
 */
import PostalMime, { type Attachment } from 'postal-mime';

export interface MailFile {
  name: string | undefined;
  type: string;
  bytes: Uint8Array<ArrayBuffer>;
}

export interface MailParts {
  html: string | undefined;
  text: string | undefined;
  headers: string;
  files: MailFile[];
}

/** SVG can contain scripts; the frame runs none, and does not get any. */
const SHOWN_INLINE = /^image\/(png|jpeg|gif|webp|bmp|avif)$/i;

function bytesOf({ content }: Attachment): Uint8Array<ArrayBuffer> {
  return new Uint8Array(typeof content === 'string' ? new TextEncoder().encode(content) : content);
}

function base64(bytes: Uint8Array): string {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(binary);
}

function withInlineImages(html: string, attachments: readonly Attachment[]): string {
  const images = new Map(
    attachments
      .filter(({ contentId, mimeType }) => contentId !== undefined && SHOWN_INLINE.test(mimeType))
      .map((one) => [one.contentId!.replace(/^<|>$/g, ''), one]),
  );
  return html.replace(/cid:([^"'\s)>]+)/gi, (whole, id: string) => {
    const image = images.get(id);
    return image === undefined ? whole : `data:${image.mimeType};base64,${base64(bytesOf(image))}`;
  });
}

/** Returns everything before the first empty line, unchanged. */
function headersOf(raw: Uint8Array): string {
  const text = new TextDecoder().decode(raw.subarray(0, 200_000));
  return text.slice(0, text.search(/\r?\n\r?\n|$/));
}

export async function takeApart(raw: Uint8Array<ArrayBuffer>): Promise<MailParts> {
  const mail = await new PostalMime({ attachmentEncoding: 'arraybuffer' }).parse(raw);
  return {
    html: mail.html === undefined ? undefined : withInlineImages(mail.html, mail.attachments),
    text: mail.text,
    headers: headersOf(raw),
    files: mail.attachments.map((one) => ({
      name: one.filename ?? undefined,
      type: one.mimeType,
      bytes: bytesOf(one),
    })),
  };
}
