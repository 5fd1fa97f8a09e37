/**
 * The processes that share a database. Each writes its row every few seconds; one that stays silent is forgotten by the
 * next who writes. Times are the database's where it has a clock of its own, so that nodes whose clocks differ agree.
 */
import { operation, type Transaction } from '../storage/operation.ts';

export interface NodeRow {
  id: string;
  host: string;
  version: string;
  /** Names of its roles, separated by commas. */
  roles: string;
}

export interface Beat extends NodeRow {
  /** Unix ms of this process; only used where the database has no clock. */
  nowMs: number;
  /** Silence after which a node no longer counts. */
  silentMs: number;
}

async function clockOf(tx: Transaction, nowMs: number): Promise<number> {
  if (tx.dialect === 'sqlite') return nowMs;
  const row = await tx.get<{ now: number }>(
    'SELECT CAST(floor(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now',
  );
  return row!.now;
}

/** Writes the sign of life; answers every node that lives, this one among them. */
export const beatOperation = operation('nodes.beat', 'write', async (tx, beat: Beat): Promise<NodeRow[]> => {
  const nowMs = await clockOf(tx, beat.nowMs);
  await tx.run(
    `INSERT INTO node (id, host, version, roles, started_at, seen_at) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
    beat.id,
    beat.host,
    beat.version,
    beat.roles,
    nowMs,
    nowMs,
  );
  await tx.run('DELETE FROM node WHERE seen_at <= ?', nowMs - beat.silentMs);
  return tx.all<NodeRow>('SELECT id, host, version, roles FROM node ORDER BY id');
});

/** Takes a node that stops out of the count at once. */
export const leaveOperation = operation('nodes.leave', 'write', async (tx, id: string): Promise<number> => {
  return tx.run('DELETE FROM node WHERE id = ?', id);
});
