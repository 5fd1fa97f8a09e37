/**
 * One request and its response, from the first header to the last byte. Handlers see it as RouteRequest. Parts that few handlers need
 * (abort signal, child log) are created on first use, through getters of a class.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { TLSSocket } from 'node:tls';
import type { Failure, Issue, Result } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Cidr } from '../net/address-guard.ts';
import { type Client, clientOf } from '../net/trusted-proxies.ts';
import type { Door } from './door.ts';
import type { BodyParser, Refusal, RouteRequest } from './route.ts';
import { type ParsedJson, parseStrictJson } from './strict-json.ts';

interface ActiveMember {
  /** Its index in its set; -1 if it is in none. */
  activeIndex: number;
}

/**
 * A set of objects that are added and removed thousands of times a second: a list in which the last member takes the slot of a removed one.
 * A native Set allocates a new table every few dozen changes, and old tables keep removed members alive until the next full garbage
 * collection.
 */
export class ActiveSet<T extends ActiveMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** An object can be in one set only. */
  add(member: T): void {
    if (member.activeIndex !== -1) return;
    member.activeIndex = this.#members.push(member) - 1;
  }

  delete(member: T): boolean {
    const index = member.activeIndex;
    if (index === -1) return false;
    const last = this.#members.pop()!;
    if (last !== member) {
      this.#members[index] = last;
      last.activeIndex = index;
    }
    member.activeIndex = -1;
    return true;
  }

  [Symbol.iterator](): Iterator<T> {
    return [...this.#members][Symbol.iterator]();
  }
}

export interface Load {
  inProgress: number;
  atMost?: number;
}

const NO_BYTES = Buffer.alloc(0);
const NO_QUERY = Object.freeze({});
const NO_ISSUES: readonly Issue[] = Object.freeze([]);

export class Exchange implements RouteRequest<unknown, unknown, unknown> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string = newId('req');
  /** performance.now() of the arrival. */
  readonly startedMs: number = performance.now();
  readonly parentLog: Log;
  private readonly trustedProxies: readonly Cidr[];
  private knownClient: Client | undefined = undefined;
  caller: unknown = undefined;
  params: Readonly<Record<string, string>> = NO_QUERY;
  query: unknown = NO_QUERY;
  inputIssues: readonly Issue[] = NO_ISSUES;
  body: unknown = undefined;
  rawBody: Buffer = NO_BYTES;
  /** The route's strict parser; set by the pipeline. */
  parser: BodyParser | undefined = undefined;
  /** Headers to add to any response that does not set them itself (rate limits). */
  extraHeaders: Record<string, string> | undefined = undefined;
  /** Pattern of the route, for metrics; never the path. */
  routeName = 'unknown';
  /** Set while the body is being read; ends reading with a refusal. */
  failReading: ((refusal: Refusal) => void) | undefined = undefined;
  /** The bytes after the headers turned out not to be HTTP; nothing more can be read from this connection. */
  broken: Refusal | undefined = undefined;
  /** The client waits for 100 Continue before it sends a body, and has not received it. */
  waitsForContinue: boolean;
  /** Bytes of this body that count against the budget of all. */
  heldBytes = 0;
  /** How many bytes of a refused body may be discarded if the route buffers it; otherwise 0, for the standard. */
  discardsBytes = 0;
  discardedBytes = 0;
  /** The load of this route, if it is counted separately. */
  ownLoad: Load | undefined = undefined;
  countedIn: Load | undefined = undefined;
  activeIndex = -1;
  waits = false;
  /** The most members and elements of the JSON body, if the route accepts more than other routes. */
  maxJsonValues: number | undefined = undefined;
  acceptsMail = false;
  backPressure: Failure | undefined = undefined;
  mustClose = false;
  /** A handler consumes this body; no other code may wait for its end. */
  isStreamed = false;
  /** The interface of another service that the request came through. */
  door: Door | undefined = undefined;
  /** Whether the service is stopping and no longer waits for the remaining body. */
  isGivenUp = false;
  /** The client's trace context, if the request accepts mail. */
  callerTrace: string | undefined = undefined;
  /** The trace context of the request itself. */
  traceparent: string | undefined = undefined;
  /** The first message that the request accepted. */
  messageId: string | undefined = undefined;
  private isAborted = false;
  private controller: AbortController | undefined = undefined;
  private childLog: Log | undefined = undefined;
  private parsedJson: ParsedJson | undefined = undefined;

  constructor(request: IncomingMessage, response: ServerResponse, log: Log, trustedProxies: readonly Cidr[] = []) {
    this.request = request;
    this.response = response;
    this.parentLog = log;
    this.trustedProxies = trustedProxies;
    this.waitsForContinue = request.headers.expect !== undefined;
  }

  /** Reading the stream means that the body is wanted, so a client that waits for 100 Continue gets it. */
  get stream(): Readable {
    if (this.waitsForContinue) this.response.writeContinue();
    this.waitsForContinue = false;
    this.isStreamed = true;
    if (this.broken !== undefined || this.isGivenUp) process.nextTick(() => this.breakOff());
    return this.request;
  }

  /** Ends the body with an error for its reader. The connection stays open for the response. */
  breakOff(): void {
    if (this.request.listenerCount('error') > 0) this.request.emit('error', new Error('the body is not valid HTTP'));
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  get method(): string {
    return this.request.method ?? '';
  }

  get url(): string {
    return this.request.url ?? '';
  }

  /** Read at the first use: the socket forgets its address when it closes. */
  private get client(): Client {
    const { socket, headers } = this.request;
    this.knownClient ??= clientOf(socket.remoteAddress ?? '', headers, this.trustedProxies);
    return this.knownClient;
  }

  get remoteAddress(): string {
    return this.client.address;
  }

  /** The host that the client requested, if a trusted proxy reports it (X-Forwarded-Host). */
  get forwardedHost(): string | undefined {
    return this.client.host;
  }

  get isSecure(): boolean {
    return this.client.scheme === 'https' || this.request.socket instanceof TLSSocket;
  }

  get log(): Log {
    this.childLog ??= this.parentLog.child({ requestId: this.requestId });
    return this.childLog;
  }

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      const controller = new AbortController();
      this.controller = controller;
      if (this.isAborted || this.response.destroyed || this.request.socket.destroyed) controller.abort();
      else {
        this.response.once('close', () => {
          if (!this.response.writableFinished) controller.abort();
        });
      }
    }
    return this.controller.signal;
  }

  /** Aborts the signal, even if it is requested later. */
  abort(): void {
    this.isAborted = true;
    this.controller?.abort();
  }

  noteMessage(messageId: string): void {
    this.messageId ??= messageId;
  }

  headerValues(name: string): string[] {
    const wanted = name.toLowerCase();
    const raw = this.request.rawHeaders;
    const values: string[] = [];
    for (let index = 0; index < raw.length; index += 2) {
      if (raw[index]!.length === wanted.length && raw[index]!.toLowerCase() === wanted) values.push(raw[index + 1]!);
    }
    return values;
  }

  json(): ParsedJson {
    this.parsedJson ??= parseStrictJson(this.rawBody, this.maxJsonValues);
    return this.parsedJson;
  }

  parse(): Result<never> {
    if (this.parser === undefined) throw new Error('this route has no body to parse');
    return this.parser(this) as Result<never>;
  }
}
