/**
 * The endpoints of webhooks in the world: they answer 2xx, fail for a while, hang or break off. What they got is written down with the
 * ids it came under, answered or not.
 */
import type { Network } from './network.ts';
import type { Random } from './random.ts';

export interface Received {
  webhookId: string;
  eventId: string;
  type: string;
  messageId: string;
  isAccepted: boolean;
}

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
}

export interface ReceiverManners {
  fails: number;
  hangs: number;
  breaks: number;
  /** It is gone until then. */
  downUntilMs: number;
}

export function drawReceiver(random: Random): ReceiverManners {
  return {
    fails: random.chance(0.4) ? random.between(0, 0.5) : 0,
    hangs: random.chance(0.2) ? random.between(0, 0.2) : 0,
    breaks: random.chance(0.3) ? random.between(0, 0.3) : 0,
    downUntilMs: random.chance(0.15) ? random.between(60_000, 3 * 3_600_000) : 0,
  };
}

export const NO_RECEIVER: ReceiverManners = { fails: 0, hangs: 0, breaks: 0, downUntilMs: 0 };

export const RECEIVER_ADDRESS = '5.20.0.1';
const PORT = 80;

export function startReceiver(
  network: Network,
  {
    manners,
    badUntilMs,
    random,
    count,
  }: { manners: ReceiverManners; badUntilMs: number; random: Random; count(what: string): void },
): Receiver {
  const received: Received[] = [];
  const { timeline } = network;
  network.listen(`${RECEIVER_ADDRESS}:${PORT}`, (socket) => {
    let text = '';
    socket.on('error', () => undefined);
    socket.on('end', () => socket.end());
    const answer = (status: number): void => {
      if (!socket.writable) return;
      socket.write(`HTTP/1.1 ${status} Said\r\nContent-Length: 2\r\n\r\nok`);
    };
    const take = (head: string, body: string): unknown => {
      const webhookId = /\r\nwebhook-id: (.*)/i.exec(head)?.[1] ?? '';
      const event = JSON.parse(body) as { eventId: string; eventType: string; messageId: string };
      const isBad = timeline.nowMs < badUntilMs;
      const isDown = isBad && timeline.nowMs < manners.downUntilMs;
      const draw = isBad ? random.next() : 1;
      const isAccepted = !isDown && draw >= manners.fails + manners.hangs + manners.breaks;
      const { eventId, eventType: type, messageId } = event;
      received.push({ webhookId, eventId, type, messageId, isAccepted });
      timeline.note(`hook ${type}`);
      if (isDown || draw < manners.fails) {
        count('a webhook answered 500');
        return answer(500);
      }
      if (draw < manners.fails + manners.hangs) return count('a webhook that hangs');
      if (draw < manners.fails + manners.hangs + manners.breaks) {
        count('a webhook cut off');
        socket.destroy(new Error('cut'));
        return;
      }
      timeline.after(random.between(1, 200), 'hook answers', () => answer(200));
    };
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const head = text.indexOf('\r\n\r\n');
      if (head < 0) return;
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(text.slice(0, head))?.[1] ?? 0);
      if (Buffer.byteLength(text) < head + 4 + length) return;
      const body = text.slice(head + 4);
      const first = text.slice(0, head);
      text = '';
      take(first, body);
    });
  });
  return { url: `http://${RECEIVER_ADDRESS}/hook`, received };
}
