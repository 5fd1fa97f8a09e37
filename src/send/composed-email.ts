/** One composed email, the same bytes for all of its recipients: what every way to submit mail ends in, and is accepted from. */
import type { Address } from '../mail/address.ts';
import type { EmailOptions, Role } from '../messages/messages.ts';

export interface EmailRecipient {
  messageId: string;
  address: Address;
  role: Role;
  simulateSuppressed: boolean;
  /** The address in the form in which spellings are compared, where it is known. */
  key?: string | undefined;
}

export interface ComposedEmail {
  headerFrom: string;
  headerTo: { to: string[]; cc: string[] };
  envelopeFrom: string;
  subject: string;
  headerMessageId: string;
  tags: string[];
  metadata: Record<string, string>;
  options: EmailOptions;
  /** The stored template that the mail was made of. */
  template?: { id: string; version: number } | undefined;
  content: Buffer;
  /** The blob that holds the content already; `content` is empty then, and `sizeBytes` is its length. */
  blobKey?: string;
  /** Of the whole mail, where `options.files` are to be added to the content; otherwise its length. */
  sizeBytes?: number;
  recipients: EmailRecipient[];
}
