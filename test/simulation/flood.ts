/**
 * Two tenants: one floods a server that is slow, stalls or asks for time, while the other sends to that server and to a fast one. Such a
 * scenario has no faults, so any waiting is caused by the other tenant.
 */
import type { Entry, WantedMail } from './customers.ts';
import type { Copy, Manners, Peer } from './peers.ts';
import { PERFECT } from './peers.ts';
import type { Random } from './random.ts';

export const SLOW_DOMAIN = 'slow.example';
export const QUICK_DOMAIN = 'quick.example';

/** From the acknowledgement to the dot: some dozen round trips, one in fifty with a retransmission. */
const PASSAGE_MS = 15_000;

export interface Flood {
  /** Start time: several nodes have counted each other by then. */
  fromMs: number;
  manners: Record<typeof SLOW_DOMAIN | typeof QUICK_DOMAIN, Manners>;
  /** The messages of the flood, and those that the other tenant sends later. */
  flood: WantedMail[];
  victims: { mail: WantedMail; afterMs: number }[];
  /** Maximum time of the other tenant's messages, by domain. */
  boundMs: Record<string, number>;
}

type Kind = 'slow' | 'tarpit' | 'busy';

function mannersOf(kind: Kind, random: Random, { fromMs: beginMs, isShared }: Beginning): Manners {
  const quick = random.between(3_000, 8_000);
  if (kind === 'tarpit') return { ...PERFECT, stalls: 1 };
  if (kind === 'slow')
    return {
      ...PERFECT,
      // If a server accepts fewer connections than there are nodes, some nodes wait for a minute.
      connections: isShared ? PERFECT.connections : 1 + random.below(2),
      dotMs: { quick, slow: quick, slowShare: 0 },
    };
  const fromMs = beginMs + random.between(3_000, 12_000);
  const busy = { fromMs, untilMs: fromMs + 60_000, asksForMs: 60_000 };
  return { ...PERFECT, busy, dotMs: { quick: 2_000, slow: 2_000, slowShare: 0 } };
}

const JOINED_MS = 15_000;
/** Machines do not sleep until then: a node that sleeps for ten seconds is forgotten by the others for two. */
export const AWAKE_MS = 75_000;

interface Beginning {
  fromMs: number;
  isShared: boolean;
}

export function drawFlood(random: Random, { isShared }: { isShared: boolean }): Flood {
  const kind = random.pick<Kind>(['slow', 'slow', 'tarpit', 'busy']);
  const fromMs = isShared ? JOINED_MS : 0;
  const slow = mannersOf(kind, random, { fromMs, isShared });
  const mail = (key: string, more: Pick<WantedMail, 'by' | 'to'>): WantedMail => ({
    key,
    via: 'http',
    expiresAfterSeconds: 1_200,
    requireTls: false,
    length: 100,
    sendAtMs: undefined,
    cancelAfterMs: undefined,
    isDoubled: false,
    isImpatient: false,
    isReused: false,
    fileBytes: 0,
    ...more,
  });
  const size = isShared ? 40 + random.below(50) : 30 + random.below(30);
  const to = (name: string, domain: string): string[] => [`${name}@${domain}`];
  const domains = [QUICK_DOMAIN, ...(kind === 'slow' ? [SLOW_DOMAIN] : [])];
  return {
    fromMs,
    manners: { [SLOW_DOMAIN]: slow, [QUICK_DOMAIN]: PERFECT },
    flood: Array.from({ length: size }, (_, at) => mail(`flood-${at}`, { by: 'flood', to: to(`f${at}`, SLOW_DOMAIN) })),
    victims: domains.map((domain) => ({
      mail: mail(`victim at ${domain}`, { by: 'shop', to: to('victim', domain) }),
      afterMs: random.between(2_000, 20_000),
    })),
    // At the slow server, one message of the other tenant comes first, and those in progress.
    boundMs: { [QUICK_DOMAIN]: PASSAGE_MS, [SLOW_DOMAIN]: PASSAGE_MS + 3 * slow.dotMs.quick },
  };
}

/** Returns the messages that waited longer than necessary. */
export function floodFaults({ victims, boundMs }: Flood, ledger: readonly Entry[], peers: readonly Peer[]): string[] {
  const copies: Copy[] = peers.flatMap((peer) => peer.copies);
  return victims.flatMap(({ mail }) => {
    const fromMs = ledger.find((entry) => entry.mail === mail)?.acknowledgedAtMs;
    if (fromMs === undefined) return [];
    const tookMs =
      Math.min(...copies.filter(({ subject }) => subject === mail.key).map((copy) => copy.dotAtMs)) - fromMs;
    const most = boundMs[mail.to[0]!.split('@')[1]!]!;
    return tookMs > most
      ? [`${mail.key} waited ${tookMs.toFixed(0)} ms for another tenant, of ${most.toFixed(0)}`]
      : [];
  });
}
