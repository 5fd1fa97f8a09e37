/**
 * Reaches a peer by TCP: its addresses one after the other, each with a deadline of its own within one for all, so that
 * an IPv6 address behind a black hole costs ten seconds and not the attempt.
 */
import { lookup } from 'node:dns/promises';
import net, { type Socket } from 'node:net';

export interface ConnectOptions {
  host: string;
  addresses?: string[];
  port: number;
  localAddress?: string;
  connectMs: number;
  connectAddressMs: number;
  signal?: AbortSignal;
}

export type ConnectResult =
  | { ok: true; socket: Socket; address: string }
  | { ok: false; stage: 'dns' | 'connect'; cause: string; message: string; address?: string };

function connectOnce(options: ConnectOptions, address: string, timeoutMs: number): Promise<ConnectResult> {
  return new Promise((resolve) => {
    const { port, localAddress, signal } = options;
    const socket = net.connect({ host: address, port, noDelay: true, ...(localAddress ? { localAddress } : {}) });
    const fail = (cause: string, message: string): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      socket.removeAllListeners();
      socket.on('error', () => {});
      socket.destroy();
      resolve({ ok: false, stage: 'connect', cause, message, address });
    };
    const onAbort = (): void => fail('ECANCELLED', 'the attempt was cancelled');
    const timer = setTimeout(
      () => fail('ETIMEDOUT', `no connection to ${address} port ${port} within ${timeoutMs} ms`),
      timeoutMs,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
    socket.once('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'ECONNRESET', error.message));
    socket.once('connect', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      socket.removeAllListeners('error');
      resolve({ ok: true, socket, address });
    });
  });
}

async function addressesOf(options: ConnectOptions): Promise<string[] | { cause: string; message: string }> {
  if (options.addresses !== undefined) {
    if (options.addresses.length > 0) return options.addresses;
    return { cause: 'ENOADDRESS', message: `${options.host} has no address to connect to` };
  }
  try {
    const found = await lookup(options.host, { all: true });
    return found.map((entry) => entry.address);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { cause: code ?? 'ENOTFOUND', message };
  }
}

/** The first connection that stands; the failure of the last address otherwise. */
export async function connectTcp(options: ConnectOptions): Promise<ConnectResult> {
  const addresses = await addressesOf(options);
  if (!Array.isArray(addresses)) return { ok: false, stage: 'dns', ...addresses };
  const end = performance.now() + options.connectMs;
  let result: ConnectResult | undefined;
  for (const address of addresses) {
    if (options.signal?.aborted) break;
    const leftMs = Math.floor(end - performance.now());
    if (leftMs <= 0) break;
    result = await connectOnce(options, address, Math.min(leftMs, options.connectAddressMs));
    if (result.ok) return result;
    // A timer may fire a little early by this clock; what was left for all is used up all the same.
    if (result.cause === 'ETIMEDOUT' && leftMs <= options.connectAddressMs) break;
  }
  const cancelled = { cause: 'ECANCELLED', message: 'the attempt was cancelled' };
  return result && !options.signal?.aborted ? result : { ok: false, stage: 'connect', ...cancelled };
}
