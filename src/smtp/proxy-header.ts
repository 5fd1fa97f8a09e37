/**
 * Reads the PROXY protocol header (HAProxy, versions 1 and 2) that a trusted proxy sends first on a connection, before TLS as well. Returns
 * the address of the client, and puts back every byte after the header. A connection whose header is malformed, too long, or late has no
 * client address: its listener closes it.
 */
import { isIPv4, isIPv6, type Socket } from 'node:net';
import { forwardedAddress } from '../net/trusted-proxies.ts';

/** `PROXY UNKNOWN` with two IPv6 addresses and ports, and CR LF. */
const LONGEST_V1 = 107;
/** Version 2 with its TLVs; the same limit as nginx. */
const LONGEST_V2 = 4_096;
const V1_START = Buffer.from('PROXY ', 'latin1');
const V2_SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const V2_FIXED = 16;

type Parsed =
  /** `address` is undefined if the header has none: the connection keeps its own address. */
  | { state: 'complete'; bytes: number; address: string | undefined }
  | { state: 'incomplete' }
  | { state: 'malformed'; reason: string };

const INCOMPLETE: Parsed = { state: 'incomplete' };
const malformed = (reason: string): Parsed => ({ state: 'malformed', reason });

/** Returns whether `input` starts like `expected`, as far as it goes. */
function startsLike(input: Buffer, expected: Buffer): boolean {
  const bytes = Math.min(input.length, expected.length);
  return input.subarray(0, bytes).equals(expected.subarray(0, bytes));
}

/** Parses the header at the start of the received bytes. */
export function parseProxyHeader(input: Buffer): Parsed {
  if (input.length === 0) return INCOMPLETE;
  if (startsLike(input, V1_START)) return input.length < V1_START.length ? INCOMPLETE : parseV1(input);
  if (startsLike(input, V2_SIGNATURE)) return input.length < V2_FIXED ? INCOMPLETE : parseV2(input);
  return malformed('the connection starts without one');
}

const V1 = /^PROXY (TCP4|TCP6) (\S+) (\S+) (\d{1,5}) (\d{1,5})$/;

function parseV1(input: Buffer): Parsed {
  const end = input.subarray(0, LONGEST_V1).indexOf('\r\n');
  if (end === -1) return input.length < LONGEST_V1 ? INCOMPLETE : malformed(`longer than ${LONGEST_V1} bytes`);
  const line = input.toString('latin1', 0, end);
  const bytes = end + 2;
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { state: 'complete', bytes, address: undefined };
  const [, family, source = '', destination = '', ...ports] = V1.exec(line) ?? [];
  const isAddress = family === 'TCP4' ? isIPv4 : isIPv6;
  const isValid = isAddress(source) && isAddress(destination) && ports.every((port) => Number(port) <= 65_535);
  if (!isValid || `${source}${destination}`.includes('%'))
    return malformed('version 1 with invalid addresses or ports');
  return { state: 'complete', bytes, address: forwardedAddress(source) };
}

/** The two halves of byte 14: address family and transport (2.2 of the specification). */
const FAMILIES = ['unspecified', 'IPv4', 'IPv6', 'unix'] as const;
const ADDRESS_BYTES = { unspecified: 0, IPv4: 12, IPv6: 36, unix: 216 };

function parseV2(input: Buffer): Parsed {
  const version = input[12]! >> 4;
  const command = input[12]! & 0xf;
  const family = FAMILIES[input[13]! >> 4];
  const transport = input[13]! & 0xf;
  const length = input.readUInt16BE(14);
  const bytes = V2_FIXED + length;
  if (version !== 2 || command > 1) return malformed(`version ${version} with command ${command}`);
  if (bytes > LONGEST_V2) return malformed(`longer than ${LONGEST_V2} bytes`);
  const isLocal = command === 0;
  if (!isLocal) {
    if (family === undefined || transport > 2) return malformed('version 2 with an unknown address family');
    if (length < ADDRESS_BYTES[family]) return malformed('version 2 with a truncated address');
  }
  if (input.length < bytes) return INCOMPLETE;
  // LOCAL is the proxy's own health check. Datagrams and Unix sockets have no client address that applies here.
  const isTcp = !isLocal && transport === 1;
  return { state: 'complete', bytes, address: isTcp ? addressAt(input, family) : undefined };
}

function addressAt(input: Buffer, family: (typeof FAMILIES)[number] | undefined): string | undefined {
  if (family === 'IPv4') return input.subarray(V2_FIXED, V2_FIXED + 4).join('.');
  if (family !== 'IPv6') return undefined;
  const groups: string[] = [];
  for (let at = V2_FIXED; at < V2_FIXED + 16; at += 2) groups.push(input.readUInt16BE(at).toString(16));
  return forwardedAddress(groups.join(':'));
}

export interface ProxyHeaderReader {
  /** From the connection to the end of the header. */
  timeoutMs: number;
  /** The socket is paused, and the bytes after the header are in front of it. */
  onHeader(address: string | undefined): void;
  /** Not called if the peer closes the connection without a byte, as health checks do. The socket is destroyed. */
  onRefused(reason: string): void;
}

/** Reads the header of a connection; calls exactly one of the callbacks, or none if the peer disconnects first. */
export function readProxyHeader(socket: Socket, { timeoutMs, onHeader, onRefused }: ProxyHeaderReader): void {
  let input: Buffer = Buffer.alloc(0);
  const finish = (): void => {
    clearTimeout(timer);
    socket.off('data', onData).off('end', onEnd).off('close', finish);
    socket.pause();
  };
  const refuse = (reason: string): void => {
    finish();
    socket.destroy();
    onRefused(reason);
  };
  const onData = (chunk: Buffer): void => {
    input = input.length === 0 ? chunk : Buffer.concat([input, chunk]);
    const parsed = parseProxyHeader(input);
    if (parsed.state === 'malformed') refuse(parsed.reason);
    if (parsed.state !== 'complete') return;
    finish();
    if (input.length > parsed.bytes) socket.unshift(input.subarray(parsed.bytes));
    onHeader(parsed.address);
  };
  const onEnd = (): void => {
    if (input.length > 0) {
      refuse('the connection ended within it');
      return;
    }
    finish();
    socket.destroy();
  };
  const timer = setTimeout(() => refuse(`not complete after ${timeoutMs / 1_000} s`), timeoutMs).unref();
  socket.on('error', () => socket.destroy());
  socket.on('data', onData).on('end', onEnd).on('close', finish);
}
