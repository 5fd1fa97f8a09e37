/**
 * A TCP proxy on loopback between a client and an HTTP server that injects network and server faults, while the server itself works. A
 * fault applies from the next request on, including open connections.
 */
import net, { type AddressInfo, type Socket } from 'node:net';

export type Fault =
  /** Connections are reset, including new ones. */
  | { kind: 'down' }
  /** Requests are accepted and never answered. */
  | { kind: 'silent' }
  /** Every request is answered with 503 SlowDown and not forwarded. */
  | { kind: 'busy' }
  /** Responses are cut after this many bytes. */
  | { kind: 'cut'; afterBytes: number }
  /** Requests reach the server, and its responses are lost. */
  | { kind: 'lost' };

export interface FaultProxy {
  port: number;
  url: string;
  /** Sets the fault from now on; without one, everything passes. `methods` limits it to these methods, `times` to this many requests. */
  set(fault?: Fault, options?: { methods?: string[]; times?: number }): void;
  /** Requests that met the fault since it was set. */
  readonly met: number;
  close(): Promise<void>;
}

const BUSY_BODY = '<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>';
const BUSY = `HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: ${BUSY_BODY.length}\r\nConnection: close\r\n\r\n${BUSY_BODY}`;
const REQUEST_LINE = /^([A-Z]+) \S+ HTTP\/1\.1\r\n/;

/** Node 26 spins forever at exit if a socket that is being shut down is reset. */
function reset(socket: Socket): void {
  if (socket.writableEnded || socket.destroyed) socket.destroy();
  else socket.resetAndDestroy();
}

export async function faultProxy(targetPort: number): Promise<FaultProxy> {
  const sockets = new Set<Socket>();
  let fault: Fault | undefined;
  let methods: string[] | undefined;
  let left = 0;
  let met = 0;

  const meets = (method: string): Fault | undefined => {
    if (!fault || left === 0 || (methods && !methods.includes(method))) return undefined;
    left -= 1;
    met += 1;
    return fault;
  };

  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
  };

  const connect = (client: Socket): void => {
    keep(client);
    if (fault?.kind === 'down' && !methods) {
      met += 1;
      reset(client);
      return;
    }
    const server = net.connect(targetPort, '127.0.0.1');
    keep(server);
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroy());
    let present: Fault | undefined;
    let answeredBytes = 0;
    client.on('data', (chunk: Buffer) => {
      const line = REQUEST_LINE.exec(chunk.toString('latin1', 0, 2000));
      if (line) {
        present = meets(line[1]!);
        answeredBytes = 0;
        if (present?.kind === 'busy') client.end(BUSY);
      }
      if (present?.kind === 'down') reset(client);
      else if (present?.kind !== 'silent' && present?.kind !== 'busy') server.write(chunk);
    });
    server.on('data', (chunk: Buffer) => {
      if (present?.kind === 'lost') return void reset(client);
      if (present?.kind !== 'cut') return void client.write(chunk);
      const rest = present.afterBytes - answeredBytes;
      answeredBytes += chunk.length;
      if (chunk.length <= rest) client.write(chunk);
      else client.write(chunk.subarray(0, Math.max(0, rest)), () => reset(client));
    });
  };

  const server = net.createServer(connect);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    set: (next, options = {}) => {
      fault = next;
      methods = options.methods;
      left = options.times ?? Number.POSITIVE_INFINITY;
      met = 0;
      if (next?.kind === 'down' && !methods) for (const socket of sockets) reset(socket);
    },
    get met() {
      return met;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
