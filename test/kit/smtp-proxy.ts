/**
 * A proxy between an SMTP client and a sink: acts on the client's first connections after a number of bytes from the client; other
 * connections pass unchanged.
 */
import net, { type Socket } from 'node:net';

export interface Harm {
  afterBytes: number;
  /** The number of connections to act on, from the first. */
  times: number;
  /** The sink is already disconnected. */
  act(client: Socket): void;
}

export interface Between {
  port: number;
  /** Connections that were acted on. */
  readonly harmed: number;
  close(): Promise<void>;
}

export async function between(sinkPort: number, harm: Harm): Promise<Between> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let harmed = 0;
  const server = net.createServer((client) => {
    connections += 1;
    const chosen = connections <= harm.times;
    const upstream = net.connect(sinkPort, '127.0.0.1');
    let passed = 0;
    let done = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    }
    client.on('data', (chunk) => {
      passed += chunk.length;
      if (!chosen || passed <= harm.afterBytes) upstream.write(chunk);
      else if (!done) {
        done = true;
        harmed += 1;
        upstream.destroy();
        harm.act(client);
      }
    });
    upstream.on('data', (chunk) => client.write(chunk));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => chosen || client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as net.AddressInfo).port,
    get harmed() {
      return harmed;
    },
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
