/**
 * One request and its answer, from the first header to the last byte. It is what a handler sees as RouteRequest. Parts
 * that few handlers ask for (abort signal, child log) are made when asked for: a class with getters, because one of these is made per
 * request and a literal with closures costs three times as much.
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
  /** Its index in its set; -1 in none. */
  activeIndex: number;
}

/**
 * A set of objects that come and go thousands of times a second: a list in which the last one takes the slot of the one that goes. A
 * Set grows a new table every few dozen changes, and each old one still names what it held and the table after it: once one of them
 * has been promoted by the collector, all that ever passed through the set since then is kept and promoted too, until the next
 * full collection.
 */
export class ActiveSet<T extends ActiveMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** An object may be in one set. */
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

  /** The members at this moment. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#members][Symbol.iterator]();
  }
}

/** Requests in work, of all routes or of one. */
export interface Load {
  inWork: number;
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
  /** Headers that go on this answer whatever it is (rate limits). */
  extraHeaders: Record<string, string> | undefined = undefined;
  /** Pattern of the route, for metrics; never the path. */
  routeName = 'unknown';
  /** Set while the body is being read: ends the reading with a refusal. */
  failReading: ((refusal: Refusal) => void) | undefined = undefined;
  /** The bytes after the headers turned out not to be HTTP; nothing more can be read from this connection. */
  broken: Refusal | undefined = undefined;
  /** The client waits for 100 Continue before it sends a body, and was not asked to. */
  waitsForContinue: boolean;
  /** Bytes of this body that count against the budget of all. */
  heldBytes = 0;
  /** What this route is counted in, apart from all others. */
  ownLoad: Load | undefined = undefined;
  countedIn: Load | undefined = undefined;
  activeIndex = -1;
  waits = false;
  /** The most members and elements of its JSON body, where the route takes more than others. */
  maxJsonValues: number | undefined = undefined;
  /** Its refusals are logged. */
  acceptsMail = false;
  backPressure: Failure | undefined = undefined;
  /** The connection must end with this answer. */
  mustClose = false;
  /** A handler consumes this body; nobody else may wait for its end. */
  isStreamed = false;
  /** The interface of another service that the request came through. */
  door: Door | undefined = undefined;
  /** The service stops and could not wait for the rest of the body any longer. */
  isGivenUp = false;
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

  /** Who asks for it wants the body, so a client that waits for 100 Continue gets it. */
  get stream(): Readable {
    if (this.waitsForContinue) this.response.writeContinue();
    this.waitsForContinue = false;
    this.isStreamed = true;
    if (this.broken !== undefined || this.isGivenUp) process.nextTick(() => this.breakOff());
    return this.request;
  }

  /** Ends the body with an error for its reader. The connection lives on: it is needed for the answer. */
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

  /** Aborts the signal, also where it is asked for later. */
  abort(): void {
    this.isAborted = true;
    this.controller?.abort();
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
