/**
 * Hosts on one network: each is a network namespace with its own address, connected to a bridge of this machine. A host can lose its cable
 * (open connections then get no answer and no reset) or the route to some of the others. Needs root. However this process ends, a keeper
 * kills everything that runs on the hosts and removes them and their files.
 */
import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

export interface Host {
  name: string;
  address: string;
  /** Put before a command to run it there. */
  wrapper: string[];
  /** Unplugs the cable, or plugs it in. */
  link(state: 'down' | 'up'): void;
  /** Drops all packets to these addresses, or no longer. */
  drop(addresses: string[], dropped: boolean): void;
  /** Kills every process on the host. */
  kill(): void;
}

export interface Network {
  /** The address of this machine, which every host can reach. */
  address: string;
  subnet: string;
  /** For the files of the hosts; removed with the network. */
  folder: string;
  add(name: string): Host;
  close(): void;
}

function ip(...args: string[]): string {
  return execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

/** Waits for the end of its standard input, then removes the hosts with this prefix, the bridge, and the folder. */
const KEEPER = `trap '' INT TERM HUP
cat > /dev/null
for name in $(ip netns list | sed -n "s/^\\($1-[^ ]*\\).*/\\1/p"); do
  for turn in 1 2 3; do
    pids=$(ip netns pids "$name")
    [ -z "$pids" ] || kill -KILL $pids
    sleep 0.05
  done
  ip netns del "$name"
done
ip link del "$1"
rm -rf "$2"`;

/** Creates the bridge. */
export function startNetwork(): Network {
  const prefix = `prh${randomInt(1e6)}`;
  const net = `10.232.${randomInt(256)}`;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-ha-'));
  ip('link', 'add', prefix, 'type', 'bridge');
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', prefix, folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.unref();
  (keeper.stdin as unknown as { unref(): void }).unref();
  ip('addr', 'add', `${net}.254/24`, 'dev', prefix);
  ip('link', 'set', prefix, 'up');
  let hosts = 0;
  return {
    address: `${net}.254`,
    subnet: `${net}.0/24`,
    folder,
    add: (name) => {
      hosts += 1;
      return addHost({ name, prefix, number: hosts, address: `${net}.${hosts}` });
    },
    close: () => {
      keeper.stdin?.end();
    },
  };
}

function addHost(options: { name: string; prefix: string; number: number; address: string }): Host {
  const { name, prefix, number, address } = options;
  const space = `${prefix}-${name}`;
  const [here, there] = [`${prefix}h${number}`, `${prefix}g${number}`];
  ip('netns', 'add', space);
  ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there);
  ip('link', 'set', there, 'netns', space);
  ip('link', 'set', here, 'master', prefix);
  ip('link', 'set', here, 'up');
  ip('-n', space, 'addr', 'add', `${address}/24`, 'dev', there);
  ip('-n', space, 'link', 'set', there, 'up');
  ip('-n', space, 'link', 'set', 'lo', 'up');
  return {
    name,
    address,
    wrapper: ['ip', 'netns', 'exec', space],
    link: (state) => void ip('link', 'set', here, state),
    drop: (addresses, dropped) => {
      for (const one of addresses) ip('-n', space, 'route', dropped ? 'add' : 'del', 'blackhole', `${one}/32`);
    },
    kill: () => {
      for (const pid of ip('netns', 'pids', space).split('\n').filter(Boolean)) {
        try {
          process.kill(Number(pid), 'SIGKILL');
        } catch {
          // It has just ended.
        }
      }
    },
  };
}
