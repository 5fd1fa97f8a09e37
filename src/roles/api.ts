/** The api role: every route of the HTTP surface, behind one shell. */

import { type Caller, createAuthenticator, type KnownCallers } from '../accounts/accounts.ts';
import { accountRoutes } from '../accounts/routes.ts';
import { type Failure, failure } from '../base/failure.ts';
import type { Metrics } from '../base/metrics.ts';
import { createSenderCheck, type SenderCheck } from '../domains/domains.ts';
import { domainRoutes } from '../domains/routes.ts';
import { eventRoutes } from '../events/routes.ts';
import { createHttpApp, type HttpApp } from '../http/app.ts';
import { docsPages } from '../http/docs.ts';
import { createOpenapi } from '../http/openapi.ts';
import type { RouteDefinition } from '../http/route.ts';
import { serviceRoutes } from '../http/service-routes.ts';
import { parseAddress } from '../mail/address.ts';
import { htmlToText } from '../mail/html-text.ts';
import type { Handover } from '../messages/messages.ts';
import { messageRoutes } from '../messages/routes.ts';
import { openDns } from '../net/dns.ts';
import { checkUrl, type HttpClient } from '../net/http-client.ts';
import { sandboxRoutes } from '../sandbox/routes.ts';
import { createSendRoutes } from '../send/routes.ts';
import { type Accepted, createClaims, createUnsubscribeLinks } from '../send/send.ts';
import { suppressionRoutes } from '../suppressions/routes.ts';
import { createRender } from '../templates/templates.ts';
import { webhookRoutes } from '../webhooks/routes.ts';
import { ABOUT } from './about.ts';
import { type Parts, ranges } from './parts.ts';

export interface ApiOptions {
  handover: Handover;
  http: HttpClient;
  nudgeDelivery(): void;
  nudgeWebhooks(): void;
}

/** Every route with a key. */
function apiRoutes(parts: Parts, options: ApiOptions, callers: KnownCallers): RouteDefinition<Caller>[] {
  const { config, database, blobs, clock, secretKey, dns } = parts;
  const allow = ranges(config.webhookAllow);
  const baseUrl = config.baseUrl ?? `http://localhost:${config.httpPort}`;
  const senders = createSenderCheck({ database, clock });
  return [
    ...createSendRoutes({
      database,
      blobs,
      clock,
      handover: options.handover,
      onAccepted: (accepted) => noteAccepted(parts.metrics, options, accepted),
      claims: createClaims(),
      isVerified: senders.isVerified,
      render: createRender(htmlToText),
      htmlToText,
      unsubscribeLinks: createUnsubscribeLinks({ secretKey, baseUrl }),
    }),
    ...messageRoutes({
      database,
      blobs,
      clock,
      judgeSender: (caller, headerFrom) => judgeSender(senders, caller, headerFrom),
      nudge: () => {
        options.nudgeDelivery();
        options.nudgeWebhooks();
      },
    }),
    ...eventRoutes({ database }),
    ...webhookRoutes({
      database,
      clock,
      secretKey,
      http: options.http,
      checkUrl: (url) => checkUrl(url, { lookup: dns.lookupHost, allow }),
      nudge: options.nudgeWebhooks,
    }),
    ...domainRoutes({
      database,
      clock,
      freshDns: () => openDns({ servers: config.dnsServers }),
      secretKey,
      sendingHost: config.smtpHostname,
    }),
    ...suppressionRoutes({ database, clock }),
    ...sandboxRoutes({ database, blobs, clock }),
    ...accountRoutes({ database, clock, callers }),
  ];
}

export function createApi(parts: Parts, options: ApiOptions): HttpApp {
  const { config, database, clock, log, metrics, overload } = parts;
  const authenticator = createAuthenticator({ database, clock });
  const routes = apiRoutes(parts, options, authenticator);
  const service = serviceRoutes<Caller>({
    metrics,
    ...(config.metricsToken === undefined ? {} : { metricsToken: config.metricsToken }),
    notReady: () => overload.reasons().map((reason) => ({ field: reason.part, message: reason.message })),
    openapi: () => openapi(),
  });
  const openapi = (): unknown => createOpenapi([...routes, ...service], ABOUT);
  return createHttpApp({
    host: config.httpHost,
    port: config.httpPort,
    log,
    metrics,
    routes: [...routes, ...service],
    pages: [docsPages(openapi)],
    authenticate: (headers) => authenticator(single(headers['x-api-key']), single(headers['x-id'])),
    intakeClosed: () => overload.reasons()[0]?.message,
    ...(config.rateLimit === undefined ? {} : { rateLimitPerSecond: config.rateLimit }),
  });
}

/** Counts what was accepted, and wakes those who wait for it. */
function noteAccepted(metrics: Metrics, options: ApiOptions, accepted: Accepted): void {
  let suppressed = 0;
  let waiting = 0;
  for (const { status } of accepted.recipients) {
    if (status === 'suppressed') suppressed += 1;
    if (status === 'queued') waiting += 1;
  }
  metrics.accepted[accepted.mode].inc(accepted.recipients.length);
  if (suppressed > 0) metrics.suppressed[accepted.mode].inc(suppressed);
  metrics.acceptSeconds.observe(accepted.tookMs / 1000);
  if (waiting > accepted.handedOver) options.nudgeDelivery();
  options.nudgeWebhooks();
}

/** Whether the account may still send from the address that a stored mail shows. */
async function judgeSender(senders: SenderCheck, caller: Caller, headerFrom: string): Promise<Failure | undefined> {
  if (caller.mode === 'sandbox') return undefined;
  const from = parseAddress(headerFrom);
  const verified = from.ok && (await senders.isVerified(caller.account.id, from.value.domain));
  return verified ? undefined : failure('SENDER_NOT_VERIFIED');
}

/** Node joins repeated headers of other names with commas, which no key contains; only a list is not one value. */
function single(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
