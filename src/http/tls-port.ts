/**
 * The same HTTP server on a port of its own with TLS: each connection gets the certificate of its moment, and is handed to the HTTP
 * server once its handshake is done, which then treats it like any other. A handshake that does not come ends the connection.
 */
import { createServer, type Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { Log } from '../base/log.ts';

const HANDSHAKE_MS = 30_000;
/** Beyond these, connections that still shake hands make room for new ones by being refused. */
const MAX_HANDSHAKES = 1_000;

export interface TlsPortOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** For the next handshake, with a client that asks for this host. */
  context(servername?: string): SecureContext;
  log: Log;
  /** Takes a connection that speaks TLS. */
  onConnection(socket: TLSSocket): void;
}

export interface TlsPort {
  port: number;
  /** Listens no more, and ends what still shakes hands; resolves once every connection is closed, which is the HTTP server's to do. */
  close(): Promise<void>;
}

/** Rejects when the address is taken. */
export function listenTls(options: TlsPortOptions): Promise<TlsPort> {
  const { log } = options;
  const shaking = new Set<Socket>();
  const receive = (plain: Socket): void => {
    if (shaking.size >= MAX_HANDSHAKES) return void plain.destroy();
    shaking.add(plain);
    plain.setNoDelay(true);
    plain.setTimeout(HANDSHAKE_MS, () => plain.destroy());
    const secured = new TLSSocket(plain, {
      isServer: true,
      secureContext: options.context(),
      SNICallback: (servername, answer) => answer(null, options.context(servername)),
      ALPNProtocols: ['http/1.1'],
    });
    const drop = (error: Error): void => {
      log.debug({ err: error, address: plain.remoteAddress }, 'HTTPS handshake failed');
      plain.destroy();
    };
    secured.on('_tlsError', drop);
    secured.on('error', drop);
    plain.on('error', drop);
    plain.once('close', () => shaking.delete(plain));
    secured.once('secure', () => {
      shaking.delete(plain);
      plain.setTimeout(0);
      secured.off('error', drop);
      options.onConnection(secured);
    });
  };
  const server = createServer(receive);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, 1024, () => {
      server.removeListener('error', reject);
      server.on('error', (error) => log.error({ err: error }, 'connections with TLS cannot be accepted'));
      const { port } = server.address() as { port: number };
      const close = (): Promise<void> =>
        new Promise((closed) => {
          server.close(() => closed());
          for (const socket of shaking) socket.destroy();
        });
      resolve({ port, close });
    });
  });
}
