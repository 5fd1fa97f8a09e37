/** /api-keys: keys of the account, in the mode of the calling key. A key for one domain may send from that domain only. */
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { idOfUuid, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  invalidField,
  open,
  type ResendDoorDeps,
  removal,
  success,
  withId,
} from './endpoint.ts';
import { listing } from './lists.ts';

interface KeyBody {
  keyId: string;
  name: string | null;
  createdAt: string;
  lastUsedAt: string | null;
}

const SCOPES: Readonly<Record<string, 'full' | 'send'>> = { full_access: 'full', sending_access: 'send' };

const newKey = open({
  name: Type.String({ minLength: 1, maxLength: 50 }),
  permission: Type.Optional(Type.String({ maxLength: 32 })),
  domain_id: Type.Optional(Type.String({ maxLength: 64 })),
});

async function create({ body, call }: EndpointContext<Static<typeof newKey>>): Promise<EndpointAnswer> {
  const scope = SCOPES[body.permission ?? 'full_access'];
  if (scope === undefined) return invalidField('permission', 'must be full_access or sending_access');
  let allowedSenders: string[] | undefined;
  if (body.domain_id !== undefined) {
    if (scope !== 'send') return invalidField('domain_id', 'is for keys with the permission sending_access');
    const id = idOfUuid('dom', body.domain_id);
    const domain = id === undefined ? undefined : await call('GET', `/domains/${id}`);
    if (!domain?.ok) return invalidField('domain_id', 'must be the id of a domain of this account');
    allowedSenders = [domain.body.domain];
  }
  const made = await call('POST', '/api-keys', {
    body: { name: body.name, scope, ...(allowedSenders !== undefined && { allowedSenders }) },
  });
  return made.ok ? success({ id: uuidOf(made.body.keyId), token: made.body.apiKey }) : made;
}

function shown({ keyId, name, createdAt, lastUsedAt }: KeyBody): Record<string, unknown> {
  return { id: uuidOf(keyId), name: name ?? '', created_at: createdAt, last_used_at: lastUsedAt };
}

export function apiKeyEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'POST',
      path: '/api-keys',
      summary: 'Create an API key',
      status: 201,
      body: newKey,
      handle: create,
    }),
    listing<KeyBody>(deps, {
      path: '/api-keys',
      prefix: 'key',
      summary: 'List API keys, newest first',
      idOf: ({ keyId }) => keyId,
      show: shown,
    }),
    endpoint(deps, {
      method: 'PATCH',
      path: '/api-keys/:id',
      summary: 'Rename an API key',
      body: open({ name: Type.String({ minLength: 1, maxLength: 50 }) }),
      handle: (context) =>
        withId(context, 'key', async (id) => {
          const renamed = await context.call('PATCH', `/api-keys/${id}`, { body: { name: context.body.name } });
          return renamed.ok ? success({ object: 'api_key', id: uuidOf(id) }) : renamed;
        }),
    }),
    removal(deps, { path: '/api-keys', prefix: 'key', object: 'api_key', summary: 'Revoke an API key' }),
  ];
}
