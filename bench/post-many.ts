/** Many `POST /send` over a fixed number of kept-alive connections, with plain sockets so that the generator needs little CPU. */
import net from 'node:net';

export interface PostMany {
  url: URL;
  headers: Record<string, string>;
  count: number;
  connections: number;
  /** Bytes of text in each message. */
  size: number;
  /** Returns the recipient of each request, in order; one for all by default. */
  recipientOf?(index: number): string;
}

/** Sends `count` requests over `connections` kept-alive connections, each waiting for its response; rejects on anything except 202. */
export function postMany({ url, headers, count, connections, size, recipientOf }: PostMany): Promise<void> {
  const line = 'The quick brown fox jumps over the lazy dog. 0123456789 abcdefghijk\r\n';
  const text = line.repeat(Math.ceil(size / line.length)).slice(0, size);
  const requestTo = (to: string): Buffer => {
    const body = JSON.stringify({ from: 'bench@bench.example', to, subject: 'bench', text });
    const all = { ...headers, 'content-type': 'application/json', 'content-length': String(body.length) };
    const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    return Buffer.from(`POST /send HTTP/1.1\r\nHost: ${url.host}\r\n${head.join('')}\r\n${body}`);
  };
  const same = requestTo('rcpt@sink.example');
  let left = count;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = net.connect(Number(url.port), url.hostname);
      socket.setNoDelay(true);
      let pending = '';
      const next = (): void => {
        if (left === 0) {
          socket.end();
          resolve();
          return;
        }
        left -= 1;
        socket.write(recipientOf ? requestTo(recipientOf(left)) : same);
      };
      socket.on('connect', next);
      socket.on('error', reject);
      socket.on('data', (data) => {
        pending += data.toString('latin1');
        const headEnd = pending.indexOf('\r\n\r\n');
        if (headEnd < 0) return;
        const length = Number(/content-length: (\d+)/i.exec(pending)?.[1]);
        if (pending.length < headEnd + 4 + length) return;
        if (!pending.startsWith('HTTP/1.1 202')) {
          reject(new Error(pending.slice(0, 500)));
          return;
        }
        pending = pending.slice(headEnd + 4 + length);
        next();
      });
    });
  return Promise.all(Array.from({ length: connections }, one)).then(() => undefined);
}
