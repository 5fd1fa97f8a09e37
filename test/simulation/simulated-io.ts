/**
 * Redirects the sockets, datagrams, servers and storage threads of this process into the simulation, as globals.ts does with time.
 * Functions that the product does not use are missing and fail visibly.
 */
import crypto from 'node:crypto';
import dgram from 'node:dgram';
import { EventEmitter } from 'node:events';
import fsPromises from 'node:fs/promises';
import http, { type Server as HttpServer } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import timersPromises from 'node:timers/promises';
import tls from 'node:tls';
import workerThreads from 'node:worker_threads';
import { notVerified } from '../../src/inbound-routes/authentication-results.ts';
import { here, isBeforeWorlds } from './globals.ts';
import { SimSocket } from './network.ts';
import { blockUnreplaced } from './replaced-functions.ts';
import { SimTlsSocket } from './tls.ts';

/** Node's own class, for threads of the simulation itself. */
export const RealWorker = workerThreads.Worker;

/** The address of the simulated machine; every node of a scenario has its own port. */
export const OUR_ADDRESS = '192.0.2.1';

interface ListenOptions {
  port: number;
}

/** Registers a listener for the current process. */
function listening(server: EventEmitter, port: number, onListening?: () => void) {
  const { network, timeline } = here();
  const at = `${OUR_ADDRESS}:${port}`;
  network.listen(at, (socket) => server.emit('connection', socket));
  timeline.soon('listening', () => {
    server.emit('listening');
    onListening?.();
  });
  const { process } = timeline;
  return { port, close: () => network.close(at, process) };
}

class SimServer extends EventEmitter {
  #bound: ReturnType<typeof listening> | undefined;

  listen({ port }: ListenOptions, onListening?: () => void): this {
    this.#bound = listening(this, port, onListening);
    return this;
  }

  get listening(): boolean {
    return this.#bound !== undefined;
  }

  address(): { address: string; port: number } {
    return { address: OUR_ADDRESS, port: this.#bound?.port ?? 0 };
  }

  close(done?: () => void): this {
    this.#bound?.close();
    this.#bound = undefined;
    here().timeline.soon('closed', () => {
      this.emit('close');
      done?.();
    });
    return this;
  }
}

function createServer(...args: unknown[]): SimServer {
  const server = new SimServer();
  const onConnection = args.find((one) => typeof one === 'function');
  if (onConnection) server.on('connection', onConnection as (socket: SimSocket) => void);
  return server;
}

/** Node's own HTTP server, with connections of the simulated network. */
function createHttpServer(options: http.ServerOptions): HttpServer {
  const server = realHttpServer(options);
  let bound: ReturnType<typeof listening> | undefined;
  const sockets = new Set<SimSocket>();
  server.on('connection', (socket) => {
    const one = socket as unknown as SimSocket;
    sockets.add(one);
    one.on('close', () => sockets.delete(one));
  });
  const listen = ({ port }: ListenOptions, onListening?: () => void): HttpServer => {
    bound = listening(server, port, onListening);
    return server;
  };
  // Node's own Date header uses the real clock.
  server.prependListener('request', (_request, response) => {
    response.setHeader('Date', new Date().toUTCString());
  });
  // Node checks connections by the real clock.
  server.once('listening', () => {
    for (const name of Object.getOwnPropertySymbols(server)) {
      if (name.description !== 'http.server.connectionsCheckingInterval') continue;
      (Reflect.get(server, name) as { close(): void } | undefined)?.close();
    }
  });
  Object.defineProperty(server, 'listening', { get: () => bound !== undefined });
  return Object.assign(server, {
    listen,
    address: () => ({ address: OUR_ADDRESS, port: bound?.port ?? 0, family: 'IPv4' }),
    close: (done?: () => void): HttpServer => {
      bound?.close();
      bound = undefined;
      server.closeIdleConnections();
      const look = (): void => {
        if (sockets.size > 0) here().timeline.after(5, 'closing', look);
        else done?.();
      };
      look();
      return server;
    },
  });
}

const realHttpServer = http.createServer as (options: http.ServerOptions) => HttpServer;

interface ConnectTo {
  host?: string;
  hostname?: string;
  port: number | string;
}

const connect = ({ host, hostname, port }: ConnectTo): SimSocket =>
  here().network.connect({ host: host ?? hostname ?? '', port: Number(port) }, OUR_ADDRESS);

/** A socket that is created first and connected later; writes of one turn are sent as one piece. */
class DialledSocket extends SimSocket {
  constructor() {
    super(here().network, here().timeline.process);
    this.allowHalfOpen = false;
  }

  connect(port: number, host: string): this {
    this.network.dial(this, { host, port }, OUR_ADDRESS);
    return this;
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'buffer', done);
  }
}

/** A DNS query and its answer; both are one datagram that may be lost. */
class SimUdpSocket extends EventEmitter {
  #isClosed = false;

  connect(_port: number, _address: string, done: (error?: Error) => void): void {
    here().timeline.soon('udp', () => done());
  }

  send(bytes: Uint8Array, done: (error?: Error | null) => void): void {
    const { timeline, dns } = here();
    const { process } = timeline;
    timeline.soon('sent', () => done(null));
    dns.ask(Buffer.from(bytes), (answer) =>
      timeline.as(process, () => {
        if (!this.#isClosed && !process.isDead) this.emit('message', answer);
      }),
    );
  }

  close(): void {
    this.#isClosed = true;
  }
}

/** Copies messages between threads, faster than structuredClone. A transferred buffer is detached here. */
function copyOf(value: unknown): unknown {
  if (typeof value === 'function' || typeof value === 'symbol') throw new DOMException('no data', 'DataCloneError');
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  if (value instanceof ArrayBuffer) return value.transfer();
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  const copy: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) copy[name] = copyOf(member);
  return copy;
}

/** A worker thread of the storage: it runs in this thread, and its messages have a delay. */
class SimWorker extends EventEmitter {
  constructor(module: URL, { workerData }: { workerData: unknown }) {
    super();
    if (!module.pathname.endsWith('/storage/sqlite/thread.ts')) throw new Error(`no simulated thread runs ${module}`);
    here().threads.start(this, workerData as Parameters<SimulatedThreads['start']>[1]);
  }

  postMessage(message: unknown): void {
    here().threads.post(this, copyOf(message));
  }
}

/** The thread that checkpoints the write-ahead log. */
class SimCheckpointer extends EventEmitter {
  readonly #file: string;

  constructor({ file }: { file: string }) {
    super();
    this.#file = file;
  }

  postMessage(): void {
    here().threads.checkpoint(this, this.#file);
  }

  terminate(): Promise<number> {
    return Promise.resolve(0);
  }
}

type SimulatedThreads = ReturnType<typeof here>['threads'];

/**
 * The thread that verifies messages: it makes one DNS query and returns that the message is not verified. Real verification is tested
 * elsewhere.
 */
class SimVerifier extends EventEmitter {
  postMessage(message: { kind: string; id: number }): void {
    const { timeline } = here();
    if (message.kind === 'mail') {
      const { id } = message;
      const asked = { kind: 'question', id, question: id, name: 'quick.example', type: 'TXT' };
      timeline.after(3, 'verifier', () => this.emit('message', asked));
      return;
    }
    const results = notVerified('simulated');
    const { question: id } = message as unknown as { question: number };
    timeline.after(3, 'verifier', () => this.emit('message', { kind: 'verified', id, results }));
  }

  terminate(): Promise<number> {
    return Promise.resolve(0);
  }
}

function startWorker(module: URL, options: { workerData: unknown }): EventEmitter {
  if (module.pathname.endsWith('/inbound-routes/verifier-thread.ts')) return new SimVerifier();
  if (module.pathname.endsWith('/storage/sqlite/checkpoint-thread.ts'))
    return new SimCheckpointer(options.workerData as { file: string });
  return new SimWorker(module, options);
}

// The process's own output uses real sockets, which are created at their first use.
void [process.stdout, process.stderr];
Object.assign(net, { connect, createConnection: connect, createServer, Socket: DialledSocket });
Object.assign(http, { createServer: createHttpServer });
Object.assign(dgram, { createSocket: () => new SimUdpSocket() });
Object.assign(tls, {
  connect: (options: ConnectTo & { socket?: SimSocket; rejectUnauthorized?: boolean }) =>
    new SimTlsSocket(options.socket ?? connect(options), options),
  createSecureContext: () => ({}),
  TLSSocket: SimTlsSocket,
});
Object.assign(workerThreads, { Worker: startWorker });
const modules = {
  'node:crypto': crypto,
  'node:dgram': dgram,
  'node:fs/promises': fsPromises,
  'node:http': http,
  'node:net': net,
  'node:timers/promises': timersPromises,
  'node:tls': tls,
  'node:worker_threads': workerThreads,
};
for (const [name, module] of Object.entries(modules)) blockUnreplaced(name, module, isBeforeWorlds);
syncBuiltinESMExports();
