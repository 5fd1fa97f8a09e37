/** /operator/postmaster-mail: what people, providers and blocklists wrote to postmaster@ and abuse@. */
import type { Caller } from '../accounts/accounts.ts';
import { iso } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { listById, pageFields } from '../http/paging.ts';
import { answer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import {
  FORWARDING,
  findOperatorMailOperation,
  listOperatorMailOperation,
  type OperatorMail,
} from '../inbound/inbound.ts';
import { rawAnswer } from '../inbound-routes/inbound-routes.ts';
import { type OperatorRouteDeps, operatorRoute } from '../operator/operator-route.ts';

const fields = {
  inboundId: Type.String(),
  receivedAt: Type.String({ format: 'date-time' }),
  recipient: Type.String({ description: 'The address it was sent to, such as `abuse@bounces.example.net`.' }),
  from: Type.String({ description: 'The From header.' }),
  envelopeFrom: Type.String({ description: 'Empty for the null sender (<>).' }),
  subject: Type.String(),
  sizeBytes: Type.Integer({ description: 'Size of the mail as received.' }),
  isWhole: Type.Boolean({ description: 'false: it was larger than 10,000,000 bytes, and its files are not kept.' }),
  clientAddress: Type.String({ description: 'The server that delivered it.' }),
  forwarding: oneOf([...FORWARDING], {
    description:
      'forwarded: sent to POSTRIDER_POSTMASTER. Otherwise the reason: not-set, no address is set; loop, it is or quotes a forwarded message; automatic-reply; over-limit, 100 messages were forwarded in this hour; no-sender, this service has no host name to send from.',
  }),
};
const listedSchema = named('PostmasterMail', fields);
const wholeSchema = named('PostmasterMailWithText', {
  ...fields,
  text: Type.String({ description: 'Its text, up to 20,000 characters.' }),
});

const NO_MAIL = refuse(
  failure('NOT_FOUND', { message: 'No message to postmaster or abuse has this id, or it has been deleted.' }),
);

function listed(mail: OperatorMail) {
  const { id, receivedAtMs, client, text: _, ...rest } = mail;
  return { inboundId: id, receivedAt: iso(receivedAtMs), clientAddress: client.address, ...rest };
}

export function postmasterRoutes(deps: OperatorRouteDeps): RouteDefinition<Caller>[] {
  const { database, blobs } = deps;
  const find = (id: string | undefined) => database.execute(findOperatorMailOperation, id ?? '');
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/postmaster-mail',
      operationId: 'listPostmasterMail',
      summary: 'List messages to postmaster and abuse, newest first',
      description:
        'Messages that people, providers, and blocklists sent to these addresses of the bounce domain. Reports about messages of this service are not listed: they become events. The newest 1,000 messages are kept, up to 200 MB, for as long as content.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(listedSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'inb_',
          read: (page) => database.execute(listOperatorMailOperation, page),
          show: listed,
        }),
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/postmaster-mail/:id',
      operationId: 'getPostmasterMail',
      summary: 'Get a message to postmaster or abuse, with its text',
      description: 'Returns the fields of the list and the text.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: wholeSchema },
      handle: async ({ params }) => {
        const mail = await find(params.id);
        return mail ? answer({ ...listed(mail), text: mail.text }) : NO_MAIL;
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/postmaster-mail/:id/content',
      operationId: 'getPostmasterMailContent',
      summary: 'Download a message to postmaster or abuse',
      description: 'As received, or without its files if `isWhole` is false.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, contentType: 'message/rfc822' },
      handle: async ({ params }) => {
        const mail = await find(params.id);
        return mail ? rawAnswer({ database, blobs }, { id: mail.id, accountId: '', mode: 'live' }) : NO_MAIL;
      },
    }),
  ];
}
