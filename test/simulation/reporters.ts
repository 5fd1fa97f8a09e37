/**
 * Inbound mail about delivered messages: servers that bounce later or report a delay, mailbox providers that report a complaint, recipients
 * who reply, unsubscribe or are away, and forgers. Each retries until it gets 250, some once more, as after a lost reply. They record what
 * was acknowledged to them, and its expected effect.
 */
import { createTokenAddresses } from '../../src/mail/token-address.ts';
import { deliveryReport, feedbackReport, outOfOffice } from '../kit/report-mail.ts';
import { expectCode, talker, Unexpected, untilDone } from './customers.ts';
import { here } from './globals.ts';
import { BOUNCE_DOMAIN, INBOUND_PORT } from './node.ts';
import type { Copy } from './peers.ts';
import type { Random } from './random.ts';
import { OUR_ADDRESS } from './simulated-io.ts';

export const ROUTE_ADDRESS = 'support@in.shop.example';

/** About 100 KB, more than a row of the database stores. */
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
  'abuse',
  'person',
  'expired',
  'redated',
] as const;
export type ReportKind = (typeof KINDS)[number];
/** Kinds with an unknown address: forged, with another date than it says, or expired. */
const REFUSED: ReadonlySet<ReportKind> = new Set(['forged', 'expired', 'redated']);
/** Kinds that people write themselves. */
const OF_PEOPLE: ReadonlySet<ReportKind> = new Set(['reply', 'unsubscribe', 'person']);
const DAY_MS = 86_400_000;

export interface Report {
  kind: ReportKind;
  copy: Copy;
  messageId: string;
  /** Its subject, if it has its own. */
  name: string;
  /** The address that it is sent to. */
  to: string;
  /** Lines of the text of a reply. */
  lines: number;
  /** How often its final dot was sent, and how often 250 was received. */
  dots: number;
  acknowledged: number;
  /** Its server tried for hours without a final reply. */
  isGivenUp: boolean;
  strange: string[];
}

interface Reporting {
  secretKey: Uint8Array;
  random: Random;
  /** The share of copies that cause a report. */
  share: number;
  /** The share of large replies. */
  largeShare: number;
  count(what: string): void;
  /** Called when a final dot is sent. */
  onDot(): void;
  /** Changes the number of running reporters. */
  busy(by: number): void;
}

const CONTENT: Record<ReportKind, (report: Report) => Buffer> = {
  bounce: ({ copy, lines }) =>
    deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId, isLarge: lines > 1 }),
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
  abuse: ({ copy }) => {
    const { recipient, messageId: headerMessageId, returnPath } = copy;
    return feedbackReport({ recipient, headerMessageId, quoted: `Return-Path: <${returnPath}>` });
  },
  person: ({ copy }) => Buffer.from(`From: ${copy.recipient}\r\nSubject: who are you?\r\n\r\nI got 550 5.1.1.\r\n`),
  away: ({ copy }) => outOfOffice(copy.recipient),
  forged: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  unproven: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  expired: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
  redated: ({ copy }) => deliveryReport({ recipient: copy.recipient, headerMessageId: copy.messageId }),
};

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';

/** Returns the address with one character of its token changed, at a distance from its domain. */
const altered = (address: string, before: number, exchange: (value: number) => number): string =>
  address.replace(new RegExp(`(.)(?=.{${before}}@)`), (one) => BASE32[exchange(BASE32.indexOf(one))]!);

const another = (value: number): number => (value + 1) % 32;
/** Changes the character with the lowest four bits of the day, and one of the MAC: two days before, or the next day. */
const otherDay = (value: number): number => (value < 4 ? value + 2 : value - 4);

export class Reporters {
  readonly reports: Report[] = [];
  readonly #options: Reporting;
  readonly #tokens: ReturnType<typeof createTokenAddresses>;

  constructor(options: Reporting) {
    this.#options = options;
    this.#tokens = createTokenAddresses(options.secretKey);
  }

  /** Call when a server accepted a copy: it may cause a report later. */
  taken(copy: Copy): void {
    const { random, share, largeShare, count, busy } = this.#options;
    const claim = this.#tokens.open(copy.returnPath.split('@')[0]!, Date.now());
    if (!random.chance(share) || claim === undefined || claim.isShared) return;
    const kind = random.pick(KINDS);
    const { messageId } = claim;
    const name = `reply ${this.reports.length}`;
    const own = random.stream(name);
    const lines = own.stream('size').chance(largeShare) ? LARGE_LINES : 1;
    const to = this.#addressOf(kind, { copy, messageId, random: own.stream('address') });
    const progress = { dots: 0, acknowledged: 0, isGivenUp: false, strange: [] };
    const report: Report = { kind, copy, messageId, name, to, lines, ...progress };
    this.reports.push(report);
    count(`what comes back: ${kind}`);
    busy(1);
    const afterMs = own.chance(0.5) ? own.between(0, 3_000) : own.between(0, 3_600_000);
    const { timeline } = here();
    timeline.after(afterMs, 'report', () => void this.#send(report, own).then(() => busy(-1)), timeline.world);
  }

  async #send(report: Report, random: Random): Promise<void> {
    const bring = (): Promise<boolean> => this.#bring(report);
    report.isGivenUp = !(await untilDone(bring, random));
    // As after a lost 250.
    if (random.chance(0.25)) await untilDone(bring, random);
  }

  #addressOf(
    kind: ReportKind,
    { copy: { returnPath }, messageId, random }: { copy: Copy; messageId: string; random: Random },
  ): string {
    const tokenOf = (use: 'bounce' | 'unsubscribe', daysAgo = 0): string =>
      `${this.#tokens.make(use, { messageId }, Date.now() - daysAgo * DAY_MS)}@${BOUNCE_DOMAIN}`;
    switch (kind) {
      case 'reply':
        return ROUTE_ADDRESS;
      case 'unproven':
      case 'abuse':
        return `abuse@${BOUNCE_DOMAIN}`;
      case 'person':
        return random.pick([`abuse@${BOUNCE_DOMAIN}`, `Postmaster@${BOUNCE_DOMAIN}`, 'postmaster']);
      case 'unsubscribe':
        return tokenOf('unsubscribe');
      case 'expired':
        // The clock may be set by a day in the meantime.
        return random.chance(0.5)
          ? tokenOf('bounce', 17 + random.below(60))
          : tokenOf('unsubscribe', 93 + random.below(60));
      case 'forged':
        // Changes the id.
        return altered(returnPath, 20, another);
      case 'redated':
        return altered(returnPath, 16, otherDay);
      default:
        return returnPath;
    }
  }

  /** Runs one session; returns true when nothing is left to do. */
  async #bring(report: Report): Promise<boolean> {
    const { copy, kind } = report;
    const socket = here().network.connect({ host: OUR_ADDRESS, port: INBOUND_PORT }, copy.peerAddress);
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), 120_000);
    try {
      const { ask, reply } = talker(socket);
      await expectCode('220', reply());
      await expectCode('250', ask(`EHLO ${copy.peer}`));
      await expectCode('250', ask(OF_PEOPLE.has(kind) ? `MAIL FROM:<${copy.recipient}>` : 'MAIL FROM:<>'));
      const answer = await ask(`RCPT TO:<${report.to}>`);
      if (REFUSED.has(kind)) {
        if (!/^(?:4|550 5\.1\.1 )/.test(answer)) report.strange.push(`an address that is nobody's: ${answer.trim()}`);
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
