/** Mail that came in for a route: verified and read, and recorded with its event. */
import type { Metrics } from '../base/metrics.ts';
import type { Handler } from '../inbound/inbound.ts';
import type { Database } from '../storage/database.ts';
import type { InboundLinks } from './links.ts';
import type { MailVerifier } from './mail-verifier.ts';
import { type ReadInbound, recordInboundOperation } from './message-store.ts';
import { readInbound } from './read-inbound.ts';

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
      const { id, use, receivedAtMs, envelopeFrom, recipient, client } = mail;
      if (use.kind !== 'route') throw new Error(`${id} is for no route`);
      const { accountId, mode, routeId } = use;
      const source = { id, accountId, mode, routeId, receivedAtMs, envelopeFrom, recipient };
      const content = await mail.content();
      const { address, helo } = client;
      const authentication = verifier.verify({ content, address, helo, envelopeFrom });
      return readInbound(source, { content, authentication }, links);
    },
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
