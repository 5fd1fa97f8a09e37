/**
 * A DNS server on loopback, over UDP and TCP, that answers from an object. A name that is not in it does not exist; a
 * name with `fail` answers so. Follows CNAMEs within its data and stops at a loop, handing out the loop as it is.
 */
import dgram from 'node:dgram';
import net from 'node:net';

export interface FakeName {
  A?: string[];
  AAAA?: string[];
  MX?: [preference: number, exchange: string][];
  TXT?: string[];
  CNAME?: string;
  ttl?: number;
  /** `timeout` does not answer; `garbage` answers bytes that are no DNS message. */
  fail?: 'SERVFAIL' | 'REFUSED' | 'timeout' | 'garbage';
}

export type FakeZone = Record<string, FakeName>;

export interface FakeDns {
  /** `127.0.0.1:port`, as POSTRIDER_DNS_SERVERS takes it. */
  server: string;
  port: number;
  /** May be changed at any time; names in lower case without the last dot. */
  zone: FakeZone;
  /** `MX example.com` and so on, in the order asked. */
  questions: string[];
  close(): Promise<void>;
}

const TYPES = new Map([
  [1, 'A'],
  [5, 'CNAME'],
  [15, 'MX'],
  [16, 'TXT'],
  [28, 'AAAA'],
]);
const RCODES = { SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 };
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

function answerTo(query: Buffer, zone: FakeZone, asked: Question): Buffer | undefined {
  const type = TYPES.get(asked.typeCode) ?? '';
  const records: Buffer[] = [];
  const seen = new Set<string>();
  let name = asked.name;
  let entry = zone[name];
  while (entry?.CNAME !== undefined && !entry.fail && !seen.has(name)) {
    seen.add(name);
    records.push(encodeRecord(name, 5, entry.ttl ?? 60, encodeName(entry.CNAME)));
    if (type === 'CNAME') break;
    name = entry.CNAME.toLowerCase();
    entry = zone[name];
  }
  if (entry?.fail === 'timeout') return undefined;
  if (entry?.fail === 'garbage') return Buffer.from('garbage');
  for (const data of entry && !entry.fail ? dataOf(entry, type) : []) {
    records.push(encodeRecord(name, asked.typeCode, entry?.ttl ?? 60, data));
  }
  const rcode = entry?.fail ? RCODES[entry.fail] : entry ? 0 : RCODES.NXDOMAIN;
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  // Response, authoritative, recursion desired and available.
  header.writeUInt16BE(0x8580 | rcode, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, query.subarray(12, asked.end), ...records]);
}

function truncated(response: Buffer, end: number): Buffer {
  const short = Buffer.from(response.subarray(0, end));
  short[2]! |= 0x02;
  short.writeUInt16BE(0, 6);
  return short;
}

function serveTcp(socket: net.Socket, respond: (query: Buffer) => Buffer | undefined): void {
  let buffer: Buffer = Buffer.alloc(0);
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= 2 && buffer.length >= 2 + buffer.readUInt16BE(0)) {
      const end = 2 + buffer.readUInt16BE(0);
      const response = respond(buffer.subarray(2, end));
      buffer = buffer.subarray(end);
      if (!response) continue;
      socket.write(Buffer.concat([Buffer.from([response.length >> 8, response.length & 0xff]), response]));
    }
  });
}

/** On one free port both; another is tried when UDP has that number already. Answers the port. */
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
  const respond = (query: Buffer): Buffer | undefined => {
    const asked = readQuestion(query);
    questions.push(`${TYPES.get(asked.typeCode) ?? asked.typeCode} ${asked.name}`);
    return answerTo(query, dns.zone, asked);
  };
  const udp = dgram.createSocket('udp4');
  const tcp = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serveTcp(socket, respond);
  });
  udp.on('message', (query: Buffer, from) => {
    const response = respond(query);
    if (!response) return;
    const fits = response.length <= MAX_UDP_BYTES;
    udp.send(fits ? response : truncated(response, readQuestion(query).end), from.port, from.address);
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
