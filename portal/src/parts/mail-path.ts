import type { Mode } from '../api.ts';

/** Returns the page of the sent or inbound message that an event is about. */
export function pathOfMail(mode: Mode, messageId: string): string {
  return `/app/${mode}/${messageId.startsWith('inb_') ? 'inbound' : 'messages'}/${messageId}`;
}
