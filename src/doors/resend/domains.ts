/**
 * /domains: sending domains with their DNS records. Tracking and TLS are settings of a domain in Resend and of an email in Postrider;
 * regions do not exist.
 */
import type { Static } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { refuse } from '../../base/failure.ts';
import { uuidOf } from '../../base/uuid-id.ts';
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

interface DomainBody {
  domainId: string;
  domain: string;
  status: 'pending' | 'verified' | 'failing';
  createdAt: string;
  checkedAt: string | null;
  dnsRecords: { purpose: string; type: string; name: string; value: string; status: string }[];
}

const REGIONS = ['us-east-1', 'eu-west-1', 'sa-east-1', 'ap-northeast-1'];
const RECORDS: Readonly<Record<string, string>> = {
  dkim: 'DKIM',
  spf: 'SPF',
  'return-path': 'SPF',
  tracking: 'Tracking',
};
const RECORD_STATUS: Readonly<Record<string, string>> = {
  verified: 'verified',
  missing: 'failed',
  different: 'failed',
  unknown: 'temporary_failure',
  pending: 'not_started',
};

function statusOf({ status, checkedAt }: DomainBody): string {
  if (status === 'verified') return 'verified';
  if (status === 'failing') return 'failed';
  return checkedAt === null ? 'not_started' : 'pending';
}

function summary(domain: DomainBody): Record<string, unknown> {
  return {
    id: uuidOf(domain.domainId),
    name: domain.domain,
    status: statusOf(domain),
    created_at: domain.createdAt,
    region: REGIONS[0],
    capabilities: { sending: 'enabled', receiving: 'disabled' },
    open_tracking: false,
    click_tracking: false,
  };
}

function whole(domain: DomainBody): Record<string, unknown> {
  const records = domain.dnsRecords
    .filter(({ purpose }) => purpose in RECORDS)
    .map(({ purpose, type, name, value, status }) => ({
      record: RECORDS[purpose],
      name,
      type,
      ttl: 'Auto',
      value,
      status: RECORD_STATUS[status] ?? 'pending',
    }));
  return { object: 'domain', ...summary(domain), records };
}

const settings = {
  open_tracking: Type.Optional(Type.Boolean()),
  click_tracking: Type.Optional(Type.Boolean()),
  tls: Type.Optional(Type.String({ maxLength: 32 })),
  tracking_subdomain: Type.Optional(Type.String({ maxLength: 253 })),
  custom_return_path: Type.Optional(Type.String({ maxLength: 253 })),
  capabilities: Type.Optional(open({ sending: Type.Optional(Type.String()), receiving: Type.Optional(Type.String()) })),
};
const newDomain = open({
  name: Type.String({ minLength: 1, maxLength: 253 }),
  region: Type.Optional(Type.String({ maxLength: 32 })),
  ...settings,
});
const changedDomain = open(settings);

/** Returns the failure of a setting that would have no effect; undefined if there is none. */
function unsupported(wanted: Static<typeof changedDomain>) {
  const perEmail = (field: string, ours: string) =>
    invalidField(field, `is a setting of each email in Postrider: set ${ours} in POST /send`);
  if (wanted.open_tracking === true) return perEmail('open_tracking', 'enableOpenTracking');
  if (wanted.click_tracking === true) return perEmail('click_tracking', 'enableClickTracking');
  if (wanted.tls === 'enforced') return perEmail('tls', 'requireTls');
  if (wanted.tls !== undefined && wanted.tls !== 'opportunistic') return invalidField('tls', 'must be opportunistic');
  if (wanted.capabilities?.receiving === 'enabled')
    return invalidField('capabilities.receiving', 'is set up with POST /inbound-routes of the Postrider API');
  return undefined;
}

async function create({ body, call }: EndpointContext<Static<typeof newDomain>>): Promise<EndpointAnswer> {
  if (body.region !== undefined && !REGIONS.includes(body.region))
    return invalidField('region', `must be one of ${REGIONS.join(', ')}; it has no effect in Postrider`);
  const refused = unsupported(body);
  if (refused !== undefined) return refused;
  const added = await call('POST', '/domains', { body: { domain: body.name } });
  if (added.ok) return success(whole(added.body));
  const details = added.failure.details.map((issue) =>
    issue.field === 'domain' ? { ...issue, field: 'name' } : issue,
  );
  return refuse({ ...added.failure, details });
}

export function domainEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'POST',
      path: '/domains',
      summary: 'Add a domain',
      status: 201,
      body: newDomain,
      handle: create,
    }),
    listing<DomainBody>(deps, {
      path: '/domains',
      prefix: 'dom',
      summary: 'List domains, newest first',
      idOf: ({ domainId }) => domainId,
      show: summary,
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/domains/:id',
      summary: 'Show a domain with its DNS records',
      handle: (context) =>
        withId(context, 'dom', async (id) => {
          const found = await context.call('GET', `/domains/${id}`);
          return found.ok ? success(whole(found.body)) : found;
        }),
    }),
    endpoint(deps, {
      method: 'PATCH',
      path: '/domains/:id',
      summary: 'Change settings of a domain',
      body: changedDomain,
      handle: (context) =>
        withId(context, 'dom', async (id) => {
          const found = await context.call('GET', `/domains/${id}`);
          if (!found.ok) return found;
          return unsupported(context.body) ?? success({ object: 'domain', id: uuidOf(id) });
        }),
    }),
    removal(deps, { path: '/domains', prefix: 'dom', object: 'domain', summary: 'Delete a domain' }),
    endpoint(deps, {
      method: 'POST',
      path: '/domains/:id/verify',
      summary: 'Look up the DNS records of a domain',
      handle: (context) =>
        withId(context, 'dom', async (id) => {
          const looked = await context.call('POST', `/domains/${id}/verify`, { body: {} });
          return looked.ok ? success({ object: 'domain', id: uuidOf(id) }) : looked;
        }),
    }),
  ];
}
