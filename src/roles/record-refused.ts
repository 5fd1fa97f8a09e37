/** Records what HTTP, a batch, or an SMTP session refuses to a known caller, for `GET /requests`. */
import type { Caller } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { errorCatalog, type Failure } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { RefusedCall } from '../http/app.ts';
import type { RouteRequest } from '../http/route.ts';
import { detailsOfItem, type RefusedRequest, type RefusedRequests } from '../refused-requests/refused-requests.ts';
import type { RefusedCommand } from '../smtp/smtp.ts';

type Recorder = Pick<RefusedRequests, 'record'>;

function ownerOf({ account, mode, keyId }: Caller): Pick<RefusedRequest, 'accountId' | 'mode' | 'credentialId'> {
  return { accountId: account.id, mode, credentialId: keyId };
}

/** Logged-in users see why a call failed on the page that made it, such as an unfinished tag in the template editor. */
function isRecorded(caller: Partial<Caller>): caller is Caller {
  return caller.account !== undefined && caller.actor?.kind !== 'user';
}

export function recordCall(to: Recorder, clock: Clock, refused: RefusedCall<Caller>): void {
  const { caller, requestId, route: call, remoteAddress: address, status, refusal } = refused;
  if (!isRecorded(caller)) return;
  const { code, message, details } = refusal;
  to.record({
    ...ownerOf(caller),
    requestId,
    atMs: clock.now(),
    source: 'api',
    call,
    status,
    code,
    message,
    details,
    address,
  });
}

interface RefusedItem {
  request: RouteRequest<Caller>;
  index: number;
  refusal: Pick<Failure, 'code' | 'message' | 'details'>;
}

export function recordItem(to: Recorder, clock: Clock, { request, index, refusal }: RefusedItem): void {
  const { caller, requestId, remoteAddress: address } = request;
  if (!isRecorded(caller)) return;
  const { code, message } = refusal;
  to.record({
    ...ownerOf(caller),
    requestId,
    atMs: clock.now(),
    source: 'api',
    call: 'POST /send/batch',
    status: errorCatalog[code].status,
    code,
    message,
    details: detailsOfItem(index, refusal),
    address,
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
    code,
    message,
    details: [],
    address,
  });
}
