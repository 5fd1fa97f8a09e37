/** Mail that came in for a route: read, and recorded with its event. */
import type { Handler } from '../inbound/inbound.ts';
import type { Database } from '../storage/database.ts';
import type { InboundLinks } from './links.ts';
import { type ReadInbound, recordInboundOperation } from './message-store.ts';
import { readInbound } from './read-inbound.ts';

export function createRouteHandler({
  database,
  links,
}: {
  database: Database;
  links: InboundLinks;
}): Handler<ReadInbound> {
  return {
    read: async (mail) => {
      const { id, use, receivedAtMs, envelopeFrom, recipient } = mail;
      if (use.kind !== 'route') throw new Error(`${id} is for no route`);
      const { accountId, mode, routeId } = use;
      const source = { id, accountId, mode, routeId, receivedAtMs, envelopeFrom, recipient };
      return readInbound(source, await mail.content(), links);
    },
    record: (found) =>
      database.execute(
        recordInboundOperation,
        found.map(({ lease, finding }) => ({ lease, mail: finding })),
      ),
  };
}
