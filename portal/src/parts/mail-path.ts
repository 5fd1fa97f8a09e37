import type { Mode } from '../api.ts';

/** The page of a mail that an event is about: one that was sent, or one that came in. */
export function pathOfMail(mode: Mode, messageId: string): string {
  return `/app/${mode}/${messageId.startsWith('inb_') ? 'inbound' : 'messages'}/${messageId}`;
}
