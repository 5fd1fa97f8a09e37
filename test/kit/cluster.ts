/**
 * Several nodes of the real service on one real PostgreSQL and one S3 store (or a shared directory), each a process with its own data
 * directory, and faults for them. Closes everything by pid.
 */

import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Api, apiClient } from './api.ts';
import { noS3, type S3Peer, startS3 } from './s3.ts';
import { type Service, startService } from './start-service.ts';
import { type PostgresServer, type TempPostgres, tempPostgres } from './temp-postgres.ts';

export interface ClusterOptions {
  nodes: number;
  env?: Record<string, string>;
  /** Settings of one node in addition to those of all. */
  envOf?(index: number, env: Record<string, string>): Promise<Record<string, string>>;
  /** How many nodes, from the first, the balanced client uses; all by default. */
  reachable?: number;
  /** Program and arguments before a node's command, for example a network namespace. */
  wrapperOf?(index: number): string[];
  /** The entry point of another version, for all nodes. */
  program?: string;
  /** Stores content in S3 if a store is available, otherwise in a shared directory. */
  s3?: boolean;
}

export interface Cluster {
  readonly nodes: Service[];
  readonly postgres: PostgresServer;
  /** Settings for another node or a command. */
  readonly env: Record<string, string>;
  /** Calls with the live key at alternating nodes; skips unreachable ones, as a load balancer does. */
  readonly api: Api;
  readonly blobs: 's3' | 'directory';
  add(env?: Record<string, string>): Promise<Service>;
  /** The ends of the logs of all nodes. */
  logs(): string;
  close(): Promise<void>;
}

/** Starts everything; the first node creates the account, the others join. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const postgres: TempPostgres = await tempPostgres();
  const shared = mkdtempSync(path.join(os.tmpdir(), 'postrider-shared-'));
  const nodes: Service[] = [];
  let s3: S3Peer | undefined;
  const close = async (): Promise<void> => {
    balanced?.close();
    await Promise.all(nodes.map((node) => node.close()));
    await s3?.close();
    await postgres.drop();
    rmSync(shared, { recursive: true, force: true });
  };
  let balanced: Api | undefined;
  try {
    s3 = options.s3 && noS3 === false ? await startS3() : undefined;
    const env: Record<string, string> = {
      POSTRIDER_DATABASE_URL: postgres.url,
      POSTRIDER_SECRET_KEY: randomBytes(32).toString('base64'),
      POSTRIDER_BLOB_URL: `file://${shared}`,
      ...s3?.environment(),
      ...options.env,
    };
    const start = async (index: number, further: Record<string, string> = {}): Promise<Service> => {
      const wrapper = options.wrapperOf?.(index);
      const node = await startService({
        env: { ...env, ...(await options.envOf?.(index, env)), ...further },
        ...(nodes[0] ? { joins: nodes[0].dataDir } : {}),
        ...(wrapper ? { wrapper } : {}),
        ...(options.program ? { program: options.program } : {}),
      });
      // In the order of their numbers, whichever starts first.
      nodes[index] = node;
      return node;
    };
    await start(0);
    await Promise.all(Array.from({ length: options.nodes - 1 }, (_, i) => start(i + 1)));
    let turn = 0;
    const next = (): string => {
      turn += 1;
      return nodes[turn % Math.min(nodes.length, options.reachable ?? nodes.length)]!.url;
    };
    balanced = apiClient(next, nodes[0]!.live);
    return {
      nodes,
      postgres: postgres.server,
      env,
      api: balanced,
      blobs: s3 ? 's3' : 'directory',
      add: (further) => start(nodes.length, further),
      logs: () => nodes.map((node, i) => `── node ${i + 1}\n${node.log.slice(-2_000)}`).join('\n'),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
