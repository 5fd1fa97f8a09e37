/**
 * The mail servers of the scenario. The seed draws the behavior of each: how many connections it accepts, whether it supports TLS,
 * greylists, refuses temporarily or permanently, stalls, or disconnects. The oracle uses what it accepted and replied.
 */
import { createHash } from 'node:crypto';
import { ClientBehavior } from './client-behavior.ts';
import type { Network, SimSocket } from './network.ts';
import type { Random } from './random.ts';
import { drawRefusals, type Refusal, type RefusalKind, refusalOf, replyTo } from './refusals.ts';
import type { Process } from './timeline.ts';
import { SimTlsSocket } from './tls.ts';

/** A DKIM signature of a message that arrived. */
export interface Signature {
  domain: string;
  selector: string;
  /** Whether its body hash matches the body that arrived (RFC 6376 §3.7). */
  isOfBody: boolean;
}

/** A message that a server accepted at its dot, for one recipient. */
export interface Copy {
  recipient: string;
  /** The subject, which identifies the message. */
  subject: string;
  messageId: string;
  /** Characters of its text. */
  length: number;
  /** Its List-Unsubscribe; empty without one. */
  unsubscribe: string;
  /** MAIL FROM. */
  returnPath: string;
  /** DKIM (RFC 6376). */
  signatures: readonly Signature[];
  /** SHA-256 of its file, if there is one. */
  fileDigest: string | undefined;
  /** When its session started, when it was accepted, and when its dot arrived. */
  sinceMs: number;
  atMs: number;
  dotAtMs: number;
  /** The process that sent it. */
  sender: Process | undefined;
  /** Its sender was dead when the dot arrived. */
  isOfTheDead: boolean;
  inTls: boolean;
  /** The server had a valid certificate. */
  isCertified: boolean;
  /** When the complete reply to the dot had arrived at a live client. */
  heardAtMs: number | undefined;
  peer: string;
  peerAddress: string;
}

export interface Manners {
  tls: 'good' | 'none' | 'broken' | 'refused';
  /** Whether its certificate is valid. */
  isCertified: boolean;
  /** Whether it offers 8BITMIME (RFC 6152). */
  isEightBit: boolean;
  connections: number;
  greylistMs: number;
  /** Shares of commands with this reply. */
  temporary: number;
  permanent: number;
  /** How it refuses them. */
  refusals: readonly RefusalKind[];
  /** Shares of sessions. */
  closing: number;
  stalls: number;
  /** Accepted dots whose reply is lost with the connection. */
  lostAnswers: number;
  /** It accepts no connection before this time. */
  downUntilMs: number;
  /** The period in which it is busy, and the time that it asks for. */
  busy: { fromMs: number; untilMs: number; asksForMs: number } | undefined;
  /** How long a dot takes. */
  dotMs: { quick: number; slow: number; slowShare: number };
}

/** A recipient at RCPT. */
export interface RecipientReply {
  recipient: string;
  atMs: number;
  sender: Process | undefined;
  reply: string;
  /** When the complete reply had arrived at the client. */
  heardAtMs: number | undefined;
}

export interface Peer {
  readonly name: string;
  readonly address: string;
  readonly manners: Manners;
  readonly copies: Copy[];
  /** Recipients at RCPT. */
  readonly asked: RecipientReply[];
  /** Permanently refused recipients. */
  readonly refused: Set<string>;
  /** Those reported as unknown. */
  readonly unknown: Set<string>;
  /** When it asked for time, refused a connection, blocked the host or stalled, virtual ms. */
  readonly restraints: number[];
  /** Messages whose sender was refused: their recipients may not have been sent. */
  refusedSenders: number;
  /** Maximum simultaneous connections, and refused ones over its limit, except those that overtook the end of another one. */
  mostOpen: number;
  turnedAway: { atMs: number; remoteProcess: Process | undefined }[];
  readonly clientBehavior: ClientBehavior;
}

/** A server without a fault. */
export const PERFECT: Manners = {
  tls: 'good',
  isCertified: true,
  isEightBit: true,
  connections: 20,
  greylistMs: 0,
  temporary: 0,
  permanent: 0,
  refusals: ['no mailbox'],
  closing: 0,
  stalls: 0,
  lostAnswers: 0,
  downUntilMs: 0,
  busy: undefined,
  dotMs: { quick: 80, slow: 80, slowShare: 0 },
};

/** `isOnly`: its domain has no other server to try instead. */
export function drawManners(random: Random, { isOnly }: { isOnly: boolean }): Manners {
  const is = (share: number): boolean => random.chance(share);
  return {
    tls: is(0.6) ? 'good' : random.pick(['none', 'broken', 'refused'] as const),
    isCertified: random.stream('certificate').chance(0.85),
    isEightBit: random.stream('eight bit').chance(0.7),
    connections: is(0.3) ? 1 + random.below(3) : 20,
    greylistMs: is(0.25) ? random.between(10_000, 400_000) : 0,
    temporary: is(0.4) ? random.between(0.05, 0.5) : 0,
    permanent: is(0.35) ? random.between(0.03, 0.5) : 0,
    refusals: drawRefusals(random.stream('refusal')),
    closing: is(0.2) ? random.between(0.05, 0.5) : 0,
    stalls: is(0.15) ? random.between(0.05, 0.3) : 0,
    lostAnswers: is(0.25) ? random.between(0.05, 0.4) : 0,
    downUntilMs: is(0.15) ? random.between(60_000, 6 * 3_600_000) : 0,
    busy: isOnly && is(0.2) ? drawBusy(random) : undefined,
    dotMs: { quick: 80, slow: 15_000, slowShare: 0.12 },
  };
}

function drawBusy(random: Random): Manners['busy'] {
  const fromMs = random.between(0, random.chance(0.5) ? 5_000 : 1_800_000);
  const asksForMs = 1_000 * (20 + random.below(200));
  return { fromMs, untilMs: fromMs + asksForMs * random.between(0.1, 4), asksForMs };
}

/** RFC 5321 §4.5.3.2.7. */
const IDLE_MS = 300_000;

interface Envelope {
  from: string;
  to: string[];
}

/** Decodes the Base64 after the header of an attachment. */
function digestOfFile(lines: readonly string[]): string | undefined {
  const header = lines.findIndex((line) => /^content-disposition: attachment/i.test(line));
  if (header < 0) return undefined;
  const from = lines.indexOf('', header) + 1;
  const to = lines.findIndex((line, at) => at >= from && line.startsWith('--'));
  const bytes = Buffer.from(lines.slice(from, to).join(''), 'base64');
  return createHash('sha256').update(bytes).digest('hex');
}

/** Returns domain and selector of each DKIM-Signature, whose tags may span several lines. */
function signaturesOf(lines: readonly string[]): Copy['signatures'] {
  const header = lines
    .slice(0, lines.indexOf(''))
    .join('\r\n')
    .replace(/\r\n[ \t]+/g, ' ');
  const fields = header.split('\r\n').filter((line) => /^dkim-signature:/i.test(line));
  const tagOf = (field: string, name: string): string => new RegExp(`[;:\\s]${name}=([^;\\s]+)`).exec(field)?.[1] ?? '';
  if (fields.length === 0) return [];
  const body = lines.slice(lines.indexOf('') + 1);
  return fields.map((field) => {
    const [, canonicalization = 'simple'] = tagOf(field, 'c').split('/');
    const bytes = Buffer.from(canonicalBody(body, canonicalization === 'relaxed'), 'latin1');
    const hash = createHash('sha256').update(bytes).digest('base64');
    return { domain: tagOf(field, 'd'), selector: tagOf(field, 's'), isOfBody: tagOf(field, 'bh') === hash };
  });
}

/** Returns the canonical form of a body in Latin-1 (RFC 6376 §3.4.3 and §3.4.4). */
function canonicalBody(body: readonly string[], isRelaxed: boolean): string {
  const lines = isRelaxed ? body.map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, '')) : [...body];
  while (lines.at(-1) === '') lines.pop();
  if (lines.length > 0) return `${lines.join('\r\n')}\r\n`;
  return isRelaxed ? '' : '\r\n';
}

export function startPeer(
  network: Network,
  options: {
    name: string;
    address: string;
    manners: Manners;
    /** Key of its certificate. */
    key: number;
    random: Random;
    count(what: string): void;
    onBegun(remoteProcess: Process | undefined): void;
    onDot(): void;
    onTaken(copy: Copy): void;
  },
): Peer {
  const { name, address, manners, key, random, count } = options;
  const clientBehavior = new ClientBehavior(network.timeline);
  const peer: Peer = {
    name,
    address,
    manners,
    copies: [],
    asked: [],
    refused: new Set(),
    unknown: new Set(),
    restraints: [],
    refusedSenders: 0,
    mostOpen: 0,
    turnedAway: [],
    clientBehavior,
  };
  const firstSeen = new Map<string, number>();
  let open = 0;

  const session = (socket: SimSocket): unknown => {
    const { timeline } = network;
    const sinceMs = timeline.nowMs;
    let stream: SimSocket | SimTlsSocket = socket;
    let buffered = '';
    let envelope: Envelope = { from: '', to: [] };
    let isSenderRefused = false;
    let content: string[] | undefined;
    let isOver = false;
    let hasHungUp = false;
    const isStalling = random.chance(manners.stalls);
    const closesAfter = random.chance(manners.closing) ? random.below(7) : -1;
    let commands = 0;
    open += 1;
    peer.mostOpen = Math.max(peer.mostOpen, open);
    clientBehavior.came(socket);
    const over = (): void => {
      if (isOver) return;
      isOver = true;
      open -= 1;
    };
    socket.setTimeout(IDLE_MS, () => socket.destroy());
    socket.on('close', over);
    socket.on('error', over);
    const say = (text: string, onWritten?: () => void): void => {
      if (!isOver && stream.writable) stream.write(`${text}\r\n`, onWritten);
    };
    const hangUp = (text?: string): void => {
      hasHungUp = true;
      if (text !== undefined) say(text);
      stream.end();
      timeline.after(50, 'hang up', () => socket.destroy());
    };

    const restrained = (): void => void peer.restraints.push(timeline.nowMs);
    /** Returns the refusal at this stage, if it also applies to these recipients; undefined otherwise. */
    const refuses = (at: Refusal['at'], to: readonly string[]): RefusalKind | undefined => {
      const kinds = manners.refusals.filter((one) => refusalOf(one).at === at);
      if (kinds.length === 0 || !random.chance(manners.permanent)) return undefined;
      const kind = random.pick(kinds);
      const { isFinal, suppresses, isBlock } = refusalOf(kind);
      count(`refused: ${kind}`);
      if (isFinal) for (const one of to) peer.refused.add(one);
      if (suppresses && to.length === 1) peer.unknown.add(to[0]!);
      if (isBlock) restrained();
      return kind;
    };

    const recipient = (to: string): string => {
      if (isSenderRefused) {
        peer.refused.add(to);
        return '503 5.5.1 no sender';
      }
      const kind = refuses('RCPT', [to]);
      if (kind) return replyTo(kind, to);
      if (random.chance(manners.temporary)) {
        count('4xx to a recipient');
        return '451 4.3.0 try again later';
      }
      const key = `${envelope.from} ${to}`;
      const seenMs = firstSeen.get(key) ?? timeline.nowMs;
      firstSeen.set(key, seenMs);
      if (timeline.nowMs - seenMs < manners.greylistMs) {
        count('greylisted');
        return '451 4.7.1 greylisted';
      }
      envelope.to.push(to);
      return '250 2.1.5 ok';
    };

    const taken = (lines: string[], dot: Pick<Copy, 'dotAtMs' | 'sender' | 'isOfTheDead'>): void => {
      const find = (header: string): string =>
        lines
          .find((line) => line.toLowerCase().startsWith(`${header}:`))
          ?.slice(header.length + 1)
          .trim() ?? '';
      const unfolded = (header: string): string => {
        const start = lines.findIndex((line) => line.toLowerCase().startsWith(`${header}:`));
        const end = lines.findIndex((line, at) => at > start && !/^[ \t]/.test(line));
        return start === -1
          ? ''
          : lines
              .slice(start, end)
              .join('')
              .slice(header.length + 1)
              .trim();
      };
      const isLost = random.chance(manners.lostAnswers);
      const text = lines.slice(lines.indexOf('')).filter((one) => /^x+=?$/.test(one));
      const length = text.join('').replaceAll('=', '').length;
      const fileDigest = digestOfFile(lines);
      const signatures = signaturesOf(lines);
      const copies: Copy[] = [];
      const heard = (): void => {
        for (const copy of copies) copy.heardAtMs = timeline.nowMs;
      };
      for (const to of envelope.to) {
        const copy: Copy = {
          recipient: to,
          length,
          fileDigest,
          signatures,
          subject: find('subject'),
          messageId: find('message-id'),
          unsubscribe: unfolded('list-unsubscribe'),
          returnPath: envelope.from,
          sinceMs,
          atMs: timeline.nowMs,
          ...dot,
          inTls: stream !== socket,
          isCertified: stream !== socket && manners.isCertified,
          heardAtMs: undefined,
          peer: name,
          peerAddress: address,
        };
        copies.push(copy);
        options.onTaken(copy);
      }
      peer.copies.push(...copies);
      timeline.note(`${name} took ${find('subject')}`);
      if (isLost) {
        count('lost reply to the final dot');
        socket.destroy(new Error('cut'));
      } else say('250 2.0.0 taken', () => socket.whenHeard(heard));
      envelope = { from: '', to: [] };
    };

    const dot = (): unknown => {
      const lines = content!;
      content = undefined;
      if (random.chance(manners.temporary / 2)) {
        count('4xx to a dot');
        envelope = { from: '', to: [] };
        return say('452 4.3.1 later');
      }
      const kind = refuses('dot', envelope.to);
      if (kind) {
        const [first] = envelope.to;
        envelope = { from: '', to: [] };
        return say(replyTo(kind, first!));
      }
      options.onDot();
      const came = { dotAtMs: timeline.nowMs, sender: socket.remoteProcess, isOfTheDead: socket.isAlone };
      const { quick, slow, slowShare } = manners.dotMs;
      const slowMs = random.chance(slowShare) ? random.between(1_000, slow) : random.between(1, quick);
      timeline.after(slowMs, 'dot', () => {
        if (!isOver) taken(lines, came);
      });
    };

    const command = (line: string): unknown => {
      // Commands that were sent before its last reply arrived are not read.
      if (hasHungUp) return undefined;
      commands += 1;
      if (commands === closesAfter) {
        count('421 in a session');
        restrained();
        return hangUp('421 4.3.2 closing');
      }
      const verb = line.slice(0, 4).toUpperCase();
      if (verb === 'EHLO' || verb === 'HELO') {
        const offers = manners.tls !== 'none' && stream === socket ? ['STARTTLS'] : [];
        if (manners.isEightBit) offers.push('8BITMIME');
        const lines = [name, 'PIPELINING', 'ENHANCEDSTATUSCODES', 'SIZE 50000000', ...offers];
        return say(lines.map((one, at) => `250${at === lines.length - 1 ? ' ' : '-'}${one}`).join('\r\n'));
      }
      if (verb === 'STAR') return startTls();
      if (verb === 'MAIL') {
        envelope = { from: /<(.*?)>/.exec(line)?.[1] ?? '', to: [] };
        const kind = refuses('MAIL', []);
        isSenderRefused = kind !== undefined;
        if (isSenderRefused) peer.refusedSenders += 1;
        return say(kind ? replyTo(kind, '') : '250 2.1.0 ok');
      }
      if (verb === 'RCPT') {
        const to = /<(.*?)>/.exec(line)?.[1] ?? '';
        const reply = recipient(to);
        const { remoteProcess: sender } = socket;
        const one: RecipientReply = { recipient: to, atMs: timeline.nowMs, sender, reply, heardAtMs: undefined };
        if (!socket.isAlone) peer.asked.push(one);
        clientBehavior.answered({ took: reply.startsWith('2'), remoteProcess: sender });
        return say(reply, () =>
          socket.whenHeard(() => {
            one.heardAtMs = timeline.nowMs;
          }),
        );
      }
      if (verb === 'DATA') {
        if (envelope.to.length === 0) return say('503 5.5.1 no recipients');
        content = [];
        options.onBegun(socket.remoteProcess);
        return say('354 go on');
      }
      if (verb === 'RSET') envelope = { from: '', to: [] };
      if (verb === 'QUIT') return hangUp('221 2.0.0 bye');
      return say('250 2.0.0 ok');
    };

    const startTls = (): unknown => {
      if (manners.tls === 'refused') return say('454 4.7.0 not now');
      say('220 2.0.0 go ahead');
      if (manners.tls === 'broken') {
        count('broken TLS handshake');
        socket.removeAllListeners('data');
        socket.on('data', () => {
          socket.write('this is no TLS at all, and never will be\r\n');
          timeline.after(20, 'broken tls', () => socket.destroy());
        });
        return;
      }
      socket.removeAllListeners('data');
      const secured = new SimTlsSocket(socket, { isServer: true, certificate: { key, isValid: manners.isCertified } });
      secured.on('error', over);
      secured.on('data', received);
      secured.on('end', () => secured.end());
      stream = secured;
      buffered = '';
    };

    const line = (text: string): void => {
      if (content === undefined) command(text);
      else if (text === '.') dot();
      else content.push(text.startsWith('.') ? text.slice(1) : text);
    };

    const received = (chunk: Buffer): void => {
      buffered += chunk.toString('latin1');
      const lines = buffered.split('\r\n');
      buffered = lines.pop()!;
      for (const one of lines) if (!isOver) line(one);
    };

    socket.on('data', received);
    socket.on('end', () => stream.end());
    if (isStalling) {
      count('stalled session');
      restrained();
      socket.removeAllListeners('data');
      socket.resume();
      return;
    }
    const { busy } = manners;
    const { nowMs } = timeline;
    if (busy && (clientBehavior.isResting || (nowMs >= busy.fromMs && nowMs < busy.untilMs))) {
      if (!clientBehavior.isResting) clientBehavior.asksFor(busy.asksForMs, socket);
      count('server that asked for a pause');
      restrained();
      return hangUp(`421 4.7.0 too busy, try again in ${busy.asksForMs / 1000} seconds`);
    }
    if (open > manners.connections) {
      if (clientBehavior.held > manners.connections)
        peer.turnedAway.push({ atMs: timeline.nowMs, remoteProcess: socket.remoteProcess });
      count('connection over the limit');
      restrained();
      return hangUp('421 4.7.0 too many connections from your address');
    }
    say(`220 ${name} ESMTP`);
  };

  const listen = (): void => network.listen(`${address}:25`, session);
  if (manners.downUntilMs > 0) {
    count('server down');
    network.timeline.after(manners.downUntilMs, 'server up', listen);
  } else listen();
  return peer;
}
