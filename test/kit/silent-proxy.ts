/**
 * A TCP proxy on loopback whose connections can be silenced: they pass nothing, and are neither closed nor reset, as when the host behind
 * loses power.
 */
import net, { type AddressInfo, type Socket } from 'node:net';

export interface SilentProxy {
  port: number;
  /** Connections so far. */
  readonly connections: number;
  /** Silences the open connections, and with `all` those that are opened later. */
  silence(which: 'open' | 'all'): void;
  close(): Promise<void>;
}

export async function silentProxy(targetPort: number): Promise<SilentProxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let isSilent = false;
  const server = net.createServer((client) => {
    connections += 1;
    const upstream = net.connect(targetPort, '127.0.0.1');
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on('data', (chunk) => to.write(chunk));
      from.on('error', () => undefined);
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      if (isSilent) from.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    silence: (which) => {
      isSilent = which === 'all';
      for (const socket of sockets) socket.pause();
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
