/** Stores inbound messages and their events, for tests of later steps. */
import { newId } from '../../src/base/ids.ts';
import { type ReadInbound, simulateInboundOperation } from '../../src/inbound-routes/message-store.ts';
import type { Database } from '../../src/storage/database.ts';

/** Returns the id of the event. `text` is the text of the message. */
export async function seedInbound(
  database: Database,
  { accountId, text, recipient = 'a@in.shop.example' }: { accountId: string; text: string; recipient?: string },
): Promise<string> {
  const nowMs = Date.now();
  const shared = {
    id: newId('inb', nowMs),
    envelopeFrom: 'ann@x.example',
    recipient,
    receivedAtMs: nowMs,
    sizeBytes: 5,
  };
  const mail: ReadInbound = {
    ...shared,
    accountId,
    mode: 'live',
    routeId: 'inr_none',
    headerFrom: 'ann@x.example',
    subject: 'x',
    content: { text },
    files: '[]',
    eventId: newId('evt', nowMs),
    dropped: null,
    headerMessageId: null,
    references: [],
    namedMessageId: null,
  };
  const stored = {
    ...shared,
    use: { kind: 'route', accountId, mode: 'live', routeId: 'inr_none' } as const,
    nowMs,
    client: { address: '192.0.2.1', helo: 'x', tls: null },
    content: Buffer.from('hello'),
    blobKey: null,
  };
  const { eventId } = await database.execute(simulateInboundOperation, { stored, mail });
  return eventId!;
}
