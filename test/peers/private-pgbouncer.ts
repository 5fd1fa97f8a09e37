/**
 * A private PgBouncer for a test, in transaction mode, on one loopback port, with fewer server connections than clients: every session is
 * shared. It is ended by its process id, and its directory is removed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { freePort } from '../kit/free-ports.ts';
import { waitUntil } from '../kit/wait-until.ts';

const NOBODY = 65_534;

export interface PrivatePgBouncer {
  port: number;
  /** Returns the URL of a database through it. */
  through(url: string): string;
  log(): string;
  stop(): Promise<void>;
}

export async function startPgBouncer(options: {
  serverPort: number;
  serverConnections: number;
}): Promise<PrivatePgBouncer> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-pgbouncer-'));
  const port = await freePort();
  const file = path.join(folder, 'pgbouncer.ini');
  const log = path.join(folder, 'pgbouncer.log');
  writeFileSync(
    file,
    [
      '[databases]',
      `* = host=127.0.0.1 port=${options.serverPort} user=postgres`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      'pool_mode = transaction',
      'max_client_conn = 200',
      `default_pool_size = ${options.serverConnections}`,
      `logfile = ${log}`,
      '',
    ].join('\n'),
  );
  const isRoot = process.getuid?.() === 0;
  if (isRoot) for (const place of [folder, file]) chownSync(place, NOBODY, NOBODY);
  const child: ChildProcess = spawn('/usr/sbin/pgbouncer', [file], {
    stdio: 'ignore',
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  const through = (url: string): string => {
    const led = new URL(url);
    led.host = `127.0.0.1:${port}`;
    return led.href;
  };
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  const answers = async (): Promise<boolean> => {
    const client = new pg.Client({ connectionString: through('postgres://postgres@host/postgres') });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.end();
      return true;
    } catch {
      return false;
    }
  };
  try {
    await waitUntil('PgBouncer to start', answers);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, through, log: () => readFileSync(log, 'utf8'), stop };
}
