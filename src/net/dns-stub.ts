/**
 * One question to one DNS server (RFC 1035, 6891, 7766): over UDP from a fresh port, with an unguessable id and the letters of the name in
 * random case, so that an off-path attacker cannot forge an answer. A server on this host, whose answers pass through no network, gets the
 * name unchanged. Answers that do not match all of this are ignored. A truncated answer is requested again over TCP, and so is one from a
 * server that changes the case, unless the right one follows immediately. A server that does not understand EDNS is asked without it.
 *
 * Errors of a server never throw: `cause` is ETIMEOUT, EBADRESP (the packet did not answer the question), ECANCELLED, or the socket's code,
 * such as ECONNREFUSED.
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
  /** Whether to request recursion (RD). */
  recursion: boolean;
}

export type ServerResponse = { packet: DecodedPacket } | { cause: string };

interface Asking {
  /** For everything together. */
  timeoutMs: number;
  signal: AbortSignal;
}

/** DNS flag day 2020: the size that passes everywhere unfragmented. */
const UDP_BYTES = 1232;
/** How long to wait for the right answer after one in the wrong case. */
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

/** Returns the name with letters in random case: about twenty more bits that an attacker has to guess. */
function inRandomCase(name: string): string {
  const bits = randomBytes(name.length);
  return [...name].map((letter, at) => (bits[at]! & 1 ? letter.toUpperCase() : letter.toLowerCase())).join('');
}

/** The question as sent; `end` is where its question section ends. */
interface Query {
  bytes: Buffer;
  end: number;
}

function buildQuery({ name, type, recursion }: DnsQuestion, server: DnsServer, edns: boolean): Query {
  const requested = isOnThisHost(server) ? name : inRandomCase(name);
  const opt = {
    type: 'OPT' as const,
    name: '.',
    udpPayloadSize: UDP_BYTES,
    flags: DNSSEC_OK,
    extendedRcode: 0,
    ednsVersion: 0,
    flag_do: true,
    options: [],
  };
  const bytes = encode({
    type: 'query',
    id: randomInt(65_536),
    // AD requests that the answer reports whether it was validated (RFC 6840 §5.7).
    flags: (recursion ? RECURSION_DESIRED : 0) | AUTHENTIC_DATA,
    questions: [{ name: requested, type, class: 'IN' }],
    additionals: edns ? [opt] : [],
  });
  return { bytes, end: QUESTION_AT + requested.length + 2 + 4 };
}

type Fit = 'none' | 'other-case' | 'exact' | 'no-question';

/** Returns how much of the query an answer repeats. */
function fitOf(query: Query, answer: Buffer): Fit {
  if (answer.length < QUESTION_AT || answer.readUInt16BE(0) !== query.bytes.readUInt16BE(0)) return 'none';
  if ((answer[2]! & 0x80) === 0) return 'none';
  // Some servers report a format error without repeating the question.
  const knowsNot = [FORMAT_ERROR, NOT_IMPLEMENTED].includes(answer[3]! & 0xf);
  if (answer.length === QUESTION_AT && knowsNot) return 'no-question';
  if (answer.readUInt16BE(4) !== 1 || answer.length < query.end) return 'none';
  const [ours, theirs] = [query.bytes, answer].map((bytes) => bytes.subarray(QUESTION_AT, query.end));
  if (ours!.equals(theirs!)) return 'exact';
  // Label lengths are below the letters, so this changes letters only.
  return ours!.toString('latin1').toLowerCase() === theirs!.toString('latin1').toLowerCase() ? 'other-case' : 'none';
}

/** Returns undefined for a packet that is malformed or shorter than it claims. */
function decoded(bytes: Buffer): DecodedPacket | undefined {
  try {
    const packet = decode(bytes);
    // The last record may extend beyond the end.
    return decode.bytes <= bytes.length ? packet : undefined;
  } catch {
    return undefined;
  }
}

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? 'ESOCKET';
}

/** Runs until the first end, the timeout, or the signal, and then releases its resources. */
function until<T>(
  asking: Asking,
  start: (end: (response: T) => void) => { release(): void; late(): string },
): Promise<T | { cause: string }> {
  return new Promise((resolve) => {
    let running: ReturnType<typeof start> | undefined;
    let isOver = false;
    const end = (response: T | { cause: string }): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      asking.signal.removeEventListener('abort', cancel);
      running?.release();
      resolve(response);
    };
    const cancel = (): void => end({ cause: 'ECANCELLED' });
    const timer = setTimeout(() => end({ cause: running?.late() ?? 'ETIMEOUT' }), asking.timeoutMs);
    asking.signal.addEventListener('abort', cancel);
    if (asking.signal.aborted) return cancel();
    running = start(end);
    if (isOver) running.release();
  });
}

/** `isCut`: truncated, to be asked over TCP. */
function overUdp(query: Query, server: DnsServer, asking: Asking): Promise<ServerResponse | { isCut: true }> {
  return until<ServerResponse | { isCut: true }>(asking, (end) => {
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
    // A connected socket only receives from this server, and reports immediately if the port is closed.
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

function overTcp(query: Query, server: DnsServer, asking: Asking): Promise<ServerResponse> {
  return until<ServerResponse>(asking, (end) => {
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
      // TCP answers cannot be forged off-path, so the case is not compared.
      const fits = fitOf(query, bytes) !== 'none';
      const packet = fits ? decoded(bytes) : undefined;
      end(packet ? { packet } : { cause: 'EBADRESP' });
    });
    return { release: () => socket.destroy(), late: () => 'ETIMEOUT' };
  });
}

/** Returns this server's answer; never rejects. */
export async function askServer(question: DnsQuestion, server: DnsServer, options: Asking): Promise<ServerResponse> {
  const endMs = performance.now() + options.timeoutMs;
  const asking = (): Asking => ({ ...options, timeoutMs: Math.max(1, endMs - performance.now()) });
  let query = buildQuery(question, server, true);
  let response = await overUdp(query, server, asking());
  if ('packet' in response && [FORMAT_ERROR, NOT_IMPLEMENTED].includes(rcodeOf(response.packet))) {
    // RFC 6891 §7: the server predates EDNS.
    query = buildQuery(question, server, false);
    response = await overUdp(query, server, asking());
  }
  return 'isCut' in response ? overTcp(query, server, asking()) : response;
}
