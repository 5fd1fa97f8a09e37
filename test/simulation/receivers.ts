/**
 * The webhook endpoints of the simulated customer. Each returns 2xx, fails for a while, hangs, disconnects, redirects, asks for time with
 * 429, or responds slowly, as the seed decides; one may return 410 from some request on. Some get several events per request, and may list
 * one of them as failed. Every event is recorded with the time and the response of its request.
 */
import { EVENT_TYPES } from '../../src/events/events.ts';
import type { Network, SimSocket } from './network.ts';
import type { Random } from './random.ts';
import type { Process } from './timeline.ts';

/** How an endpoint treats one request; `hang` never responds, `cut` closes the connection without a response. */
export type Treatment = number | 'hang' | 'cut';

/** An event that an endpoint received in a complete request. Times are virtual ms. */
export interface Received {
  webhookId: string;
  eventId: string;
  type: string;
  messageId: string;
  atMs: number;
  /** When the response was written or the connection was cut; Infinity while it hangs. */
  endedMs: number;
  treatment: Treatment;
  /** Whether it came to the URL that the customer changed the webhook to. */
  isMoved: boolean;
  /** Its Retry-After; 0 without one. */
  retryAfterMs: number;
  isAccepted: boolean;
  /** When the complete response had arrived at a live process. */
  heardAtMs: number | undefined;
  sender: Process | undefined;
}

export interface Manners {
  /** Shares of requests with this treatment. */
  fails: number;
  hangs: number;
  breaks: number;
  redirects: number;
  throttles: number;
  /** Share of 2xx responses with a slow body, up to longer than a request may last. */
  drips: number;
  /** The endpoint returns 500 until then, virtual ms. */
  downUntilMs: number;
  /** It returns 410 from this event on; 0 for never. */
  goneAfter: number;
}

export const NO_FAULTS: Manners = {
  fails: 0,
  hangs: 0,
  breaks: 0,
  redirects: 0,
  throttles: 0,
  drips: 0,
  downUntilMs: 0,
  goneAfter: 0,
};

export interface Endpoint {
  readonly url: string;
  /** The event types that it subscribes to. */
  readonly types: readonly string[];
  readonly manners: Manners;
  /** The most events of a request. */
  readonly maxBatch: number;
  readonly received: Received[];
}

export interface Receiver {
  /** The first one never returns 410. */
  readonly endpoints: readonly Endpoint[];
  /** Requests that followed a redirect: there should be none. */
  followed: number;
}

export function drawManners(random: Random): Manners {
  return {
    fails: random.chance(0.4) ? random.between(0, 0.5) : 0,
    hangs: random.chance(0.2) ? random.between(0, 0.2) : 0,
    breaks: random.chance(0.3) ? random.between(0, 0.3) : 0,
    redirects: random.chance(0.15) ? random.between(0, 0.3) : 0,
    throttles: random.chance(0.2) ? random.between(0, 0.4) : 0,
    drips: random.chance(0.15) ? random.between(0, 0.4) : 0,
    downUntilMs: random.chance(0.15) ? random.between(60_000, 3 * 3_600_000) : 0,
    goneAfter: 0,
  };
}

export interface EndpointPlan {
  types: readonly string[];
  manners: Manners;
}

/** Draws the types and behavior of additional endpoints. */
export function drawFurther(random: Random, share: number): EndpointPlan[] {
  if (!random.chance(share)) return [];
  return Array.from({ length: 1 + random.below(2) }, () => {
    const types = EVENT_TYPES.filter(() => random.chance(0.3));
    return {
      types: types.length > 0 ? types : ['Delivery'],
      manners: { ...drawManners(random), goneAfter: random.chance(0.35) ? 1 + random.below(4) : 0 },
    };
  });
}

export const RECEIVER_ADDRESS = '5.20.0.1';
const PORT = 80;
/** Query of a URL that the customer changed. */
export const MOVED = 'moved';
/** Target of redirects. */
const ELSEWHERE = '/elsewhere';
/** Share of endpoints that get several events per request, and of their requests in which they list one event as failed. */
const BATCHED = 0.3;
const LISTED_AS_FAILED = 0.2;
const LONGEST_RETRY_AFTER_SECONDS = 1_800;

interface SentEvent {
  eventId: string;
  eventType: string;
  messageId: string;
}

interface ReceiverOptions {
  plans: readonly EndpointPlan[];
  /** Every endpoint accepts everything from then on, virtual ms. */
  badUntilMs: number;
  random: Random;
  count(what: string): void;
}

export function startReceiver(network: Network, { plans, badUntilMs, random, count }: ReceiverOptions): Receiver {
  const { timeline } = network;
  const endpoints = plans.map(({ types, manners }, at): Endpoint => {
    const batches = random.stream(`batches ${at}`);
    return {
      url: `http://${RECEIVER_ADDRESS}/hook-${at}`,
      types,
      manners,
      maxBatch: batches.chance(BATCHED) ? batches.pick([2, 5, 100]) : 1,
      received: [],
    };
  });
  const receiver: Receiver = { endpoints, followed: 0 };

  const treat = ({ manners, received }: Endpoint): Treatment => {
    const { nowMs } = timeline;
    if (manners.goneAfter > 0 && received.length >= manners.goneAfter) return 410;
    if (nowMs >= badUntilMs) return 200;
    if (nowMs < manners.downUntilMs) return 500;
    let draw = random.next();
    const shares: [number, Treatment][] = [
      [manners.fails, 500],
      [manners.hangs, 'hang'],
      [manners.breaks, 'cut'],
      [manners.redirects, 302],
      [manners.throttles, 429],
    ];
    for (const [share, treatment] of shares) {
      if (draw < share) return treatment;
      draw -= share;
    }
    return 200;
  };

  const answer = (socket: SimSocket, all: readonly Received[], { manners }: Endpoint): void => {
    const { treatment, retryAfterMs } = all[0]!;
    if (treatment === 'hang') {
      count('hanging webhook');
      return;
    }
    for (const one of all) one.endedMs = timeline.nowMs;
    if (treatment === 'cut') {
      count('webhook connection cut');
      socket.destroy(new Error('cut'));
      return;
    }
    if (treatment !== 200) count(`webhook response ${treatment}`);
    if (!socket.writable) return;
    const heard = (): void => {
      for (const one of all) one.heardAtMs = timeline.nowMs;
    };
    const whenWritten = (): void => socket.whenHeard(heard);
    const failed = treatment === 200 ? all.filter(({ isAccepted }) => !isAccepted).map(({ eventId }) => eventId) : [];
    const body = failed.length > 0 ? JSON.stringify({ failed }) : 'ok';
    const fields = [`Content-Length: ${body.length}`];
    if (treatment === 302) fields.push(`Location: http://${RECEIVER_ADDRESS}${ELSEWHERE}`);
    if (retryAfterMs > 0) fields.push(`Retry-After: ${retryAfterMs / 1000}`);
    const head = `HTTP/1.1 ${treatment} Said\r\n${fields.join('\r\n')}\r\n\r\n`;
    if (treatment === 200 && timeline.nowMs < badUntilMs && random.chance(manners.drips)) {
      count('slow webhook response');
      socket.write(`${head}${body.slice(0, -1)}`);
      timeline.after(random.between(100, 20_000), 'hook drips', () => {
        if (socket.writable) socket.write(body.slice(-1), whenWritten);
      });
      return;
    }
    socket.write(`${head}${body}`, whenWritten);
  };

  /** Draws which event of a request is listed as failed, if one is. */
  const drawFailed = ({ maxBatch, url, received }: Endpoint, events: number): number | undefined => {
    if (maxBatch === 1 || timeline.nowMs >= badUntilMs) return undefined;
    const draw = random.stream(`failed ${url} ${received.length}`);
    return draw.chance(LISTED_AS_FAILED) ? draw.below(events) : undefined;
  };

  const take = (socket: SimSocket, path: string, head: string, body: string): void => {
    const [plain = '', query] = path.split('?');
    const endpoint = endpoints.find(({ url }) => url.endsWith(plain));
    if (endpoint === undefined) {
      receiver.followed += 1;
      return;
    }
    const sent = JSON.parse(body) as SentEvent | SentEvent[];
    const events = Array.isArray(sent) ? sent : [sent];
    const treatment = treat(endpoint);
    const retryAfterMs = treatment === 429 ? 1_000 * (1 + random.below(LONGEST_RETRY_AFTER_SECONDS)) : 0;
    const failedAt = drawFailed(endpoint, events.length);
    const all = events.map(
      (event, at): Received => ({
        webhookId: /\r\nwebhook-id: (.*)/i.exec(head)?.[1] ?? '',
        eventId: event.eventId,
        type: event.eventType,
        messageId: event.messageId,
        atMs: timeline.nowMs,
        endedMs: Number.POSITIVE_INFINITY,
        treatment,
        isMoved: query === MOVED,
        retryAfterMs,
        isAccepted: treatment === 200 && at !== failedAt,
        heardAtMs: undefined,
        sender: socket.remoteProcess,
      }),
    );
    endpoint.received.push(...all);
    timeline.note(`hook ${all.map(({ type }) => type).join()}`);
    if (all.length > 1) count('several events in a webhook request');
    if (treatment === 'hang' || treatment === 'cut' || treatment === 500) answer(socket, all, endpoint);
    else timeline.after(random.between(1, 200), 'hook answers', () => answer(socket, all, endpoint));
  };

  network.listen(`${RECEIVER_ADDRESS}:${PORT}`, (socket) => {
    let text = '';
    socket.on('error', () => undefined);
    socket.on('end', () => socket.end());
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const head = text.indexOf('\r\n\r\n');
      if (head < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
      if (Buffer.byteLength(text) < head + 4 + length) return;
      const body = text.slice(head + 4);
      const first = text.slice(0, head);
      text = '';
      take(socket, first.split(' ')[1]!, first, body);
    });
  });
  return receiver;
}
