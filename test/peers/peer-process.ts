/**
 * A server started by a test: a foreground process with its own directory, whose output is kept. It is ended by its process id, and the
 * directory is removed. Fails with the output if the server does not start.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { waitUntil } from '../kit/wait-until.ts';

export interface PeerProcess {
  readonly pid: number;
  /** Its output on stdout and stderr. */
  output(): string;
  stop(): Promise<void>;
}

/** A directory that the servers' users may enter. */
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
    /** The port that it listens on once it has started. */
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
