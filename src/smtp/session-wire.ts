/**
 * The connection of one session: bytes in, lines out, TLS. Replies are buffered until they are flushed in one write. Invariants:
 *
 * - Data received before a TLS handshake is never used after it.
 * - Once it has ended nothing is written, and its reader discards further input.
 *
 * A customer in an IPv6 network has a complete /64, so its addresses count as one.
 */
import { isIPv6, type Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { Log } from '../base/log.ts';
import { cleanReply } from './dialogue.ts';

/** The group of addresses that limits count as one client: an IPv4 address or an IPv6 /64. */
export function countedAddress(address: string): string {
  return address.includes(':') ? firstGroups(address) : address;
}

function firstGroups(address: string): string {
  const [left = '', right] = address.toLowerCase().split('::');
  const groups = left === '' ? [] : left.split(':');
  if (right !== undefined) {
    const after = right === '' ? 0 : right.split(':').length;
    while (groups.length + after < 8) groups.push('0');
  }
  return `${groups
    .concat(['0', '0', '0', '0'])
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}

/** The address literal of RFC 5321 §4.1.3. */
export function addressLiteral(address: string): string {
  return isIPv6(address) ? `[IPv6:${address}]` : `[${address}]`;
}

/** Bytes of unread replies after which the session stops reading commands. */
const UNREAD_BYTES = 128 * 1024;

interface WireEvents {
  onData(chunk: Buffer): void;
  /** The client has finished sending. */
  onEnd(): void;
  /** The client has read the buffered replies. */
  onDrain(): void;
  onClosed(): void;
}

export class SessionWire {
  #socket: Socket;
  readonly #events: WireEvents;
  readonly #debug: (error: Error, what: string) => void;
  #output = '';
  #isEnded = false;

  constructor(socket: Socket, { events, log, address }: { events: WireEvents; log: Log; address: string }) {
    this.#socket = socket;
    this.#events = events;
    this.#debug = (error, what) => log.debug({ err: error, address }, what);
    this.#attach(socket);
  }

  #attach(socket: Socket): void {
    socket.on('data', (chunk: Buffer) => this.#events.onData(chunk));
    socket.on('end', () => {
      if (this.#socket === socket) this.#events.onEnd();
    });
    socket.on('drain', () => this.#events.onDrain());
    socket.on('error', (error) => {
      this.#debug(error, 'SMTP connection lost');
      socket.destroy();
    });
    socket.on('close', () => {
      if (this.#socket !== socket) return;
      this.#isEnded = true;
      this.#events.onClosed();
    });
  }

  add(line: string): void {
    this.#output += `${cleanReply(line)}\r\n`;
  }

  flush(): void {
    if (this.#output === '' || this.#isEnded) return;
    const output = this.#output;
    this.#output = '';
    this.#socket.write(output, 'latin1');
  }

  /**
   * Sends the buffered replies and ends the connection; the client closes it. If it has already closed, nothing is sent, not even TLS
   * alerts.
   */
  end(): void {
    this.flush();
    this.#isEnded = true;
    const { readableEnded, writableLength } = this.#socket;
    if (readableEnded && writableLength === 0 && this.tlsProtocol === null) this.#socket.destroy();
    else this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  get tlsProtocol(): string | null {
    return this.#socket instanceof TLSSocket ? this.#socket.getProtocol() : null;
  }

  isFull(): boolean {
    return this.#socket.writableLength >= UNREAD_BYTES;
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** Discards input that was not read. */
  discardInput(): void {
    this.#socket.removeAllListeners('data').pause();
    while (this.#socket.read() !== null);
  }

  /** Continues in TLS. `onSecure` is called after the handshake; a failed one ends the connection. */
  startTls(secureContext: SecureContext, onSecure: () => void): void {
    const plain = this.#socket;
    plain.removeAllListeners('data').removeAllListeners('drain').pause();
    const secured = new TLSSocket(plain, { isServer: true, secureContext });
    this.#socket = secured;
    secured.on('_tlsError', (error: Error) => {
      this.#debug(error, 'TLS handshake failed');
      secured.destroy();
    });
    this.#attach(secured);
    secured.once('secure', onSecure);
  }
}
