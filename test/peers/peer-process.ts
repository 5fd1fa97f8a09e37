/**
 * A server that a test starts: a process in the foreground with a folder of its own, whose output is kept. Ended by its process id, and the
 * folder removed. Fails with what it said when it does not come up.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { waitUntil } from '../kit/wait-until.ts';

export interface PeerProcess {
  readonly pid: number;
  /** What it wrote to stdout and stderr. */
  output(): string;
  stop(): Promise<void>;
}

/** A folder that the users of servers may enter. */
export function peerFolder(name: string): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), `postrider-${name}-`));
  chmodSync(folder, 0o755);
  return folder;
}

const SBIN = `${process.env.PATH}:/usr/sbin:/sbin`;

export async function startPeer(
  command: [program: string, ...args: string[]],
  options: {
    folder: string;
    /** Listens there when it is up. */
    port: number;
    env?: Record<string, string>;
    user?: { uid: number; gid: number };
  },
): Promise<PeerProcess> {
  const [program, ...args] = command;
  const { folder, port, env = {}, user = {} } = options;
  const stdio = ['ignore', 'pipe', 'pipe'] as const;
  const child: ChildProcess = spawn(program, args, {
    env: { ...process.env, PATH: SBIN, ...env },
    stdio: [...stdio],
    ...user,
  });
  let output = '';
  const keep = (chunk: Buffer): void => {
    output += chunk;
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  child.on('error', (error) => {
    output += error;
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const hasEnded = (): boolean => child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  const stop = async (): Promise<void> => {
    if (!hasEnded()) {
      child.kill('SIGTERM');
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await waitUntil(`${program} to listen`, () => {
      if (hasEnded()) throw new Error(`${program} ended`);
      return isListening(port);
    });
  } catch (error) {
    await stop();
    throw new Error(`${(error as Error).message}\n${output}`, { cause: error });
  }
  return { pid: child.pid!, output: () => output, stop };
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
