/** The database server that the nodes of a scenario share: where it listens, and when it is unavailable. */
import { parsePostgresUrl } from '../../src/storage/postgres/url.ts';
import type { Absence } from './absences.ts';
import type { Link, Network, SimSocket } from './network.ts';
import type { Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export const DATABASE_ADDRESS = '10.0.0.5';
const AT = `${DATABASE_ADDRESS}:5432`;
export const DATABASE_URL = parsePostgresUrl(`postgres://postrider@${DATABASE_ADDRESS}/postrider`);

/** From the end of an outage until the nodes have written their results. */
const WRITTEN_DOWN_MS = 45_000;

export interface ServerFaults {
  /** Share of commits with a slow sync. */
  stalls: number;
}

export interface ServerOptions {
  network: Network;
  random: Random;
  faults: ServerFaults;
  count(what: string): void;
  /** Called with each violation. */
  onFault(what: string): void;
}

/** The connection to the server: fast, and without faults by default. */
export function databaseLink(random: Random, faults: Partial<Link> = {}): Link {
  return {
    latencyMs: () => (random.chance(0.005) ? random.between(5, 200) : random.between(0.05, 0.6)),
    faults: { resets: 0, silences: 0, blackHoles: 0 },
    fateWithinBytes: 100_000,
    isCutOff: () => false,
    ...faults,
  };
}

export abstract class DatabaseServer {
  protected readonly options: ServerOptions;
  readonly timeline: Timeline;
  readonly outages: Absence[] = [];
  #upAtMs = 0;

  constructor(options: ServerOptions) {
    this.options = options;
    this.timeline = options.network.timeline;
    this.#listen();
  }

  #listen(): void {
    this.options.network.listen(AT, (socket) => this.accept(socket));
  }

  protected abstract accept(socket: SimSocket): void;

  /** Ends all sessions; uncommitted changes are lost. */
  abstract endSessions(): void;

  /** Whether no transaction is running, so that the simulation may query the database. */
  abstract get isFree(): boolean;

  get isDown(): boolean {
    return this.timeline.nowMs < this.#upAtMs;
  }

  /** Since when a node may hold results that it could not write: now, unless the server was just unavailable. */
  get writtenToMs(): number {
    const { nowMs } = this.timeline;
    const recent = this.outages.filter(({ untilMs }) => nowMs < untilMs + WRITTEN_DOWN_MS);
    return Math.min(nowMs, ...recent.map(({ fromMs }) => fromMs));
  }

  /** Crashes the server: uncommitted changes are lost, and it is unavailable for a while. */
  crash(downMs: number): void {
    this.endSessions();
    const { network } = this.options;
    const { nowMs, world } = this.timeline;
    this.outages.push({ fromMs: nowMs, untilMs: nowMs + downMs });
    this.#upAtMs = Math.max(this.#upAtMs, nowMs + downMs);
    network.close(AT, world);
    const up = (): void => {
      if (this.isDown) return;
      network.close(AT, world);
      this.#listen();
    };
    this.timeline.after(downMs, 'database up', up, world);
  }

  /** Returns how long the server takes. */
  tookMs(isCommit: boolean): number {
    const { random, faults, count } = this.options;
    if (!isCommit) return random.between(0.02, 0.5);
    if (!random.chance(faults.stalls)) return random.between(0.2, 4);
    count('slow commit');
    return random.between(50, 3_000);
  }
}
