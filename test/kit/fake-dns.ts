/**
 * A DNS server on loopback, over UDP and TCP, that answers from an object. Names that are missing in it do not exist; a name with `fail`
 * fails that way. Follows CNAMEs within its data and stops at a loop, returning the loop.
 */
import dgram from 'node:dgram';
import net from 'node:net';
import type { Found } from '../../src/net/dns.ts';

export interface FakeName {
  A?: string[];
  AAAA?: string[];
  MX?: [preference: number, exchange: string][];
  TXT?: string[];
  CNAME?: string;
  NS?: string[];
  PTR?: string[];
  /** Data in hex. */
  TLSA?: [usage: number, selector: number, matching: number, data: string][];
  ttl?: number;
  /** The answer has the AD bit, as if this server had validated it. */
  secure?: boolean;
  /** The answer ends with the CNAME; the client must look up the rest. */
  cnameOnly?: boolean;
  /** `timeout` does not answer; `garbage` answers bytes that are not a DNS message; `lame` refers to other servers. */
  fail?: 'SERVFAIL' | 'REFUSED' | 'timeout' | 'garbage' | 'lame';
}

export type FakeZone = Record<string, FakeName>;

export interface FakeDns {
  /** `127.0.0.1:port`, for POSTRIDER_DNS_SERVERS. */
  server: string;
  port: number;
  /** May be changed at any time; names in lower case without a final dot. */
  zone: FakeZone;
  /** `MX example.com` and so on, in the order of the queries. */
  questions: string[];
  /** Answers without data have a SOA with this minimum, in seconds. */
  soaMinimum?: number;
  /** Returns the messages to send instead of an answer, in order. */
  tamper?(answer: Buffer, from: { query: Buffer; transport: 'udp' | 'tcp' }): Buffer[];
  close(): Promise<void>;
}

const TYPES = new Map([
  [1, 'A'],
  [2, 'NS'],
  [5, 'CNAME'],
  [12, 'PTR'],
  [15, 'MX'],
  [16, 'TXT'],
  [28, 'AAAA'],
  [52, 'TLSA'],
]);
const RCODES = { lame: 0, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
const MAX_UDP_BYTES = 1232;

function encodeName(name: string): Buffer {
  const labels = name === '' || name === '.' ? [] : name.replace(/\.$/, '').split('.');
  const parts = labels.map((label) => Buffer.concat([Buffer.from([Buffer.byteLength(label)]), Buffer.from(label)]));
  return Buffer.concat([...parts, Buffer.from([0])]);
}

function encodeIpv6(address: string): Buffer {
  const [head = '', tail] = address.split('::');
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const left = groups(head);
  const right = tail === undefined ? [] : groups(tail);
  const all = [...left, ...new Array(8 - left.length - right.length).fill(0), ...right];
  const bytes = Buffer.alloc(16);
  for (const [index, group] of all.entries()) bytes.writeUInt16BE(group, index * 2);
  return bytes;
}

function encodeText(text: string): Buffer {
  const bytes = Buffer.from(text);
  const parts: Buffer[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += 255) {
    const part = bytes.subarray(at, at + 255);
    parts.push(Buffer.from([part.length]), part);
  }
  return Buffer.concat(parts);
}

function encodeRecord(name: string, typeCode: number, ttl: number, data: Buffer): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(typeCode, 0);
  fixed.writeUInt16BE(1, 2);
  fixed.writeUInt32BE(ttl, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(name), fixed, data]);
}

function dataOf(entry: FakeName, type: string): Buffer[] {
  if (type === 'A') return (entry.A ?? []).map((address) => Buffer.from(address.split('.').map(Number)));
  if (type === 'AAAA') return (entry.AAAA ?? []).map(encodeIpv6);
  if (type === 'TXT') return (entry.TXT ?? []).map(encodeText);
  if (type === 'NS' || type === 'PTR') return (entry[type] ?? []).map(encodeName);
  if (type === 'TLSA') {
    return (entry.TLSA ?? []).map(([usage, selector, matching, data]) =>
      Buffer.concat([Buffer.from([usage, selector, matching]), Buffer.from(data, 'hex')]),
    );
  }
  if (type !== 'MX') return [];
  return (entry.MX ?? []).map(([preference, exchange]) =>
    Buffer.concat([Buffer.from([preference >> 8, preference & 0xff]), encodeName(exchange)]),
  );
}

interface Question {
  name: string;
  typeCode: number;
  /** End of the question section. */
  end: number;
}

function readQuestion(query: Buffer): Question {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at]!; length !== 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), typeCode: query.readUInt16BE(at + 1), end: at + 5 };
}

/** A reference to another server, as a lame server returns it. */
const REFERRAL = encodeRecord('', 2, 60, encodeName('elsewhere.example'));

/** RFC 2308 §3: an answer without data has the SOA of the zone, which says how long to cache it. */
function soaRecord(minimumSeconds: number): Buffer {
  const numbers = Buffer.alloc(20);
  for (const [index, number] of [1, 3600, 600, 86_400, minimumSeconds].entries())
    numbers.writeUInt32BE(number, index * 4);
  return encodeRecord('', 6, 3600, Buffer.concat([encodeName('ns.example'), encodeName('root.example'), numbers]));
}

interface Match {
  entry: FakeName | undefined;
  /** The CNAMEs that were followed, and then the requested records. */
  answers: Buffer[];
  /** Whether every followed name is secure. */
  isSecure: boolean;
  /** The name exists, but not the requested type. */
  isEmpty: boolean;
}

function find(zone: FakeZone, { name: asked, typeCode }: Question): Match {
  const type = TYPES.get(typeCode) ?? '';
  const answers: Buffer[] = [];
  const seen = new Set<string>();
  let name = asked;
  let entry = zone[name];
  let isSecure = entry?.secure === true;
  while (entry?.CNAME !== undefined && !entry.fail && !seen.has(name)) {
    seen.add(name);
    answers.push(encodeRecord(name, 5, entry.ttl ?? 60, encodeName(entry.CNAME)));
    if (type === 'CNAME' || entry.cnameOnly) return { entry: {}, answers, isSecure, isEmpty: false };
    name = entry.CNAME.toLowerCase();
    entry = zone[name];
    isSecure &&= entry?.secure === true;
  }
  const data = entry && !entry.fail ? dataOf(entry, type) : [];
  answers.push(...data.map((one) => encodeRecord(name, typeCode, entry?.ttl ?? 60, one)));
  return { entry, answers, isSecure, isEmpty: data.length === 0 };
}

function answerTo(query: Buffer, dns: FakeDns, asked: Question): Buffer | undefined {
  const { entry, answers, isSecure, isEmpty } = find(dns.zone, asked);
  if (entry?.fail === 'timeout') return undefined;
  if (entry?.fail === 'garbage') return Buffer.from('garbage');
  const isLame = entry?.fail === 'lame';
  const rcode = entry?.fail ? RCODES[entry.fail] : entry ? 0 : RCODES.NXDOMAIN;
  const hasSoa = rcode === RCODES.NXDOMAIN || (rcode === 0 && isEmpty && !isLame);
  const soa = hasSoa && dns.soaMinimum !== undefined ? [soaRecord(dns.soaMinimum)] : [];
  const authority = isLame ? [REFERRAL] : soa;
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  // Response, recursion desired and available; authoritative, if not lame.
  header.writeUInt16BE(0x8180 | (isLame ? 0 : 0x0400) | (isSecure ? 0x0020 : 0) | rcode, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(answers.length, 6);
  header.writeUInt16BE(authority.length, 8);
  return Buffer.concat([header, query.subarray(12, asked.end), ...answers, ...authority]);
}

/** Cuts a response after the question, with the TC bit. */
export function truncated(response: Buffer): Buffer {
  const short = Buffer.from(response.subarray(0, readQuestion(response).end));
  short[2]! |= 0x02;
  short.writeUInt16BE(0, 6);
  short.writeUInt16BE(0, 8);
  return short;
}

function serveTcp(socket: net.Socket, respond: (query: Buffer) => Buffer[]): void {
  let buffer: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= 2 && buffer.length >= 2 + buffer.readUInt16BE(0)) {
      const end = 2 + buffer.readUInt16BE(0);
      const responses = respond(buffer.subarray(2, end));
      buffer = buffer.subarray(end);
      for (const response of responses) {
        socket.write(Buffer.concat([Buffer.from([response.length >> 8, response.length & 0xff]), response]));
      }
    }
  });
}

/** Binds both on one free port; tries another one if UDP has that number already. Returns the port. */
async function bindBoth(udp: dgram.Socket, tcp: net.Server): Promise<number> {
  for (;;) {
    await new Promise<void>((resolve, reject) => tcp.once('error', reject).listen(0, '127.0.0.1', resolve));
    const { port } = tcp.address() as net.AddressInfo;
    if (await isBound(udp, port)) return port;
    await new Promise((resolve) => tcp.close(resolve));
  }
}

function isBound(udp: dgram.Socket, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    };
    udp.once('error', failed).bind(port, '127.0.0.1', () => {
      udp.off('error', failed);
      resolve(true);
    });
  });
}

export async function fakeDns(zone: FakeZone = {}): Promise<FakeDns> {
  const questions: string[] = [];
  const sockets = new Set<net.Socket>();
  const respond = (query: Buffer, transport: 'udp' | 'tcp'): Buffer[] => {
    const asked = readQuestion(query);
    questions.push(`${TYPES.get(asked.typeCode) ?? asked.typeCode} ${asked.name}`);
    const answer = answerTo(query, dns, asked);
    if (answer === undefined) return [];
    const fits = transport === 'tcp' || answer.length <= MAX_UDP_BYTES;
    const said = fits ? answer : truncated(answer);
    return dns.tamper?.(said, { query, transport }) ?? [said];
  };
  const udp = dgram.createSocket('udp4');
  const tcp = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serveTcp(socket, (query) => respond(query, 'tcp'));
  });
  udp.on('message', (query: Buffer, from) => {
    for (const response of respond(query, 'udp')) udp.send(response, from.port, from.address);
  });
  const port = await bindBoth(udp, tcp);
  const dns: FakeDns = {
    server: `127.0.0.1:${port}`,
    port,
    zone,
    questions,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await Promise.all([
        new Promise<void>((resolve) => udp.close(() => resolve())),
        new Promise<void>((resolve) => tcp.close(() => resolve())),
      ]);
    },
  };
  return dns;
}

/** Returns an answer as Dns returns it, for test doubles. */
export function foundAnswer<T>(value: T): Found<T> {
  return { status: 'found', value, secure: false, ttlMs: 60_000 };
}
