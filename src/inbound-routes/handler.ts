/** Handler for mail of inbound routes: verifies and parses it, and records it with its event. */
import type { Metrics } from '../base/metrics.ts';
import type { Handler, InboundMail } from '../inbound/inbound.ts';
import type { Database } from '../storage/database.ts';
import type { InboundLinks } from './links.ts';
import type { MailVerifier } from './mail-verifier.ts';
import { type ReadInbound, recordInboundOperation } from './message-store.ts';
import { type InboundSource, readInbound, unreadInbound } from './read-inbound.ts';

function sourceOf({ id, use, receivedAtMs, envelopeFrom, recipient }: InboundMail): InboundSource {
  if (use.kind !== 'route') throw new Error(`inbound message ${id} has no inbound route`);
  const { accountId, mode, routeId } = use;
  return { id, accountId, mode, routeId, receivedAtMs, envelopeFrom, recipient };
}

export function createRouteHandler({
  database,
  links,
  verifier,
  metrics,
}: {
  database: Database;
  links: InboundLinks;
  verifier: Pick<MailVerifier, 'verify'>;
  metrics: Pick<Metrics, 'inboundRoutes'>;
}): Handler<ReadInbound> {
  return {
    read: async (mail) => {
      const source = sourceOf(mail);
      const content = await mail.content();
      const { envelopeFrom, client } = mail;
      const { address, helo } = client;
      const authentication = verifier.verify({ content, address, helo, envelopeFrom });
      return readInbound(source, { content, authentication }, links);
    },
    unreadable: (mail, why) => unreadInbound(sourceOf(mail), { sizeBytes: mail.sizeBytes, why }, links),
    record: async (found) => {
      const recorded = await database.execute(
        recordInboundOperation,
        found.map(({ lease, finding }) => ({ lease, mail: finding })),
      );
      for (const outcome of recorded.outcomes) metrics.inboundRoutes[outcome].inc();
      return recorded;
    },
  };
}
