/**
 * The Amazon SES interface: programs that use an AWS SDK send with Postrider after a change of the endpoint. It is a table of operations that
 * translate to Postrider's own: the same keys, checks, transactions, events, and audit log. It includes version 2 (JSON) and the sending
 * actions of version 1 (Query protocol). All other paths return 404 in the form of SES.
 *
 * Requests use the prefix `/ses`, or the root with a signature (AWS Signature Version 4) or a path below `/v2/email`. The access key
 * determines the account and the mode.
 */
import type { Authenticator, Caller } from '../../accounts/accounts.ts';
import type { Door } from '../../http/door.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { type DoorDocument, documentRoute } from '../document.ts';
import { accountOperations } from './account.ts';
import { INVOCATION_HEADER, INVOCATION_HEADERS, type SesDoorDeps } from './endpoint.ts';
import { PREFIX, shape } from './errors.ts';
import { createSignatureCheck } from './identify.ts';
import { identityOperations } from './identities.ts';
import { queryRoutes } from './query.ts';
import { sendOperations } from './send.ts';
import { suppressionOperations } from './suppressions.ts';

export type { SesDoorDeps };

interface SesDoor {
  door: Door;
  routes: RouteDefinition<Caller>[];
}

const DOCUMENT: DoorDocument = {
  name: 'ses',
  title: 'Postrider: Amazon SES interface, version 2',
  prefix: PREFIX,
  error: { type: 'object', required: ['message'], properties: { message: { type: 'string' } } },
  securityScheme: {
    type: 'apiKey',
    in: 'header',
    name: 'Authorization',
    description: 'AWS Signature Version 4 with an access key of Postrider and the service ses.',
  },
  listParameters: [
    { name: 'PageSize', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 1_000, default: 100 } },
    { name: 'NextToken', in: 'query', schema: { type: 'string' }, description: 'From the previous page.' },
  ],
  mailParameters: [
    {
      name: INVOCATION_HEADER,
      in: 'header',
      schema: { type: 'string', maxLength: 200 },
      description: 'Identifies the attempts of one call, which create one email.',
    },
  ],
  tagOf: (path) => path.split('/')[3] ?? '',
};

const SIGNED = /^\s*AWS[34]-/i;
const V2_PATH = /^\/v2\/email(?:[/?]|$)/;

export function createSesDoor(deps: SesDoorDeps & { callers: Authenticator }): SesDoor {
  const identify = createSignatureCheck(deps);
  const door: Door = {
    prefix: PREFIX,
    takes: ({ headers, url = '/' }) => SIGNED.test(headers.authorization ?? '') || V2_PATH.test(url),
    identify,
    repeatHeaders: INVOCATION_HEADERS,
    shape,
  };
  const routes = [
    ...sendOperations(deps),
    ...accountOperations(deps),
    ...identityOperations(deps),
    ...suppressionOperations(deps),
    ...queryRoutes(deps),
  ];
  return { door, routes: [...routes, documentRoute(routes, DOCUMENT, deps.linkBase)] };
}
