/**
 * What comes back of mail that was taken: servers that bounce it later, or say that it waits behind them, mailbox providers that report a
 * complaint, recipients who answer, unsubscribe or are away, and forgers. Each repeats its mail until it hears 250, some once more, as
 * after an answer that was lost. What was acknowledged to them stands in their books, with what it has to change.
 */
import { createTokenAddresses } from '../../src/mail/token-address.ts';
import { deliveryReport, feedbackReport, outOfOffice } from '../kit/report-mail.ts';
import { expectCode, talker, Unexpected, untilDone } from './customers.ts';
import { OUR_ADDRESS } from './doors.ts';
import { here } from './globals.ts';
import { BOUNCE_DOMAIN, INBOUND_PORT } from './node.ts';
import type { Copy } from './peers.ts';
import type { Random } from './random.ts';

export const ROUTE_ADDRESS = 'support@in.shop.example';

/** Some 100 KB, beyond what a row of the database holds. */
const LARGE_LINES = 1_500;

const KINDS = [
  'bounce',
  'delay',
  'complaint',
  'unsubscribe',
  'reply',
  'relayed',
  'away',
  'forged',
  'unproven',
] as const;
export type ReportKind = (typeof KINDS)[number];

export interface Report {
  kind: ReportKind;
  copy: Copy;
  messageId: string;
  /** Its subject, where it is one of its own. */
  name: string;
  /** Lines of the text of a reply. */
  lines: number;
  /** How often its final dot was sent, and how often 250 came. */
  dots: number;
  acknowledged: number;
  strange: string[];
}

interface Reporting {
  secretKey: Uint8Array;
  random: Random;
  /** The share of copies of which something comes back. */
  share: number;
  /** The share of replies that are large. */
  largeShare: number;
  count(what: string): void;
  /** A final dot is sent. */
  onDot(): void;
  /** One more is at work, or one less. */
  busy(by: number): void;
}

const CONTENT: Record<ReportKind, (report: Report) => Buffer> = {
  bounce: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  delay: ({ copy: { recipient } }) =>
    deliveryReport({ recipient, action: 'delayed', status: '4.4.1', diagnostic: '451 4.4.1 try again' }),
  relayed: ({ copy: { recipient } }) =>
    Buffer.from(
      deliveryReport({ recipient, status: '2.0.0', diagnostic: '250 2.0.0 passed on' })
        .toString()
        .replace('Action: failed', 'Action: relayed'),
    ),
  complaint: ({ copy }) => feedbackReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  unsubscribe: ({ copy }) => Buffer.from(`From: ${copy.recipient}\r\nSubject: unsubscribe\r\n\r\n`),
  reply: ({ copy, name, lines }) => {
    const header = `From: ${copy.recipient}\r\nSubject: ${name}\r\nIn-Reply-To: ${copy.messageId}\r\n\r\n`;
    return Buffer.from(`${header}${`${'Thank you. '.repeat(6)}\r\n`.repeat(lines)}`);
  },
  away: ({ copy }) => outOfOffice(copy.recipient),
  forged: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  unproven: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
};

export class Reporters {
  readonly reports: Report[] = [];
  readonly #options: Reporting;
  readonly #tokens: ReturnType<typeof createTokenAddresses>;

  constructor(options: Reporting) {
    this.#options = options;
    this.#tokens = createTokenAddresses(options.secretKey);
  }

  /** A server took a copy: something may come back of it, some day. */
  taken(copy: Copy): void {
    const { random, share, largeShare, count, busy } = this.#options;
    const claim = this.#tokens.open(copy.returnPath.split('@')[0]!, Date.now());
    if (!random.chance(share) || claim === undefined || claim.isShared) return;
    const kind = random.pick(KINDS);
    const { messageId } = claim;
    const name = `reply ${this.reports.length}`;
    const own = random.stream(name);
    const lines = own.stream('size').chance(largeShare) ? LARGE_LINES : 1;
    const report: Report = { kind, copy, messageId, name, lines, dots: 0, acknowledged: 0, strange: [] };
    this.reports.push(report);
    count(`what comes back: ${kind}`);
    busy(1);
    const afterMs = own.chance(0.5) ? own.between(0, 3_000) : own.between(0, 3_600_000);
    const { timeline } = here();
    timeline.after(afterMs, 'report', () => void this.#send(report, own).then(() => busy(-1)), timeline.world);
  }

  async #send(report: Report, random: Random): Promise<void> {
    const bring = (): Promise<boolean> => this.#bring(report);
    await untilDone(bring, random);
    // As after a 250 that was lost.
    if (random.chance(0.25)) await untilDone(bring, random);
  }

  #addressOf({ kind, messageId, copy: { returnPath } }: Report): string {
    if (kind === 'reply') return ROUTE_ADDRESS;
    if (kind === 'unproven') return `abuse@${BOUNCE_DOMAIN}`;
    if (kind === 'unsubscribe')
      return `${this.#tokens.make('unsubscribe', { messageId }, Date.now())}@${BOUNCE_DOMAIN}`;
    // The last character of the id is another one.
    return kind === 'forged' ? returnPath.replace(/(.)(?=.{20}@)/, (one) => (one === 'a' ? 'b' : 'a')) : returnPath;
  }

  /** One session; true when there is nothing more to do. */
  async #bring(report: Report): Promise<boolean> {
    const { copy, kind } = report;
    const socket = here().network.connect({ host: OUR_ADDRESS, port: INBOUND_PORT }, copy.peerAddress);
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), 120_000);
    try {
      const { ask, reply } = talker(socket);
      await expectCode('220', reply());
      await expectCode('250', ask(`EHLO ${copy.peer}`));
      await expectCode(
        '250',
        ask(kind === 'reply' || kind === 'unsubscribe' ? `MAIL FROM:<${copy.recipient}>` : 'MAIL FROM:<>'),
      );
      const answer = await ask(`RCPT TO:<${this.#addressOf(report)}>`);
      if (kind === 'forged') {
        if (!/^[45]/.test(answer)) report.strange.push(`a forged address was taken: ${answer.trim()}`);
        return answer.startsWith('5');
      }
      await expectCode('250', Promise.resolve(answer));
      await expectCode('354', ask('DATA'));
      report.dots += 1;
      this.#options.onDot();
      await expectCode('250', ask(`${CONTENT[kind](report).toString('latin1')}\r\n.`));
      report.acknowledged += 1;
      return true;
    } catch (error) {
      if (error instanceof Unexpected && !/^4\d\d/.test(error.message)) report.strange.push(error.message);
      return false;
    } finally {
      clearTimeout(timer);
      socket.destroy();
    }
  }
}
