/**
 * The MX hosts of the row "the world": each kind is a row with its number per hundred and its behavior. Each host counts what it received:
 * who arrived and when, how many copies, and what it refused because of its limits.
 */
import { type SinkContext, type SinkRule, type SmtpSink, smtpSink } from '../test/kit/smtp-sink.ts';

export type Kind = 'tarpit' | 'connection limit' | 'rate limit' | 'greylisting' | 'broken TLS' | 'healthy';

export interface Exchanger {
  kind: Kind;
  domain: string;
  sink: SmtpSink;
  /** By recipient. */
  arrivals: Map<string, { atMs: number; copies: number }>;
  /** Connections and transactions refused because of their number. */
  refused: number;
  /** Returns what was offered: transactions, and connections refused before one. */
  offers(): number;
}

interface Behaviour {
  script: Partial<Record<'banner' | 'mail' | 'rcpt' | 'dot' | 'starttls', SinkRule>>;
  tls?: 'starttls';
}

type Describe = (counted: { sink: () => SmtpSink; refuse(): void }) => Behaviour;

const MAX_CONNECTIONS = 3;
/** Messages per minute that the second kind accepts; at 20 messages per second in total, about 35 arrive. */
const MAILS_A_MINUTE = 50;
const GREYLISTED_MS = 20_000;
const MINUTE_MS = 60_000;

const DESCRIPTIONS: Record<Kind, { count: number; describe: Describe }> = {
  // A tarpit replies slowly: every reply to MAIL and RCPT takes seconds.
  tarpit: { count: 5, describe: () => ({ script: { mail: { delayMs: 5_000 }, rcpt: { delayMs: 5_000 } } }) },
  'connection limit': {
    count: 3,
    describe: ({ sink, refuse }) => ({
      script: {
        banner: () => {
          if (sink().connections.now <= MAX_CONNECTIONS) return undefined;
          refuse();
          return { reply: '421 4.7.0 too many connections from your address', drop: true };
        },
        // Slow enough that messages overlap at the usual rate.
        dot: { delayMs: 2_000 },
      },
    }),
  },
  'rate limit': {
    count: 2,
    describe: ({ refuse }) => {
      let takenMs: number[] = [];
      const mail = (): { reply: string } | undefined => {
        takenMs = takenMs.filter((atMs) => atMs > Date.now() - MINUTE_MS);
        if (takenMs.length >= MAILS_A_MINUTE) {
          refuse();
          return { reply: '421 4.7.28 unusual rate of mail from your address, try again in 30 seconds' };
        }
        takenMs.push(Date.now());
        return undefined;
      };
      return { script: { mail } };
    },
  },
  greylisting: {
    count: 10,
    describe: () => {
      const seen = new Map<string, number>();
      const rcpt = ({ line }: SinkContext): string | undefined => {
        const firstMs = seen.get(line) ?? Date.now();
        seen.set(line, firstMs);
        return Date.now() - firstMs >= GREYLISTED_MS ? undefined : '451 4.7.1 Greylisted, please try again later';
      };
      return { script: { rcpt } };
    },
  },
  'broken TLS': { count: 1, describe: () => ({ tls: 'starttls', script: { starttls: { handshake: 'reset' } } }) },
  healthy: { count: 79, describe: () => ({ script: {} }) },
};

/** Returns how many hosts of each kind there are in a total. */
export function KINDS(total: number): { kind: Kind; count: number }[] {
  return (Object.keys(DESCRIPTIONS) as Kind[]).map((kind) => ({
    kind,
    count: Math.round((DESCRIPTIONS[kind].count * total) / 100),
  }));
}

export async function openExchanger(options: {
  kind: Kind;
  number: number;
  host: string;
  port: number;
}): Promise<Exchanger> {
  const { kind, number, host, port } = options;
  const arrivals: Exchanger['arrivals'] = new Map();
  let refusedConnections = 0;
  let transactions = 0;
  const counted = {
    sink: () => exchanger.sink,
    refuse: () => {
      exchanger.refused += 1;
      if (kind === 'connection limit') refusedConnections += 1;
    },
  };
  const { script, tls } = DESCRIPTIONS[kind].describe(counted);
  const { mail } = script;
  const sink = await smtpSink({
    host,
    port,
    discard: true,
    ...(tls ? { tls } : {}),
    script: {
      ...script,
      mail: (context) => {
        transactions += 1;
        return typeof mail === 'function' ? mail(context) : (mail as Exclude<typeof mail, unknown[]>);
      },
    },
    onMessage: (message) => {
      for (const to of message.to) {
        const before = arrivals.get(to);
        arrivals.set(to, { atMs: before?.atMs ?? message.at, copies: (before?.copies ?? 0) + 1 });
      }
    },
  });
  const offers = (): number => transactions + refusedConnections;
  const exchanger: Exchanger = { kind, domain: `peer${number}.example`, sink, arrivals, refused: 0, offers };
  return exchanger;
}
