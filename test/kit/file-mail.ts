/** A message with a file, and checks of the file at the receiving server. */
import PostalMime from 'postal-mime';
import type { JsonObject } from './api.ts';
import type { SmtpSink } from './smtp-sink.ts';
import { sha256 } from './upload.ts';
import { waitUntil } from './wait-until.ts';

export const fileMail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  text: 'See the files.',
});

/** Returns the SHA-256 of the first file of the message to this address, once it has arrived. */
export async function arrivedFile(sink: SmtpSink, to: string): Promise<string> {
  const { content } = await waitUntil(
    `the message to ${to}`,
    () => sink.messages.find((one) => one.to.includes(to)),
    90_000,
  );
  const parsed = await PostalMime.parse(content);
  return sha256(new Uint8Array(parsed.attachments[0]?.content as ArrayBuffer));
}
