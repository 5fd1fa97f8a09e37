/**
 * One question to one DNS server (RFC 1035, 6891, 7766): over UDP from a port of its own, with an unguessable id and the letters
 * of the name in random case, so that nobody beside the way can forge an answer; a server on this host, whose answers pass through
 * no network, gets the name as it is. What does not repeat all of this is passed over, and the right answer waited for. An answer
 * that was cut is asked for again over TCP; so is one from a server that changes the case, when the right one does not follow
 * at once. A server that does not understand EDNS is asked without.
 *
 * Nothing throws because of a server: `cause` is ETIMEOUT, EBADRESP (what came was no answer to the question), ECANCELLED, or the
 * socket's code, such as ECONNREFUSED.
 */
import { randomBytes, randomInt } from 'node:crypto';
import dgram from 'node:dgram';
import net from 'node:net';
import {
  AUTHENTIC_DATA,
  type DecodedPacket,
  DNSSEC_OK,
  decode,
  encode,
  RECURSION_DESIRED,
  type RecordType,
} from 'dns-packet';
import { type DnsServer, isOnThisHost } from './dns-servers.ts';

export interface DnsQuestion {
  /** In A-labels. */
  name: string;
  type: RecordType;
  /** Whether the server is to ask others (RD). */
  recursion: boolean;
}

export type Heard = { packet: DecodedPacket } | { cause: string };

interface Asking {
  /** For everything together. */
  timeoutMs: number;
  signal: AbortSignal;
}

/** DNS flag day 2020: what passes everywhere in one piece. */
const UDP_BYTES = 1232;
/** How long after an answer in the wrong case the right one is waited for. */
const CASE_MS = 250;
const QUESTION_AT = 12;

export const NO_ERROR = 0;
export const FORMAT_ERROR = 1;
export const NAME_ERROR = 3;
const NOT_IMPLEMENTED = 4;

/** The RCODE of the header, RFC 1035 §4.1.1. */
export function rcodeOf(packet: DecodedPacket): number {
  return (packet.flags ?? 0) & 0xf;
}

/** Letters in random case: some twenty more bits that a forger has to guess. */
function inRandomCase(name: string): string {
  const bits = randomBytes(name.length);
  return [...name].map((letter, at) => (bits[at]! & 1 ? letter.toUpperCase() : letter.toLowerCase())).join('');
}

/** The question as it is sent; `end` is where its question section ends. */
interface Query {
  bytes: Buffer;
  end: number;
}

function buildQuery({ name, type, recursion }: DnsQuestion, server: DnsServer, edns: boolean): Query {
  const asked = isOnThisHost(server) ? name : inRandomCase(name);
  const opt = {
    ...{ type: 'OPT' as const, name: '.', udpPayloadSize: UDP_BYTES, flags: DNSSEC_OK },
    ...{ extendedRcode: 0, ednsVersion: 0, flag_do: true, options: [] },
  };
  const bytes = encode({
    type: 'query',
    id: randomInt(65_536),
    // AD asks that the answer says whether it was validated (RFC 6840 §5.7).
    flags: (recursion ? RECURSION_DESIRED : 0) | AUTHENTIC_DATA,
    questions: [{ name: asked, type, class: 'IN' }],
    additionals: edns ? [opt] : [],
  });
  return { bytes, end: QUESTION_AT + asked.length + 2 + 4 };
}

type Fit = 'none' | 'other-case' | 'exact' | 'no-question';

/** How much of the query an answer repeats. */
function fitOf(query: Query, answer: Buffer): Fit {
  if (answer.length < QUESTION_AT || answer.readUInt16BE(0) !== query.bytes.readUInt16BE(0)) return 'none';
  if ((answer[2]! & 0x80) === 0) return 'none';
  // Some tell of a format error without the question.
  const knowsNot = [FORMAT_ERROR, NOT_IMPLEMENTED].includes(answer[3]! & 0xf);
  if (answer.length === QUESTION_AT && knowsNot) return 'no-question';
  if (answer.readUInt16BE(4) !== 1 || answer.length < query.end) return 'none';
  const [ours, theirs] = [query.bytes, answer].map((bytes) => bytes.subarray(QUESTION_AT, query.end));
  if (ours!.equals(theirs!)) return 'exact';
  // Lengths of labels are below the letters, so that this changes letters alone.
  return ours!.toString('latin1').toLowerCase() === theirs!.toString('latin1').toLowerCase() ? 'other-case' : 'none';
}

/** Undefined for what cannot be read, or is shorter than it says. */
function decoded(bytes: Buffer): DecodedPacket | undefined {
  try {
    const packet = decode(bytes);
    // The last record may have been read beyond the end.
    return decode.bytes <= bytes.length ? packet : undefined;
  } catch {
    return undefined;
  }
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? 'ESOCKET';
}

/** Runs until the first end, the timeout or the signal, and then releases what it holds. */
function until<T>(
  asking: Asking,
  start: (end: (heard: T) => void) => { release(): void; late(): string },
): Promise<T | { cause: string }> {
  return new Promise((resolve) => {
    let running: ReturnType<typeof start> | undefined;
    let isOver = false;
    const end = (heard: T | { cause: string }): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      asking.signal.removeEventListener('abort', cancel);
      running?.release();
      resolve(heard);
    };
    const cancel = (): void => end({ cause: 'ECANCELLED' });
    const timer = setTimeout(() => end({ cause: running?.late() ?? 'ETIMEOUT' }), asking.timeoutMs);
    asking.signal.addEventListener('abort', cancel);
    if (asking.signal.aborted) return cancel();
    running = start(end);
    if (isOver) running.release();
  });
}

/** `isCut`: to be asked over TCP. */
function overUdp(query: Query, server: DnsServer, asking: Asking): Promise<Heard | { isCut: true }> {
  return until<Heard | { isCut: true }>(asking, (end) => {
    const socket = dgram.createSocket(net.isIPv6(server.address) ? 'udp6' : 'udp4');
    let isUnreadable = false;
    let patience: NodeJS.Timeout | undefined;
    const failed = (error: Error | null | undefined): void => {
      if (error) end({ cause: codeOf(error) });
    };
    socket.on('error', failed);
    socket.on('message', (bytes) => {
      const fit = fitOf(query, bytes);
      const packet = fit === 'exact' || fit === 'no-question' ? decoded(bytes) : undefined;
      if (fit === 'other-case') patience ??= setTimeout(() => end({ isCut: true }), CASE_MS);
      else if (packet) end(packet.flag_tc ? { isCut: true } : { packet });
      else isUnreadable = true;
    });
    // Connected, it hears this server alone, and at once when nobody listens there.
    socket.connect(server.port, server.address, (error?: Error) => {
      failed(error);
      if (!error) socket.send(query.bytes, failed);
    });
    return {
      release: () => {
        clearTimeout(patience);
        socket.close();
      },
      late: () => (isUnreadable ? 'EBADRESP' : 'ETIMEOUT'),
    };
  });
}

function overTcp(query: Query, server: DnsServer, asking: Asking): Promise<Heard> {
  return until<Heard>(asking, (end) => {
    const socket = net.connect({ host: server.address, port: server.port });
    const length = Buffer.alloc(2);
    length.writeUInt16BE(query.bytes.length);
    let received: Buffer = Buffer.alloc(0);
    socket.on('error', (error) => end({ cause: codeOf(error) }));
    socket.on('close', () => end({ cause: 'EBADRESP' }));
    socket.on('connect', () => socket.write(Buffer.concat([length, query.bytes])));
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const bytes = received.subarray(2, 2 + received.readUInt16BE(0));
      // Nobody forges what comes over a connection, so that the case does not count.
      const fits = fitOf(query, bytes) !== 'none';
      const packet = fits ? decoded(bytes) : undefined;
      end(packet ? { packet } : { cause: 'EBADRESP' });
    });
    return { release: () => socket.destroy(), late: () => 'ETIMEOUT' };
  });
}

/** What this server says; never rejects. */
export async function askServer(question: DnsQuestion, server: DnsServer, options: Asking): Promise<Heard> {
  const endMs = performance.now() + options.timeoutMs;
  const asking = (): Asking => ({ ...options, timeoutMs: Math.max(1, endMs - performance.now()) });
  let query = buildQuery(question, server, true);
  let heard = await overUdp(query, server, asking());
  if ('packet' in heard && [FORMAT_ERROR, NOT_IMPLEMENTED].includes(rcodeOf(heard.packet))) {
    // RFC 6891 §7: from before EDNS.
    query = buildQuery(question, server, false);
    heard = await overUdp(query, server, asking());
  }
  return 'isCut' in heard ? overTcp(query, server, asking()) : heard;
}
