/**
 * Ports for servers that need a fixed one. They are below the system's ephemeral range, so that another process cannot get them before the
 * server starts.
 */
import { randomInt } from 'node:crypto';
import net from 'node:net';

const FIRST = 10_000;
const BEYOND = 32_000;

/** Returns this many different free ports on loopback. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = randomInt(FIRST, BEYOND);
    if (!ports.includes(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

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
