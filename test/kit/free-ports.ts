/**
 * Ports for servers that have to be given theirs. They lie below those that the system itself gives out, so that it cannot
 * give them to somebody else before the server is up, which with many tests at once it does.
 */
import { randomInt } from 'node:crypto';
import net from 'node:net';

const FIRST = 10_000;
const BEYOND = 32_000;

/** So many different ports on loopback that nobody listens on. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(FIRST, BEYOND);
    if (!ports.includes(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

/** One of them. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}

function isFree(port: number): Promise<boolean> {
  const server = net.createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
