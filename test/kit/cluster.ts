/**
 * Several nodes of the real service on one real PostgreSQL and one S3 store (or a directory that they share), each a process
 * with a data directory of its own, and faults to try on them. Closed as a whole, by pid.
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
  /** Settings of all nodes. */
  env?: Record<string, string>;
  /** Settings of one node on top of those of all. */
  envOf?(index: number, env: Record<string, string>): Promise<Record<string, string>>;
  /** How many of the nodes, from the first, the balanced client calls; all by default. */
  reachable?: number;
  /** Program and arguments in front of a node's, such as a network namespace. */
  wrapperOf?(index: number): string[];
  /** Content in S3 where a store can be had; else in a shared directory. */
  s3?: boolean;
}

export interface Cluster {
  readonly nodes: Service[];
  readonly postgres: PostgresServer;
  /** Settings that a further node or a command needs. */
  readonly env: Record<string, string>;
  /** Calls with the live key, each at the next node; one that cannot be reached is passed over, as a balancer does. */
  readonly api: Api;
  readonly blobs: 's3' | 'directory';
  /** Starts one more node. */
  add(env?: Record<string, string>): Promise<Service>;
  /** The logs of all nodes, their ends. */
  logs(): string;
  close(): Promise<void>;
}

/** Starts everything; the first node makes the account, the others join. */
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
      });
      // In the order of their numbers, whichever is up first.
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
