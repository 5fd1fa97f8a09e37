/** Records the calls of a known caller, and what a batch or an SMTP session refuses to it, for `GET /requests`. */
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { detailsOf, errorCatalog, type ShownFailure } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { AnsweredCall } from '../http/app.ts';
import type { RouteRequest } from '../http/route.ts';
import { detailsOfItem, type LoggedRequest, type RequestLog, redactPath } from '../request-log/request-log.ts';
import type { RefusedCommand } from '../smtp/smtp.ts';

type Recorder = Pick<RequestLog, 'record'>;

function ownerOf({ account, mode, keyId }: Caller): Pick<LoggedRequest, 'accountId' | 'mode' | 'credentialId'> {
  return { accountId: account.id, mode, credentialId: keyId };
}

/** The portal makes many calls for its pages, and shows on the page why one failed. */
function isRecorded(caller: Partial<Caller>): caller is Caller {
  return caller.account !== undefined && caller.actor?.kind !== 'user';
}

/** Returns the path with its ids; undefined if the route has none. */
function pathOf({ route, params }: Pick<AnsweredCall<Caller>, 'route' | 'params'>): string | undefined {
  return route.includes(':') ? redactPath(route.slice(route.indexOf(' ') + 1), params) : undefined;
}

export function recordCall(to: Recorder, clock: Clock, answered: AnsweredCall<Caller>): void {
  const { caller, route, status, refusal, messageId, userAgent } = answered;
  if (!isRecorded(caller)) return;
  const durationMs = Math.floor(answered.durationMs);
  to.record({
    ...ownerOf(caller),
    requestId: answered.requestId,
    atMs: clock.now() - durationMs,
    source: 'api',
    call: route,
    path: pathOf(answered),
    status,
    refusal: refusal && { ...refusal, details: detailsOf(refusal) },
    durationMs,
    messageId,
    address: answered.remoteAddress,
    userAgent,
  });
}

interface RefusedItem {
  request: RouteRequest<Caller>;
  index: number;
  refusal: ShownFailure;
}

export function recordItem(to: Recorder, clock: Clock, { request, index, refusal }: RefusedItem): void {
  const { caller, requestId, remoteAddress: address } = request;
  if (!isRecorded(caller)) return;
  const { code, message } = refusal;
  const details = detailsOfItem(index, refusal);
  to.record({
    ...ownerOf(caller),
    requestId,
    atMs: clock.now(),
    source: 'api',
    call: 'POST /send/batch',
    status: errorCatalog[code].status,
    refusal: { code, message, details },
    address,
    userAgent: request.headers['user-agent'],
  });
}

/** Code, enhanced code, and text; Postrider's own replies have all three. */
const REPLY = /^(\d{3}) (\d\.\d{1,3}\.\d{1,3}) (.*)$/;

export function recordCommand(to: Recorder, clock: Clock, { caller, address, verb, reply }: RefusedCommand): void {
  const [, status, code = '', message = reply] = REPLY.exec(reply) ?? [];
  const atMs = clock.now();
  to.record({
    ...ownerOf(caller),
    requestId: newId('req', atMs),
    atMs,
    source: 'smtp',
    call: verb,
    status: Number(status ?? reply.slice(0, 3)),
    refusal: { code, message, details: [] },
    address,
  });
}
