/**
 * An isolated host: a network namespace connected to this machine by a pair of virtual links, with forwarders to servers on this machine's
 * loopback. The link can be cut and restored; open connections then get no answer and no reset, as with an unplugged cable. Needs root;
 * close() removes everything.
 */
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { missing, notAllowed } from './requirements.ts';

export interface NetworkNamespace {
  /** Put before a command to run it there. */
  wrapper: string[];
  /** The same, with the file systems of this machine: `ip netns exec` hides its control groups, which a container engine needs. */
  networkWrapper: string[];
  /** This machine reaches the ports of the namespace here. */
  address: string;
  /** Makes a loopback port of this machine reachable from there; returns host and port. */
  forward(port: number): Promise<{ host: string; port: number }>;
  /** Silences one forwarder: its connections hang and no new one is answered, until it is restored. */
  silence(port: number, silent: boolean): void;
  /** Takes the link down, or up again. */
  link(state: 'down' | 'up'): void;
  close(): Promise<void>;
}

function ip(...args: string[]): void {
  execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** False if namespaces can be created, otherwise the reason for `{ skip }`. */
export const noNamespaces: string | false =
  missing('ip') ||
  notAllowed('make network namespaces', () => {
    const name = `prp${randomInt(1e6)}`;
    ip('netns', 'add', name);
    ip('netns', 'del', name);
  });

interface Forwarder {
  server: Server;
  pairs: Set<[Socket, Socket]>;
  silent: boolean;
}

export function networkNamespace(): NetworkNamespace {
  const name = `pr${randomInt(1e6)}`;
  const [here, there] = [`${name}h`, `${name}n`];
  const net = `10.231.${randomInt(256)}`;
  const base = randomInt(60) * 4;
  const [host, guest] = [`${net}.${base + 1}`, `${net}.${base + 2}`];
  const forwarders = new Map<number, Forwarder>();
  ip('netns', 'add', name);
  try {
    ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there);
    ip('link', 'set', there, 'netns', name);
    ip('addr', 'add', `${host}/30`, 'dev', here);
    ip('link', 'set', here, 'up');
    ip('-n', name, 'addr', 'add', `${guest}/30`, 'dev', there);
    ip('-n', name, 'link', 'set', there, 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
  } catch (error) {
    ip('netns', 'del', name);
    throw error;
  }

  let removed = false;
  const remove = (): void => {
    if (removed) return;
    removed = true;
    // Deleting the namespace also deletes the pair of links.
    ip('netns', 'del', name);
  };
  process.once('exit', remove);

  const join = (forwarder: Forwarder, from: Socket, port: number): void => {
    const to = connect(port, '127.0.0.1');
    const pair: [Socket, Socket] = [from, to];
    forwarder.pairs.add(pair);
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      one.on('data', (chunk) => {
        if (!other.write(chunk)) {
          one.pause();
          other.once('drain', () => forwarder.silent || one.resume());
        }
      });
      one.on('error', () => other.destroy());
      one.on('close', () => {
        // The other side of a silenced pair is not notified; close() ends it.
        if (forwarder.silent) return;
        forwarder.pairs.delete(pair);
        other.destroy();
      });
      one.on('end', () => other.end());
    }
    if (forwarder.silent) for (const one of pair) one.pause();
  };

  return {
    wrapper: ['ip', 'netns', 'exec', name],
    networkWrapper: ['nsenter', `--net=/run/netns/${name}`],
    address: guest,
    forward: async (port) => {
      const forwarder: Forwarder = { server: createServer(), pairs: new Set(), silent: false };
      forwarder.server.on('connection', (socket) => join(forwarder, socket, port));
      await new Promise<void>((resolve, reject) => {
        forwarder.server.once('error', reject);
        forwarder.server.listen(0, host, resolve);
      });
      forwarders.set(port, forwarder);
      return { host, port: (forwarder.server.address() as { port: number }).port };
    },
    silence: (port, silent) => {
      const forwarder = forwarders.get(port)!;
      forwarder.silent = silent;
      for (const pair of forwarder.pairs) for (const one of pair) silent ? one.pause() : one.resume();
    },
    link: (state) => ip('link', 'set', here, state),
    close: async () => {
      for (const { server, pairs } of forwarders.values()) {
        for (const pair of pairs) for (const one of pair) one.destroy();
        await new Promise((resolve) => server.close(resolve));
      }
      process.off('exit', remove);
      remove();
    },
  };
}
