/**
 * HTTP routes for sending domains. Both modes share the domains, and only live keys can change them. Adding a domain again returns the
 * existing domain with its keys (200 instead of 201).
 */
import type { TSchema } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { requestedChanges, requestOrigin } from '../audit/audit.ts';
import { type Clock, iso, isoOrNull } from '../base/clock.ts';
import { failure, refuse } from '../base/failure.ts';
import { knownRecords, type LookUpDeps, lookUpRecords, type RecordSettings } from '../domains/dns-records.ts';
import { domainChanged } from '../domains/domain-changes.ts';
import { addDomain, type SenderDomain, verifyDomain } from '../domains/domains.ts';
import {
  deleteDomainOperation,
  domainOperation,
  domainsOperation,
  isMarkedVerified,
  SENDS_WHILE_FAILING_MS,
  senderDomainName,
} from '../domains/store.ts';
import type { IsServed } from '../domains/tracking-hosts.ts';
import { rotateKeys } from '../domains/verify.ts';
import { zoneServers } from '../domains/zone-servers.ts';
import { listById, pageFields, pageOfWhole } from '../http/paging.ts';
import { answer, defineRoute, type Method, type RouteAnswer, type RouteDefinition } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema, named, oneOf } from '../http/validate.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';

const route = <B extends TSchema | undefined = undefined, Q extends TSchema | undefined = undefined>(
  definition: RouteDefinition<Caller, B, Q>,
): RouteDefinition<Caller> => defineRoute(definition);

const recordSchema = named('DnsRecord', {
  purpose: oneOf(['dkim', 'spf', 'dmarc', 'return-path', 'tracking', 'mta-sts', 'tls-rpt']),
  type: oneOf(['TXT', 'CNAME']),
  name: Type.String(),
  value: Type.String(),
  status: oneOf(['verified', 'missing', 'different', 'unknown', 'pending'], {
    description:
      'different: another value is published; unknown: the DNS lookup failed, or the status cannot be determined; pending: not looked up for this response.',
  }),
  found: Type.Unsafe<string[] | null>({
    type: ['array', 'null'],
    items: { type: 'string' },
    description:
      'The currently published records of this kind; null if they were not looked up, or if the DNS lookup failed.',
  }),
  required: Type.Boolean({ description: 'Whether the domain is verified only if this record is published.' }),
  keyState: Type.Optional(
    oneOf(['next', 'active', 'retired'], {
      description:
        'For a DKIM record. next: will sign; active: signs; retired: no longer signs, but stays published for messages already signed.',
    }),
  ),
  note: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'One sentence about the problem and how to fix it; null if the status needs no explanation.',
  }),
});

const domainSchema = named('Domain', {
  domainId: Type.String(),
  domain: Type.String(),
  status: oneOf(['pending', 'verified', 'failing'], {
    description:
      'pending: not verified yet; verified: its DKIM record was found, or an operator marked it as verified; failing: it was verified, but the last check did not find the record. It can send for another 24 hours.',
  }),
  verifiedBy: Type.Unsafe<'dns' | 'operator' | null>({
    type: ['string', 'null'],
    enum: ['dns', 'operator', null],
    description:
      'Why a domain is `verified`. dns: its DKIM record was found. operator: an operator marked it as verified, and no check has found the record, so receivers cannot verify signatures. null: the domain is not verified.',
  }),
  dnsRecords: Type.Array(recordSchema),
  createdAt: Type.String({ format: 'date-time' }),
  checkedAt: Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' }),
  sendingStopsAt: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    format: 'date-time',
    description:
      'For a failing domain: the time at which Postrider starts to reject its live email, 24 hours after its record was found missing.',
  }),
});

const domainRequest = named('DomainRequest', {
  domain: Type.String({ minLength: 1, maxLength: 253, description: 'A domain name, such as example.com.' }),
});

export interface DomainRouteOptions extends RecordSettings {
  database: Database;
  clock: Clock;
  /** Returns a resolver with an empty cache, so that it finds a record that was just corrected. The caller closes the resolver. */
  freshDns(): Dns;
  secretKey: Uint8Array;
  isServed?: IsServed;
}

function verifiedBy(domain: SenderDomain): 'dns' | 'operator' | null {
  if (domain.status !== 'verified') return null;
  return isMarkedVerified(domain) ? 'operator' : 'dns';
}

/** Returns the options with the functions that the routes share. */
function shared(options: DomainRouteOptions) {
  const { database, sendingHost, bounceDomain, baseUrl, freshDns, isServed } = options;
  const settings: RecordSettings = { sendingHost, bounceDomain, baseUrl };
  return {
    ...options,
    body: (domain: SenderDomain) => ({
      domainId: domain.id,
      domain: domain.domain,
      status: domain.status,
      verifiedBy: verifiedBy(domain),
      dnsRecords: knownRecords(domain, settings),
      createdAt: iso(domain.createdAt),
      checkedAt: isoOrNull(domain.checkedAt),
      sendingStopsAt: domain.failingSince === null ? null : iso(domain.failingSince + SENDS_WHILE_FAILING_MS),
    }),
    find: (caller: Caller, id: string | undefined) =>
      database.execute(domainOperation, { id: id ?? '', accountId: caller.account.id }),
    withDns: async <T>(work: (lookUp: LookUpDeps) => Promise<T>): Promise<T> => {
      const dns = freshDns();
      try {
        return await work({ ...settings, dns, serversOf: zoneServers(dns), isServed });
      } finally {
        dns.close();
      }
    },
  };
}

type Shared = ReturnType<typeof shared>;

const notFound: RouteAnswer = refuse(failure('NOT_FOUND', { message: 'No domain has this id.' }));

export function domainRoutes(options: DomainRouteOptions): RouteDefinition<Caller>[] {
  const deps = shared(options);
  return [
    addRoute(deps, 'POST'),
    addRoute(deps, 'PUT'),
    ...readRoutes(deps),
    removeRoute(deps),
    rotateRoute(deps),
    ...dnsRoutes(deps),
  ];
}

function addRoute(deps: Shared, method: Method): RouteDefinition<Caller> {
  return route({
    method,
    path: '/domains',
    tag: 'domains',
    access: { auth: 'key', changesShared: true },
    operationId: method === 'PUT' ? 'putDomain' : 'addDomain',
    summary: method === 'PUT' ? 'Add a sending domain unless the account has it' : 'Add a sending domain',
    description:
      'Creates the DKIM keys of the domain. Publish the records in dnsRecords, then call verify. Returns 200 if the account already has the domain.',
    body: {
      schema: domainRequest,
      furtherIssues: ({ domain = '' }) => {
        const name = senderDomainName(domain);
        return name.ok ? [] : [{ field: 'domain', message: name.reason }];
      },
    },
    refusals: ['LIMIT_REACHED'],
    response: { status: 201, schema: domainSchema },
    furtherResponses: [{ status: 200, schema: domainSchema, description: 'The domain was already added.' }],
    handle: async (request): Promise<RouteAnswer> => {
      const newDomain = { accountId: request.caller.account.id, domain: request.body.domain, verified: false };
      const added = await addDomain({ ...deps, by: requestOrigin(request, deps.clock.now()) }, newDomain);
      if (!added.ok) return added;
      return { ...answer(deps.body(added.value.domain)), status: added.value.created ? 201 : 200 };
    },
  });
}

function readRoutes({ database, body, find }: Shared): RouteDefinition<Caller>[] {
  return [
    route({
      method: 'GET',
      path: '/domains',
      tag: 'domains',
      access: { auth: 'key' },
      operationId: 'listDomains',
      summary: 'List sending domains, newest first',
      description: 'Includes the DNS records of each domain and the result of the last verification.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(domainSchema) },
      handle: (request) =>
        listById(request, {
          prefix: 'dom_',
          read: (page) => database.execute(domainsOperation, { accountId: request.caller.account.id, ...page }),
          show: body,
        }),
    }),
    route({
      method: 'GET',
      path: '/domains/:id',
      tag: 'domains',
      access: { auth: 'key' },
      operationId: 'getDomain',
      summary: 'Get a sending domain',
      description: 'Includes the DNS records to publish and the result of the last verification.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: domainSchema },
      handle: async ({ caller, params }) => {
        const domain = await find(caller, params.id);
        return domain ? answer(body(domain)) : notFound;
      },
    }),
  ];
}

function removeRoute({ database, clock }: Shared): RouteDefinition<Caller> {
  return route({
    method: 'DELETE',
    path: '/domains/:id',
    tag: 'domains',
    access: { auth: 'key', changesShared: true },
    operationId: 'deleteDomain',
    summary: 'Delete a sending domain and its keys',
    description:
      'New email from the domain is rejected. Queued email bounces, because Postrider does not send it unsigned.',
    refusals: ['NOT_FOUND'],
    response: { status: 200, schema: confirmationSchema },
    handle: async (request) => {
      const args = { id: request.params.id ?? '', accountId: request.caller.account.id };
      const removed = await requestedChanges(database, request, clock.now()).execute(deleteDomainOperation, args);
      domainChanged(database, { accountId: args.accountId, domainId: args.id });
      return removed ? answer({ message: 'Domain and keys deleted.' }) : notFound;
    },
  });
}

function rotateRoute({ find, body, ...deps }: Shared): RouteDefinition<Caller> {
  return route({
    method: 'POST',
    path: '/domains/:id/rotate-keys',
    tag: 'domains',
    access: { auth: 'key', changesShared: true },
    operationId: 'rotateDomainKeys',
    summary: 'Rotate the DKIM keys of a domain',
    description:
      'Creates new keys. Publish their records, which `dnsRecords` then lists in addition to the current ones. The new keys sign once every authoritative server has had the RSA key for an hour. The old keys stay in `dnsRecords` for another 10 days. Has no effect if the domain already has new keys that do not sign yet. Keys older than 180 days are rotated automatically, and the owners are notified by email.',
    refusals: ['NOT_FOUND'],
    response: { status: 200, schema: domainSchema },
    handle: async (request) => {
      const domain = await find(request.caller, request.params.id);
      if (!domain) return notFound;
      await rotateKeys({ ...deps, by: requestOrigin(request, deps.clock.now()), isNoticed: false }, domain);
      const rotated = await find(request.caller, request.params.id);
      return rotated ? answer(body(rotated)) : notFound;
    },
  });
}

function dnsRoutes(deps: Shared): RouteDefinition<Caller>[] {
  const { find, withDns, database, clock } = deps;
  return [
    route({
      method: 'GET',
      path: '/domains/:id/dns-records',
      tag: 'domains',
      access: { auth: 'key' },
      operationId: 'getDomainDnsRecords',
      summary: 'Get the DNS records to publish, and check them now',
      description:
        'Compares each expected record with the published one on the authoritative servers of the zone or, if they cannot be queried, through a resolver.',
      query: closed(pageFields),
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: Type.Array(recordSchema) },
      handle: async (request) => {
        const domain = await find(request.caller, request.params.id);
        if (!domain) return notFound;
        const rows = await withDns((lookUp) => lookUpRecords(domain, lookUp));
        return pageOfWhole(request, {
          rows,
          order: 'ascending',
          shape: ['number'],
          keyOf: (record) => [rows.indexOf(record)],
          show: (record) => record,
        });
      },
    }),
    route({
      method: 'POST',
      path: '/domains/:id/verify',
      tag: 'domains',
      access: { auth: 'key', changesShared: true },
      operationId: 'verifyDomain',
      summary: 'Verify a domain by its DKIM record',
      description: '`success` is true if the DKIM record was found; otherwise `message` describes the problem.',
      refusals: ['NOT_FOUND'],
      response: {
        status: 200,
        schema: named('DomainVerification', { success: Type.Boolean(), message: Type.String() }),
      },
      handle: async (request) => {
        const domain = await find(request.caller, request.params.id);
        if (!domain) return notFound;
        const by = requestOrigin(request, clock.now());
        const { success, message } = await withDns((lookUp) =>
          verifyDomain({ database, clock, ...lookUp, by }, domain),
        );
        return answer({ success, message });
      },
    }),
  ];
}
