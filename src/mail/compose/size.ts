/**
 * Sizes of composed mail, computed exactly before anything is built: what `compose` would write, without reading a file.
 */
import { type ComposedFrame, composeFrame, type MailFrame } from './compose.ts';

export { base64SizeBytes } from './transfer-encoding.ts';

/** Size in bytes of the mail that `compose` writes for the same input, attachments known by their size only. */
export function composedSizeBytes(mail: MailFrame): number {
  const frame: ComposedFrame = composeFrame(mail);
  return frame.sizeBytes;
}
