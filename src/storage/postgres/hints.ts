/**
 * Hints between nodes through LISTEN and NOTIFY, on a separate connection, that there is work of a kind. A hint only speeds up what polling
 * finds anyway, so losing one is harmless; there are none through a pooler that shares sessions. Hints are sent outside the transaction
 * that created the work, since commits that notify wait for each other.
 */
import type { Log } from '../../base/log.ts';
import type { Hints } from '../database.ts';
import { connectPostgres, type PostgresConnection } from './connection.ts';
import type { PostgresAddress } from './url.ts';

const CHANNEL = 'postrider';
const RECONNECT_MS = 1_000;
/** How often the connection must answer. A host that loses power closes nothing, and TCP would notice after a quarter of an hour. */
const PING_MS = 10_000;
/** Hints within this time are combined into one. */
const GATHER_MS = 20;

export interface HintsOptions {
  address: PostgresAddress;
  log: Log;
  /** PING_MS by default. */
  pingMs?: number;
}

/** Closes the connection if it has not answered between two pings. */
function closeIfSilent({ client, destroy }: PostgresConnection, pingMs: number): void {
  let isAnswered = true;
  const timer = setInterval(() => {
    if (!isAnswered) {
      destroy();
      return;
    }
    isAnswered = false;
    client.query('SELECT 1').then(
      () => {
        isAnswered = true;
      },
      () => undefined,
    );
  }, pingMs);
  timer.unref();
  client.on('end', () => clearInterval(timer));
}

/** Connects in the background; never rejects. */
export function openPostgresHints({ address, log, pingMs = PING_MS }: HintsOptions): Hints {
  const listeners = new Map<string, (() => void)[]>();
  const pending = new Map<string, NodeJS.Timeout>();
  let connection: PostgresConnection | undefined;
  let retry: NodeJS.Timeout | undefined;
  let stopping = false;

  const runListeners = (kind: string): void => {
    for (const onHint of listeners.get(kind) ?? []) onHint();
  };

  const connect = async (): Promise<void> => {
    try {
      const fresh = await connectPostgres(address);
      if (stopping || !fresh.direct) {
        fresh.destroy();
        if (!stopping) log.info('connected through a pooler: nodes find new work by polling only');
        return;
      }
      const { client } = fresh;
      client.on('notification', ({ processId, payload }) => {
        if (processId !== (client as { processID?: number }).processID) runListeners(payload ?? '');
      });
      client.on('end', () => {
        connection = undefined;
        later();
      });
      closeIfSilent(fresh, pingMs);
      await client.query(`LISTEN ${CHANNEL}`);
      connection = fresh;
      // Notifications may have been missed while disconnected.
      for (const kind of listeners.keys()) runListeners(kind);
    } catch {
      later();
    }
  };

  const later = (): void => {
    if (stopping) return;
    clearTimeout(retry);
    retry = setTimeout(() => void connect(), RECONNECT_MS);
    retry.unref();
  };

  void connect();
  return {
    notify: (kind) => {
      if (stopping || pending.has(kind)) return;
      const timer = setTimeout(() => {
        pending.delete(kind);
        connection?.client.query({ text: 'SELECT pg_notify($1, $2)', values: [CHANNEL, kind] }).catch(() => undefined);
      }, GATHER_MS);
      timer.unref();
      pending.set(kind, timer);
    },
    listen: (kind, onHint) => {
      listeners.set(kind, [...(listeners.get(kind) ?? []), onHint]);
    },
    stop: async () => {
      stopping = true;
      clearTimeout(retry);
      for (const timer of pending.values()) clearTimeout(timer);
      connection?.destroy();
    },
  };
}
