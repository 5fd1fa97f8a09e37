/**
 * Builds the HTTP server of a process. With the api role it serves every route. Without the role it serves only health, readiness, metrics,
 * and ACME challenges.
 */

import type { AddressInfo } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { Authenticator, Caller, CredentialUses, LoginCache, SubmissionPorts } from '../accounts/accounts.ts';
import { accountRoutes, approvalRoutes } from '../api/accounts.ts';
import { challengeRoutes } from '../api/acme.ts';
import { attachmentRoutes } from '../api/attachments.ts';
import { auditRoutes, operatorAuditRoutes } from '../api/audit.ts';
import { domainRoutes } from '../api/domains.ts';
import { trackingRoutes, unsubscribeRoutes } from '../api/engagement.ts';
import { erasureRoutes } from '../api/erasure.ts';
import { eventRoutes } from '../api/events.ts';
import { inboundRouteRoutes } from '../api/inbound-routes.ts';
import { inboundMailRoutes } from '../api/inbound-routes-mail.ts';
import { simulateInboundRoute } from '../api/inbound-routes-simulate.ts';
import { incidentRoutes } from '../api/incidents.ts';
import { agentRequestRoutes } from '../api/mcp-agent-requests.ts';
import { messageRoutes } from '../api/messages.ts';
import { shareRoutes } from '../api/messages-share.ts';
import { operatorRoutes } from '../api/operator.ts';
import { requestLogRoutes } from '../api/request-log.ts';
import { sandboxRoutes } from '../api/sandbox.ts';
import { sandboxOutcomeRoutes } from '../api/sandbox-outcome.ts';
import { createSendRoutes } from '../api/send.ts';
import { statisticsRoutes } from '../api/statistics.ts';
import { suppressionRoutes } from '../api/suppressions.ts';
import { templateRoutes } from '../api/templates.ts';
import { templateShareRoutes } from '../api/templates-share.ts';
import { userRoutes } from '../api/users.ts';
import { webhookRoutes } from '../api/webhooks.ts';
import { createUploadUrls } from '../attachments/attachments.ts';
import { type Failure, failure, refuse } from '../base/failure.ts';
import { VERSION } from '../config.ts';
import { createOutcomeSimulator, createSandboxDeliveries } from '../delivery/delivery.ts';
import { createHostProbe, createSenderAdvice, createSenderCheck, type SenderCheck } from '../domains/domains.ts';
import { createResendDoor, createSesDoor } from '../doors/doors.ts';
import { createTrackingLinks, createUnsubscribeLinks } from '../engagement/engagement.ts';
import type { Followers } from '../events/events.ts';
import { createHttpApp, type HttpApp } from '../http/app.ts';
import { basePathOf } from '../http/base-path.ts';
import { guideRoutes } from '../http/guide.ts';
import { type Authenticate, createIdentify, refusedAddress } from '../http/identify.ts';
import { createInnerCalls } from '../http/inner-calls.ts';
import { createOpenapi } from '../http/openapi.ts';
import { portalRoutes } from '../http/portal.ts';
import { referenceRoutes } from '../http/reference/routes.ts';
import type { RouteDefinition } from '../http/route.ts';
import { type ServiceOptions, serviceRoutes } from '../http/service-routes.ts';
import { createInFlightKeys, createKeyedCalls } from '../idempotency/idempotency.ts';
import { createInboundLinks } from '../inbound-routes/inbound-routes.ts';
import { createConcurrencyLimiter } from '../limits/limits.ts';
import { parseAddress } from '../mail/address.ts';
import { htmlToText } from '../mail/html/html-text.ts';
import { createDocs, createMcp, docsTextRoutes, type Mcp } from '../mcp/mcp.ts';
import type { DirectDispatch } from '../messages/messages.ts';
import { openDns } from '../net/dns.ts';
import { checkUrl, type HttpClient } from '../net/http-client.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { createOperatorKeys, type OperatorKeys } from '../operator/operator.ts';
import { KEPT_DAYS, type RequestLog } from '../request-log/request-log.ts';
import { createSubmit, type Submit, senderFailure } from '../send/send.ts';
import type { TlsIdentity } from '../smtp/smtp.ts';
import { createSearches, type Searches } from '../storage/searches.ts';
import { createRender, createTemplateSource, type TemplateSource } from '../templates/templates.ts';
import { createSessions, type UserMail, type UserSessions } from '../users/users.ts';
import { createSandboxWebhooks } from '../webhooks/webhooks.ts';
import { documentOptions } from './api-document.ts';
import { createDoctor } from './doctor.ts';
import { mxOf } from './inbound.ts';
import { noteAccepted, type Parts, ranges } from './parts.ts';
import { recordCall, recordItem } from './record-requests.ts';
import { createUntrustedProxyNote } from './untrusted-proxy.ts';

export interface ApiOptions {
  directDispatch: DirectDispatch | undefined;
  http: HttpClient;
  /** Wakes the readers that follow events. */
  followers: Followers;
  /** Authenticates API keys, which this process caches. */
  callers: Authenticator;
  /** The cache of SMTP logins of this process. */
  logins: LoginCache;
  credentialUses: Pick<CredentialUses, 'note'>;
  requestLog: RequestLog;
  /** Sends the service's own mail to users. */
  mail: UserMail;
  nodes: Pick<Nodes, 'list'>;
  nudgeDelivery(): void;
  nudgeWebhooks(): void;
  nudgeErasures(): void;
  /** Returns the ports of SMTP submission: those of this process or, if it has none, those in the settings. */
  submissionPorts(): SubmissionPorts;
  /** Returns this process's share of a limit among the nodes with the api role. */
  rateShare(): number;
  /** Returns the base URL of tracked links in an account's mail from a domain, if the domain has its own tracking host. */
  trackingUrlOf?(accountId: string, fromDomain: string): string | undefined;
  /** The certificate of the TLS port, if there is one. */
  tls?: TlsIdentity | undefined;
}

/** The parts of links to this service. `baseUrl` may contain the port, which is known only after the server listens. */
interface LinkBase {
  secretKey: Buffer;
  readonly baseUrl: string;
  urlOf?: ApiOptions['trackingUrlOf'];
}

interface RouteSetup {
  parts: Parts;
  /** The template source for sends, if other routes also report changes to it; otherwise a new one is created. */
  templates?: TemplateSource;
  options: ApiOptions;
  callers: Authenticator;
  sessions: UserSessions;
  operatorKeys: OperatorKeys;
  linkBase: LinkBase;
}

/** The setup, with values that several groups of routes share. */
interface RouteContext extends RouteSetup {
  searches: Searches;
  /** Wakes delivery and webhooks. */
  nudge(): void;
}

/** Returns all routes of Postrider's API, the upload routes, and the pages for recipients. */
export function apiRoutes(setup: RouteSetup): RouteDefinition<Caller>[] {
  const { nudgeDelivery, nudgeWebhooks } = setup.options;
  const nudge = (): void => {
    nudgeDelivery();
    nudgeWebhooks();
  };
  const context: RouteContext = { ...setup, searches: createSearches(), nudge };
  const routes = [
    ...mailRoutes(context),
    ...logRoutes(context),
    ...sandboxToolRoutes(context),
    ...settingRoutes(context),
    ...peopleRoutes(context),
    ...operatorToolRoutes(context),
  ];
  return [...routes, ...agentRequestRoutes(agentChanges(setup, routes))];
}

/** Returns the dependencies of changes that AI agents request. An approved change can call only `routes`. */
function agentChanges({ parts, linkBase }: Pick<RouteSetup, 'parts' | 'linkBase'>, routes: RouteDefinition<Caller>[]) {
  const { database, clock, overload, secretKey } = parts;
  return {
    database,
    clock,
    secretKey,
    call: createInnerCalls(routes),
    get baseUrl() {
      return linkBase.baseUrl;
    },
    mailRefusal: () => {
      const [first] = overload.reasons();
      if (first === undefined) return undefined;
      const code = first.part === 'storage' ? ('UNAVAILABLE' as const) : ('OVERLOADED' as const);
      return failure(code, { message: `Nothing was accepted: ${first.message}. Retry later.` });
    },
  };
}

/** Returns the routes for sending, messages, templates, and uploads, and the pages for recipients. */
function mailRoutes({ parts, options, linkBase, searches, nudge, ...setup }: RouteContext): RouteDefinition<Caller>[] {
  const { config, database, blobs, clock, addressHash } = parts;
  const inFlight = createInFlightKeys();
  const senders = createSenderCheck({ database, clock });
  const render = createRender(htmlToText);
  const templates = setup.templates ?? createTemplateSource({ database, clock });
  const previews = {
    database,
    templates,
    render,
    previewUnsubscribeUrl: () => `${linkBase.baseUrl}/unsubscribe/preview`,
  };
  const unsubscribeLinks = createUnsubscribeLinks(linkBase, config.bounceDomain);
  const trackingLinks = createTrackingLinks(linkBase);
  return [
    ...createSendRoutes({
      database,
      blobs,
      clock,
      addressHash,
      directDispatch: options.directDispatch,
      onAccepted: (accepted) => noteAccepted(parts, options, accepted),
      onItemRefused: (request, index, refusal) => recordItem(options.requestLog, clock, { request, index, refusal }),
      inFlight,
      isVerified: senders.isVerified,
      senderAdvice: createSenderAdvice({
        database,
        dns: parts.dns,
        bounceDomain: config.bounceDomain,
        sendingHost: config.route.kind === 'mx' ? config.smtpHostname : undefined,
      }),
      render,
      htmlToText,
      templates,
      unsubscribeLinks,
      trackingLinks,
    }),
    ...unsubscribeRoutes({ database, clock, addressHash, unsubscribeLinks, nudge: options.nudgeWebhooks }),
    ...trackingRoutes({ database, clock, trackingLinks, nudge: options.nudgeWebhooks }),
    ...templateRoutes({ clock, ...previews }),
    ...templateShareRoutes({ clock, linkBase, ...previews }),
    ...attachmentRoutes({
      database,
      blobs,
      clock,
      inFlight,
      urls: createUploadUrls(linkBase),
      uploadTtlSeconds: config.uploadTtlSeconds,
    }),
    ...messageRoutes({
      searches,
      database,
      blobs,
      clock,
      addressHash,
      checkSender: (caller, headerFrom) => checkSender(senders, caller, headerFrom),
      once: createKeyedCalls({ database, inFlight, clock }),
      nudge,
    }),
    ...shareRoutes({ database, blobs, clock, linkBase }),
  ];
}

/** Returns the routes for events, statistics, and webhooks. */
function logRoutes({ parts, options, callers, sessions, searches }: RouteContext): RouteDefinition<Caller>[] {
  const { config, database, clock, secretKey, dns } = parts;
  const allow = ranges(config.webhookAllow);
  const identify = createIdentify({ authenticate: byHeaders(callers), sessions });
  return [
    ...eventRoutes({
      searches,
      database,
      secretKey,
      followers: options.followers,
      streams: createConcurrencyLimiter('eventStreams', options.rateShare),
      isAllowed: async (request, access) => {
        const found = await identify(request, access);
        if (!found.ok || refusedAddress(found.value, request.remoteAddress) !== undefined) return false;
        options.credentialUses.note(found.value, request.remoteAddress);
        return true;
      },
    }),
    ...statisticsRoutes({ database, clock }),
    ...webhookRoutes({
      database,
      clock,
      secretKey,
      http: options.http,
      checkUrl: (url) => checkUrl(url, { lookup: dns.lookupHost, allow }),
      nudge: options.nudgeWebhooks,
    }),
  ];
}

/** Returns the routes for the sandbox inbox and for simulated deliveries. */
function sandboxToolRoutes({ parts, options, linkBase, nudge }: RouteContext): RouteDefinition<Caller>[] {
  const { database, blobs, clock, log, metrics, secretKey } = parts;
  const deliveries = createSandboxDeliveries({ database, blobs, clock, log, metrics });
  return [
    ...sandboxRoutes({
      database,
      blobs,
      clock,
      followers: options.followers,
      waits: createConcurrencyLimiter('inboxWaits', options.rateShare),
      isStopping: () => parts.overload.reasons().some((reason) => reason.part === 'service'),
    }),
    simulateInboundRoute({ database, blobs, clock, links: createInboundLinks(linkBase), nudge }),
    ...sandboxOutcomeRoutes({
      database,
      clock,
      simulateOutcome: createOutcomeSimulator({ database, clock, deliveries }),
      kinds: [deliveries, createSandboxWebhooks({ database, http: options.http, clock, log, secretKey })],
      nudge,
    }),
  ];
}

/** Returns the routes for an account's settings. */
function settingRoutes({
  parts,
  options,
  callers,
  linkBase,
  searches,
  nudge,
}: RouteContext): RouteDefinition<Caller>[] {
  const { config, database, blobs, clock, secretKey, dns, addressHash } = parts;
  const freshDns = () => openDns({ servers: config.dnsServers, dnssec: config.dnssec });
  return [
    ...domainRoutes({
      database,
      clock,
      freshDns,
      secretKey,
      sendingHost: config.smtpHostname,
      bounceDomain: config.bounceDomain,
      baseUrl: config.baseUrl,
      isServed: createHostProbe(options.http),
    }),
    ...inboundMailRoutes({ database, blobs, clock, links: createInboundLinks(linkBase) }),
    ...inboundRouteRoutes({
      database,
      clock,
      secretKey,
      freshDns,
      mx: mxOf(config),
      checkUrl: (url) => checkUrl(url, { lookup: dns.lookupHost, allow: ranges(config.webhookAllow) }),
    }),
    ...suppressionRoutes({ database, clock, searches, addressHash }),
    ...erasureRoutes({ database, clock, secretKey, addressHash, nudge: options.nudgeErasures }),
    ...incidentRoutes({ database, clock, nudge }),
    ...requestLogRoutes({
      database,
      clock,
      searches,
      requestLog: options.requestLog,
      keepDays: Math.min(KEPT_DAYS, config.eventDays),
    }),
    ...accountRoutes({
      database,
      clock,
      callers,
      logins: options.logins,
      nudge,
      submissionPorts: options.submissionPorts,
      signingSecretKey: config.doors.includes('ses') ? secretKey : undefined,
    }),
    ...approvalRoutes({ database, clock }),
    ...auditRoutes<Caller>({ database, addressHash }),
  ];
}

/** Returns the routes for sessions, users, and members. */
function peopleRoutes({ parts, options, sessions, linkBase }: RouteContext): RouteDefinition<Caller>[] {
  const { database, clock, log } = parts;
  return userRoutes({
    database,
    clock,
    log,
    secretKey: linkBase.secretKey,
    sessions,
    mail: options.mail,
    oidc: oidcSettings(parts.config),
    get baseUrl() {
      return linkBase.baseUrl;
    },
  });
}

function oidcSettings({ oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret }: Parts['config']) {
  return issuer === undefined || clientId === undefined ? undefined : { issuer, clientId, clientSecret };
}

/** Authenticates a request by the API key in its headers. */
function byHeaders(callers: Authenticator): Authenticate<Caller> {
  return (headers) => callers(headerValue(headers['x-api-key']), headerValue(headers['x-id']));
}

/** Returns the routes for operators. */
function operatorToolRoutes({ parts, options, callers, operatorKeys, nudge }: RouteContext): RouteDefinition<Caller>[] {
  const { database, blobs, clock, log, config, overload } = parts;
  return [
    ...operatorRoutes({
      database,
      blobs,
      clock,
      log,
      callers,
      logins: options.logins,
      operatorKeys,
      nodes: options.nodes,
      nudge,
      doctor: createDoctor(parts),
      queueDepth: () => overload.queue().depth,
      isRelayed: config.route.kind !== 'mx',
    }),
    ...operatorAuditRoutes<Caller>({ database }),
  ];
}

/** Creates the HTTP server of a process with the api role. */
export function createApi(parts: Parts, options: ApiOptions): HttpApp {
  const { config, database, clock, log, metrics, overload } = parts;
  const authenticator = options.callers;
  let app: HttpApp | undefined;
  const portOf = (): number => (app?.server.address() as AddressInfo | null | undefined)?.port ?? config.httpPort;
  const linkBase: LinkBase = {
    secretKey: parts.secretKey,
    urlOf: options.trackingUrlOf,
    get baseUrl() {
      return config.baseUrl ?? `http://localhost:${portOf()}`;
    },
  };
  const basePath = basePathOf(linkBase.baseUrl);
  const sessions = createSessions({
    database,
    clock,
    log,
    get baseUrl() {
      return linkBase.baseUrl;
    },
  });
  const operatorKeys = createOperatorKeys({ database, clock });
  const templates = createTemplateSource({ database, clock });
  const routes = apiRoutes({ parts, templates, options, callers: authenticator, sessions, operatorKeys, linkBase });
  const doors = doorsOf({ parts, options, templates, linkBase, callers: authenticator, routes });
  const agents = agentInterface({ parts, routes, linkBase, callers: authenticator });
  const service = serviceRoutes<Caller>({ ...serviceOptions(parts), openapi: () => openapi() });
  const openapi = (): unknown => createOpenapi([...routes, ...service], documentOptions(linkBase.baseUrl));
  app = createHttpApp({
    host: config.httpHost,
    port: config.httpPort,
    tls: tlsPortOf(parts, options),
    log,
    metrics,
    trustedProxies: ranges(config.trustedProxies),
    tracer: parts.tracer,
    onUntrustedProxy: createUntrustedProxyNote(parts),
    routes: [
      ...routes,
      ...service,
      ...acmeRoutes(parts),
      ...doors.flatMap((one) => one.routes),
      ...agents.flatMap((one) => one.routes),
      ...referenceRoutes<Caller>(openapi),
      ...guideRoutes<Caller>({ basePath }),
      ...docsTextRoutes<Caller>(createDocs(), { basePath }),
      ...portalRoutes<Caller>({ hasIdentityProvider: oidcSettings(config) !== undefined, basePath }),
    ],
    doors: [...agents, ...doors].map((one) => one.door),
    authenticate: byHeaders(authenticator),
    sessions,
    operatorKeys: operatorKeys.authenticate,
    basePath,
    backPressure: () => {
      const [first] = overload.reasons();
      return first && { code: first.part === 'storage' ? 'UNAVAILABLE' : 'OVERLOADED', reason: first.message };
    },
    onAdmitted: (caller, address) => options.credentialUses.note(caller, address),
    // A user without an account has no list of requests.
    onAnswered: (answered) => 'account' in answered.caller && recordCall(options.requestLog, clock, answered),
    ...(config.rateLimit === undefined ? {} : { rateLimitPerSecond: config.rateLimit, rateShare: options.rateShare }),
  });
  return app;
}

interface DoorSetup extends Pick<RouteSetup, 'parts' | 'options' | 'callers' | 'linkBase'> {
  templates: TemplateSource;
  routes: readonly RouteDefinition<Caller>[];
}

/** Returns the APIs of other services (Resend, Amazon SES) that the operator enabled. */
function doorsOf({ parts, options, templates, linkBase, callers, routes }: DoorSetup) {
  const { config, database, blobs, clock } = parts;
  if (config.doors.length === 0) return [];
  const call = createInnerCalls(routes);
  const create = {
    resend: () =>
      createResendDoor({
        database,
        blobs,
        clock,
        http: options.http,
        linkBase,
        callers,
        call,
        templatesChanged: (accountId) => templates.changed(accountId),
      }),
    ses: () =>
      createSesDoor({
        clock,
        linkBase,
        callers,
        call,
        submit: submitOf(parts, options, linkBase),
        hostname: config.smtpHostname,
        rateLimit: config.rateLimit,
      }),
  };
  return config.doors.map((name) => create[name]());
}

/** Returns a function that accepts complete emails over HTTP. */
function submitOf(parts: Parts, options: ApiOptions, linkBase: LinkBase): Submit {
  const { database, blobs, clock, addressHash } = parts;
  return createSubmit({
    database,
    blobs,
    clock,
    addressHash,
    directDispatch: options.directDispatch,
    inFlight: createInFlightKeys(),
    trackingLinks: createTrackingLinks(linkBase),
    isVerified: createSenderCheck({ database, clock }).isVerified,
    onAccepted: (accepted) => noteAccepted(parts, options, accepted),
  });
}

/** Returns the MCP endpoint for AI agents, if it is enabled. */
function agentInterface(setup: {
  parts: Parts;
  routes: RouteDefinition<Caller>[];
  linkBase: LinkBase;
  callers: Authenticator;
}): Mcp[] {
  const { parts, routes, callers } = setup;
  const { mcp: access } = parts.config;
  if (access === 'off') return [];
  return [createMcp(Object.assign(agentChanges(setup, routes), { access, callers, version: VERSION }))];
}

/** Returns the routes that certificate authorities call, if Postrider obtains certificates with ACME. */
function acmeRoutes({ config, database }: Parts): RouteDefinition<Caller>[] {
  return config.acmeEmail === undefined ? [] : challengeRoutes<Caller>({ database });
}

function tlsPortOf({ config }: Parts, { tls }: ApiOptions): { port: number; context(): SecureContext } | undefined {
  return tls && config.httpsPort !== undefined ? { port: config.httpsPort, context: tls.context } : undefined;
}

/** Creates the HTTP server of a process without the api role, which serves only /health, /ready, /metrics, and ACME challenges. */
export function createServicePort(parts: Parts): HttpApp {
  const { config, log, metrics } = parts;
  return createHttpApp<Caller>({
    host: config.httpHost,
    port: config.httpPort,
    log,
    metrics,
    trustedProxies: ranges(config.trustedProxies),
    routes: [...serviceRoutes<Caller>(serviceOptions(parts)), ...acmeRoutes(parts)],
    authenticate: () => refuse(failure('UNAUTHORIZED')),
  });
}

function serviceOptions({ config, metrics, overload }: Parts): ServiceOptions {
  return {
    metrics,
    ...(config.metricsToken === undefined ? {} : { metricsToken: config.metricsToken }),
    notReady: () => overload.reasons().map((reason) => ({ field: reason.part, message: reason.message })),
  };
}

/** Returns why the caller may not send from the address in a stored header; undefined if it may. */
async function checkSender(senders: SenderCheck, caller: Caller, headerFrom: string): Promise<Failure | undefined> {
  if (caller.mode === 'sandbox' && caller.allowedSenders.length === 0) return undefined;
  const from = parseAddress(headerFrom);
  return from.ok ? senderFailure(caller, from.value, senders.isVerified) : failure('SENDER_NOT_VERIFIED');
}

/** Returns the value of a header. Node joins repeated headers with commas, which no key contains; only Set-Cookie is a list. */
function headerValue(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
