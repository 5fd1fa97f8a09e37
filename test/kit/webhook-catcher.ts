/** A real HTTP (or HTTPS) server on loopback that records requests and responds by script. */
import http, { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestCertificate } from './test-certificate.ts';

export interface CaughtRequest {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Raw bytes as text. */
  body: string;
  bytes: Buffer;
  /** Unix milliseconds. */
  at: number;
  /** Number of the connection, from 1. */
  connection: number;
}

export interface CatcherAnswer {
  /** 200 by default. */
  status?: number;
  headers?: Record<string, string>;
  body?: string;
  delayMs?: number;
  /** Responds when this has resolved. */
  held?: Promise<unknown>;
  /** Cuts the connection instead of responding. */
  reset?: boolean;
  /** Headers, then a body without end: as fast as possible, or one byte at this interval. */
  endless?: true | { everyMs: number };
  /** Reads the request and never responds. */
  silent?: boolean;
  /** These bytes instead of an HTTP response; then closes the connection. */
  raw?: string;
}

export type CatcherScript = CatcherAnswer | ((request: CaughtRequest) => CatcherAnswer | undefined);

export interface WebhookCatcher {
  url: string;
  port: number;
  requests: CaughtRequest[];
  connections: { readonly now: number; readonly total: number };
  /** Sets the response from now on; without an argument 200. */
  answer(script?: CatcherScript): void;
  close(): Promise<void>;
}

function pour(response: ServerResponse, endless: true | { everyMs: number }): void {
  if (endless !== true) {
    const timer = setInterval(() => response.write('x'), endless.everyMs);
    response.on('close', () => clearInterval(timer));
    return;
  }
  const block = Buffer.alloc(16_384, 'x');
  const write = (): void => {
    while (!response.destroyed && response.write(block));
  };
  response.on('drain', write);
  write();
}

function reply(response: ServerResponse, answer: CatcherAnswer): void {
  if (answer.silent) return;
  if (answer.reset) {
    response.socket?.resetAndDestroy();
  } else if (answer.raw !== undefined) {
    response.socket?.end(answer.raw);
  } else {
    response.writeHead(answer.status ?? 200, answer.headers ?? {});
    if (answer.endless) pour(response, answer.endless);
    else response.end(answer.body ?? '');
  }
}

export async function webhookCatcher(
  options: { script?: CatcherScript; certificate?: TestCertificate; port?: number; host?: string } = {},
): Promise<WebhookCatcher> {
  let script: CatcherScript = options.script ?? {};
  let now = 0;
  let total = 0;
  const numbers = new WeakMap<object, number>();
  const requests: CaughtRequest[] = [];

  const onRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    const caught: CaughtRequest = {
      method: request.method ?? '',
      path: request.url ?? '',
      headers: request.headers,
      body: Buffer.concat(chunks).toString(),
      bytes: Buffer.concat(chunks),
      at: Date.now(),
      connection: numbers.get(request.socket) ?? 0,
    };
    requests.push(caught);
    const answer = (typeof script === 'function' ? script(caught) : script) ?? {};
    await answer.held;
    if (answer.delayMs) setTimeout(() => reply(response, answer), answer.delayMs);
    else reply(response, answer);
  };
  const server = options.certificate
    ? https.createServer({ ...options.certificate }, onRequest)
    : http.createServer(onRequest);
  server.on('connection', (socket) => {
    now += 1;
    socket.on('close', () => {
      now -= 1;
    });
  });
  server.on(options.certificate ? 'secureConnection' : 'connection', (socket) => {
    total += 1;
    numbers.set(socket, total);
  });
  const host = options.host ?? '127.0.0.1';
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port ?? 0, host, () => resolve());
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `${options.certificate ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}/hook`,
    port,
    requests,
    connections: {
      get now() {
        return now;
      },
      get total() {
        return total;
      },
    },
    answer: (next = {}) => {
      script = next;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
