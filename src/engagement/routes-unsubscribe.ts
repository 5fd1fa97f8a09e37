/**
 * `/unsubscribe/{token}`: the page that a recipient's own link leads to. Opening it changes nothing, however often machines do;
 * posting to it unsubscribes, from the page's button or from a mail program (RFC 8058), without log-in and without a
 * question. Repeating it is harmless.
 */
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { sameAddressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import { senderOfOperation, type Unsubscribing, unsubscribeOperation } from './engagement-store.ts';
import { UNSUBSCRIBE_PATH, type UnsubscribeLinks } from './unsubscribe-link.ts';
import { pageAnswer, unknownLink } from './unsubscribe-page.ts';

export interface UnsubscribeRouteDeps {
  database: Database;
  clock: Clock;
  unsubscribeLinks: UnsubscribeLinks;
  /** Tells the webhooks that there is an event. */
  nudge(): void;
}

/** Form fields are few and short; nothing in them is read but whether it is one-click. */
const MAX_BODY_BYTES = 10_000;

const tryLater = pageAnswer({
  status: 503,
  title: 'Please try again in a moment',
  paragraphs: ['Your wish could not be recorded right now. Nothing was changed.'],
  button: 'Try again',
  headers: { 'Retry-After': '5' },
});

export function unsubscribeRoutes(deps: UnsubscribeRouteDeps): RouteDefinition<Caller>[] {
  const { unsubscribeLinks } = deps;
  const shared = {
    path: `${UNSUBSCRIBE_PATH}:token`,
    tag: 'pages',
    auth: 'none',
    hidden: true,
    ownQuery: true,
  } as const;
  return [
    defineRoute({
      ...{ ...shared, method: 'GET' },
      summary: 'The unsubscribe page',
      response: { status: 200, contentType: 'text/html; charset=utf-8' },
      async handle({ params }: RouteRequest): Promise<RouteAnswer> {
        const claim = unsubscribeLinks.open(params.token ?? '');
        if (claim === undefined) return unknownLink();
        const from = await senderOf(deps.database, claim);
        return pageAnswer({
          status: 200,
          title: 'Unsubscribe?',
          paragraphs: [`Please confirm that ${claim.recipient} should get no more email${from && ` from ${from}`}.`],
          button: 'Unsubscribe',
        });
      },
    }),
    defineRoute({
      ...{ ...shared, method: 'POST', bodyType: 'raw', maxBodyBytes: MAX_BODY_BYTES },
      summary: 'Unsubscribe',
      response: { status: 200, contentType: 'text/html; charset=utf-8' },
      handle: (request: RouteRequest) => unsubscribe(deps, request),
    }),
  ];
}

/** Of the mail, as a page shows it; empty when it is not known, or cannot be looked up right now. */
async function senderOf(
  database: Database,
  { accountId, mode, messageId }: NonNullable<ReturnType<UnsubscribeLinks['open']>>,
): Promise<string> {
  try {
    return (await database.execute(senderOfOperation, { accountId, mode, messageId })) ?? '';
  } catch (error) {
    if (error instanceof Unavailable) return '';
    throw error;
  }
}

async function unsubscribe(deps: UnsubscribeRouteDeps, request: RouteRequest): Promise<RouteAnswer> {
  const claim = deps.unsubscribeLinks.open(request.params.token ?? '');
  if (claim === undefined) return unknownLink();
  const { accountId, mode, messageId, recipient } = claim;
  const nowMs = deps.clock.now();
  const isOneClick = /List-Unsubscribe\b[\s\S]{0,20}One-Click/i.test(request.rawBody.toString('latin1'));
  try {
    const wish: Unsubscribing = {
      ...{ accountId, mode, messageId, nowMs },
      email: sameAddressKey(recipient),
      method: isOneClick ? 'one-click' : 'page',
      eventId: newId('evt', nowMs),
    };
    const isNew = await deps.database.execute(unsubscribeOperation, wish);
    if (isNew) deps.nudge();
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    request.log.warn({ err: error }, 'an unsubscribing could not be recorded');
    return tryLater;
  }
  const from = await senderOf(deps.database, claim);
  return pageAnswer({
    status: 200,
    title: 'You are unsubscribed',
    paragraphs: [`${recipient} will get no more email${from && ` from ${from}`}. You can close this page.`],
  });
}
