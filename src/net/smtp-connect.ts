/**
 * Connects to a peer by TCP (RFC 8305 §5): tries its addresses in the given order, the next one 250 ms after the previous or as soon as
 * that fails. The first established connection wins; the others are closed without sending anything. An IPv6 address that drops packets
 * thus costs a quarter of a second. Each address has its own deadline within a common one.
 */
import { lookup } from 'node:dns/promises';
import net, { isIP, type Socket } from 'node:net';

export interface ConnectOptions {
  host: string;
  addresses?: string[];
  port: number;
  sourceFor?(address: string): string | undefined;
  connectMs: number;
  connectAddressMs: number;
  signal?: AbortSignal;
}

export type ConnectResult =
  | { ok: true; socket: Socket; address: string; source?: string; localAddress?: string | undefined }
  | { ok: false; stage: 'dns' | 'connect'; cause: string; message: string; address?: string; source?: string };

/** RFC 8305 §5, "Connection Attempt Delay". */
const NEXT_ADDRESS_MS = 250;

/** RFC 8305 §4: IPv6 and IPv4 alternate, IPv6 first; the order within each family is kept. */
export function interleaveFamilies(addresses: readonly string[]): string[] {
  const v6 = addresses.filter((address) => isIP(address) === 6);
  const v4 = addresses.filter((address) => isIP(address) !== 6);
  const pairs = Array.from({ length: Math.max(v6.length, v4.length) }, (_, index) => [v6[index], v4[index]]);
  return pairs.flat().filter((address) => address !== undefined);
}

function connectOnce(options: ConnectOptions, address: string, over: AbortSignal): Promise<ConnectResult> {
  return new Promise((resolve) => {
    const { port, connectAddressMs } = options;
    const source = options.sourceFor?.(address);
    const dialled = { address, ...(source === undefined ? {} : { source }) };
    const bound = source === undefined ? {} : { localAddress: source };
    const socket = net.connect({ host: address, port, noDelay: true, ...bound });
    const fail = (cause: string, message: string): void => {
      clearTimeout(timer);
      over.removeEventListener('abort', onOver);
      socket.removeAllListeners();
      socket.on('error', () => {});
      socket.destroy();
      resolve({ ok: false, stage: 'connect', cause, message, ...dialled });
    };
    const onOver = (): void => fail('ECANCELLED', 'another address was faster, or the attempt is over');
    const timer = setTimeout(
      () => fail('ETIMEDOUT', `no connection to ${address} port ${port} within ${connectAddressMs} ms`),
      connectAddressMs,
    );
    over.addEventListener('abort', onOver, { once: true });
    socket.once('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'ECONNRESET', error.message));
    socket.once('connect', () => {
      clearTimeout(timer);
      over.removeEventListener('abort', onOver);
      socket.removeAllListeners('error');
      resolve({ ok: true, socket, ...dialled, localAddress: socket.localAddress });
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

/** Returns the first established connection, or the failure of the last address. */
export async function connectTcp(options: ConnectOptions): Promise<ConnectResult> {
  const addresses = await addressesOf(options);
  if (!Array.isArray(addresses)) return { ok: false, stage: 'dns', ...addresses };
  return race(options, addresses);
}

function race(options: ConnectOptions, addresses: readonly string[]): Promise<ConnectResult> {
  const { connectMs, port, signal } = options;
  return new Promise((resolve) => {
    const over = new AbortController();
    let dialled = 0;
    let failed = 0;
    let nextTimer: NodeJS.Timeout | undefined;
    const end = (result: ConnectResult): void => {
      clearTimeout(deadline);
      clearTimeout(nextTimer);
      signal?.removeEventListener('abort', onAbort);
      resolve(result);
      over.abort();
    };
    const onAbort = (): void =>
      end({ ok: false, stage: 'connect', cause: 'ECANCELLED', message: 'the attempt was cancelled' });
    const deadline = setTimeout(() => {
      const address = addresses[dialled - 1]!;
      const message = `no connection to ${address} port ${port} within ${connectMs} ms for all addresses`;
      end({ ok: false, stage: 'connect', cause: 'ETIMEDOUT', message, address });
    }, connectMs);
    const dialNext = (): void => {
      clearTimeout(nextTimer);
      const address = addresses[dialled];
      if (address === undefined) return;
      dialled += 1;
      nextTimer = setTimeout(dialNext, NEXT_ADDRESS_MS);
      void connectOnce(options, address, over.signal).then((result) => {
        if (over.signal.aborted) {
          if (result.ok) result.socket.destroy();
          return;
        }
        if (result.ok) return end(result);
        failed += 1;
        if (failed === addresses.length) end(result);
        else dialNext();
      });
    };
    if (signal?.aborted) return onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    dialNext();
  });
}
