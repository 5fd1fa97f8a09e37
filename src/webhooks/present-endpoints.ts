/**
 * Keeps the endpoints as this process last read them. A row can wait in memory for minutes while its endpoint is changed or removed, possibly by
 * another node, so an endpoint is read again before an attempt if it was last read more than a second ago. Claims read their endpoints anyway,
 * and attempts that start together share a query.
 */
import type { StoredTarget } from './claim.ts';

const FRESH_MS = 1_000;
const KEPT = 20_000;

interface Known {
  /** Undefined if the endpoint no longer exists. */
  row: StoredTarget | undefined;
  /** When it was read, by performance.now(). */
  readMs: number;
}

interface PresentEndpointsOptions {
  /** Returns those of the endpoints that exist. */
  read(ids: string[]): Promise<readonly StoredTarget[]>;
  /** How old the data of an endpoint may be at the start of an attempt, in ms. */
  freshMs?: number | undefined;
}

export class PresentEndpoints {
  readonly #options: PresentEndpointsOptions;
  readonly #known = new Map<string, Known>();
  readonly #requested = new Set<string>();
  #reading: Promise<void> | undefined;

  constructor(options: PresentEndpointsOptions) {
    this.#options = options;
  }

  /** Records an endpoint that was read after `readMs`; returns the known object if it is unchanged. */
  note(row: StoredTarget, readMs: number): StoredTarget {
    const known = this.#known.get(row.id);
    const kept = known?.row && isUnchanged(known.row, row) ? known.row : row;
    if (!known || known.readMs < readMs) this.#keep(row.id, { row: kept, readMs });
    return kept;
  }

  /** Returns whether the endpoint is still as it was when the row was claimed. */
  async isUnchanged(claimed: StoredTarget): Promise<boolean> {
    const { freshMs = FRESH_MS } = this.#options;
    const known = this.#known.get(claimed.id);
    if (!known || known.readMs < performance.now() - freshMs) await this.#refresh(claimed.id);
    const present = this.#known.get(claimed.id)?.row;
    return present !== undefined && isUnchanged(present, claimed);
  }

  async #refresh(id: string): Promise<void> {
    this.#requested.add(id);
    this.#reading ??= Promise.resolve().then(() => this.#readRequested());
    await this.#reading;
  }

  async #readRequested(): Promise<void> {
    const ids = [...this.#requested];
    this.#requested.clear();
    this.#reading = undefined;
    const readMs = performance.now();
    const found = new Map((await this.#options.read(ids)).map((row) => [row.id, row]));
    for (const id of ids) {
      const row = found.get(id);
      if (row) this.note(row, readMs);
      else this.#keep(id, { row: undefined, readMs });
    }
  }

  #keep(id: string, known: Known): void {
    this.#known.delete(id);
    this.#known.set(id, known);
    if (this.#known.size > KEPT) this.#known.delete(this.#known.keys().next().value as string);
  }
}

function isUnchanged(one: StoredTarget, other: StoredTarget): boolean {
  if (one === other) return true;
  return (Object.keys(one) as (keyof StoredTarget)[]).every((column) => {
    const [a, b] = [one[column], other[column]];
    return a instanceof Uint8Array && b instanceof Uint8Array ? Buffer.compare(a, b) === 0 : a === b;
  });
}
