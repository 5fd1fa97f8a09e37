/**
 * The webhook endpoints of the simulated customer. Each returns 2xx, fails for a while, hangs, disconnects, redirects, asks for time with
 * 429, or responds slowly, as the seed decides; one may return 410 from some request on. Every request is recorded with its time and its
 * response.
 */
import { EVENT_TYPES } from '../../src/events/events.ts';
import type { Network, SimSocket } from './network.ts';
import type { Random } from './random.ts';
import type { Process } from './timeline.ts';

/** How an endpoint treats one request; `hang` never responds, `cut` closes the connection without a response. */
export type Treatment = number | 'hang' | 'cut';

/** A request that an endpoint received completely. Times are virtual ms. */
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
  /** It returns 410 from this request on; 0 for never. */
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
const LONGEST_RETRY_AFTER_SECONDS = 1_800;

interface ReceiverOptions {
  plans: readonly EndpointPlan[];
  /** Every endpoint accepts everything from then on, virtual ms. */
  badUntilMs: number;
  random: Random;
  count(what: string): void;
}

export function startReceiver(network: Network, { plans, badUntilMs, random, count }: ReceiverOptions): Receiver {
  const { timeline } = network;
  const endpoints = plans.map(
    ({ types, manners }, at): Endpoint => ({
      url: `http://${RECEIVER_ADDRESS}/hook-${at}`,
      types,
      manners,
      received: [],
    }),
  );
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

  const answer = (socket: SimSocket, one: Received, { manners }: Endpoint): void => {
    const { treatment } = one;
    if (treatment === 'hang') {
      count('hanging webhook');
      return;
    }
    one.endedMs = timeline.nowMs;
    if (treatment === 'cut') {
      count('webhook connection cut');
      socket.destroy(new Error('cut'));
      return;
    }
    if (treatment !== 200) count(`webhook response ${treatment}`);
    if (!socket.writable) return;
    const heard = (): void => {
      one.heardAtMs = timeline.nowMs;
    };
    const whenWritten = (): void => socket.whenHeard(heard);
    const fields = ['Content-Length: 2'];
    if (treatment === 302) fields.push(`Location: http://${RECEIVER_ADDRESS}${ELSEWHERE}`);
    if (one.retryAfterMs > 0) fields.push(`Retry-After: ${one.retryAfterMs / 1000}`);
    const head = `HTTP/1.1 ${treatment} Said\r\n${fields.join('\r\n')}\r\n\r\n`;
    if (treatment === 200 && timeline.nowMs < badUntilMs && random.chance(manners.drips)) {
      count('slow webhook response');
      socket.write(`${head}o`);
      timeline.after(random.between(100, 20_000), 'hook drips', () => {
        if (socket.writable) socket.write('k', whenWritten);
      });
      return;
    }
    socket.write(`${head}ok`, whenWritten);
  };

  const take = (socket: SimSocket, path: string, head: string, body: string): void => {
    const [plain = '', query] = path.split('?');
    const endpoint = endpoints.find(({ url }) => url.endsWith(plain));
    if (endpoint === undefined) {
      receiver.followed += 1;
      return;
    }
    const event = JSON.parse(body) as { eventId: string; eventType: string; messageId: string };
    const treatment = treat(endpoint);
    const one: Received = {
      webhookId: /\r\nwebhook-id: (.*)/i.exec(head)?.[1] ?? '',
      eventId: event.eventId,
      type: event.eventType,
      messageId: event.messageId,
      atMs: timeline.nowMs,
      endedMs: Number.POSITIVE_INFINITY,
      treatment,
      isMoved: query === MOVED,
      retryAfterMs: treatment === 429 ? 1_000 * (1 + random.below(LONGEST_RETRY_AFTER_SECONDS)) : 0,
      isAccepted: treatment === 200,
      heardAtMs: undefined,
      sender: socket.remoteProcess,
    };
    endpoint.received.push(one);
    timeline.note(`hook ${one.type}`);
    if (treatment === 'hang' || treatment === 'cut' || treatment === 500) answer(socket, one, endpoint);
    else timeline.after(random.between(1, 200), 'hook answers', () => answer(socket, one, endpoint));
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
