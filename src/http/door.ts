/**
 * The interface of another service ("door"): routes below a prefix, with the credentials and the errors of that service. A door also
 * accepts requests at the root if their headers distinguish them from requests of Postrider's API.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Result } from '../base/failure.ts';
import type { Access, IdentifiedRequest } from './identify.ts';
import type { CallerKey, HttpAnswer } from './route.ts';

/** The parts of a request on which its response depends. */
export interface DoorRequest {
  /** Method and pattern of the route; `unknown` if there is none. */
  readonly routeName: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  /** The URL with the prefix. */
  readonly url: string;
}

export interface Door {
  /** Prefix of the paths of its routes, such as `/resend`. */
  prefix: string;
  /** Returns whether a request at the root is for this door. */
  takes(request: Pick<IncomingMessage, 'headers' | 'url'>): boolean;
  identify(request: IdentifiedRequest, access: Access): Promise<Result<CallerKey>>;
  /** Returns the response in the form of that service; called for every response. */
  shape(answer: HttpAnswer, request: DoorRequest): HttpAnswer;
}

/** Returns the door of a request, and adds its prefix to the URL; undefined for requests of Postrider's API. */
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
