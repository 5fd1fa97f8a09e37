/**
 * The logo of an account: a small image at the top of notices. Its type is recognized by its first bytes, whatever the client says. SVG is
 * not accepted, because it can contain scripts and refer to remote content.
 */
import { invalid, ok, type Result, refuse } from '../base/failure.ts';

export const LOGO_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
export type LogoType = (typeof LOGO_TYPES)[number];

export const MAXIMUM_LOGO_BYTES = 65_536;
export const MAXIMUM_LOGO_BASE64 = 4 * Math.ceil(MAXIMUM_LOGO_BYTES / 3);

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

function typeOf(content: Buffer): LogoType | undefined {
  const start = content.toString('latin1', 0, 12);
  if (start.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (start.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  if (start.startsWith('GIF87a') || start.startsWith('GIF89a')) return 'image/gif';
  if (start.startsWith('RIFF') && start.slice(8) === 'WEBP') return 'image/webp';
  return undefined;
}

/** Reads an image in Base64; INVALID_REQUEST if it is too large, or not an image of an accepted type. */
export function readLogo(text: string): Result<{ contentType: LogoType; content: Buffer }> {
  const issue = (message: string) => refuse(invalid([{ field: 'content', message }]));
  if (!BASE64.test(text) || text.length % 4 !== 0) return issue('must be Base64 with padding, without line breaks');
  const content = Buffer.from(text, 'base64');
  if (content.length > MAXIMUM_LOGO_BYTES) return issue(`must be an image of at most ${MAXIMUM_LOGO_BYTES} bytes`);
  const contentType = typeOf(content);
  return contentType === undefined ? issue('must be a PNG, JPEG, GIF, or WebP image') : ok({ contentType, content });
}
