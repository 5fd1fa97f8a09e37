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
  readonly requestId: string;
}

/** A request whose caller is to be identified. */
export interface ArrivedRequest extends IdentifiedRequest {
  /** The host that the client requested, if a trusted proxy reports it. */
  readonly forwardedHost: string | undefined;
  /** Returns all values of this header. */
  headerValues(name: string): string[];
  /**
   * Reads the body, up to the limit of the route. Call this only for requests that probably have valid credentials, because the body is in
   * memory from then on. Resolves with a failure if the body cannot be read.
   */
  readBody(): Promise<Result<Buffer>>;
}

export interface Door {
  /** Prefix of the paths of its routes, such as `/resend`. */
  prefix: string;
  /** Returns whether a request at the root is for this door. */
  takes(request: Pick<IncomingMessage, 'headers' | 'url'>): boolean;
  identify(request: ArrivedRequest, access: Access): Promise<Result<CallerKey>>;
  /** Headers that identify the repeats of a request, if the door accepts mail under others than Idempotency-Key. */
  repeatHeaders?: readonly string[];
  /** Returns the response in the form of that service; called for every response. */
  shape(answer: HttpAnswer, request: DoorRequest): HttpAnswer;
}

/** Returns the door of a request, and adds its prefix to the URL; undefined for requests of Postrider's API. */
export function findDoor(doors: readonly Door[], request: IncomingMessage): Door | undefined {
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
