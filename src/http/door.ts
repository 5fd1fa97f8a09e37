/**
 * The interface of another service in front of this one: routes below a prefix, with that service's credentials and its shape of
 * refusals. A door also takes requests for its routes at the root, where their headers tell them apart from ours.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Result } from '../base/failure.ts';
import type { Access, IdentifiedRequest } from './identify.ts';
import type { CallerKey, HttpAnswer } from './route.ts';

/** What of a request an answer depends on. */
export interface DoorRequest {
  /** Method and pattern of the route; `unknown` where there is none. */
  readonly routeName: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** With the prefix. */
  readonly url: string;
}

export interface Door {
  /** In front of the path of each of its routes, such as `/resend`. */
  prefix: string;
  /** Whether a request at the root is for this door. */
  takes(request: Pick<IncomingMessage, 'headers' | 'url'>): boolean;
  identify(request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>>;
  /** The answer as that service would write it; called for each one. */
  shape(answer: HttpAnswer, request: DoorRequest): HttpAnswer;
}

/** The door that a request came through, which then has its prefix; undefined for requests of our own API. */
export function throughDoor(doors: readonly Door[], request: IncomingMessage): Door | undefined {
  const url = request.url ?? '/';
  for (const door of doors) {
    const rest = url.startsWith(door.prefix) ? url.slice(door.prefix.length) : undefined;
    if (rest === '' || rest?.startsWith('/') || rest?.startsWith('?')) return door;
    if (!door.takes(request)) continue;
    request.url = `${door.prefix}${url}`;
    return door;
  }
  return undefined;
}
