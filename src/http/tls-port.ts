/**
 * An additional port with TLS for the same HTTP server. Each connection gets the current certificate and is passed to the HTTP server after
 * its handshake. A connection that does not complete its handshake in time is closed.
 */

import { createServer, type Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { Log } from '../base/log.ts';
import { SHARED_PORT } from '../net/shared-port.ts';

const HANDSHAKE_MS = 30_000;
/** Above this number of pending handshakes, new connections are refused. */
const MAX_HANDSHAKES = 1_000;

export interface TlsPortOptions {
  host: string;
  /** 0 selects a free port. */
  port: number;
  /** Returns the context for the next handshake with a client that requests this host. */
  context(servername?: string): SecureContext;
  log: Log;
  /** Receives a connection after its TLS handshake. */
  onConnection(socket: TLSSocket): void;
}

export interface TlsPort {
  port: number;
  /** Stops listening and ends pending handshakes; resolves once the HTTP server has closed every connection. */
  close(): Promise<void>;
}

/** Rejects if the address is in use. */
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
    server.listen({ port: options.port, host: options.host, backlog: 1024, ...SHARED_PORT }, () => {
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
