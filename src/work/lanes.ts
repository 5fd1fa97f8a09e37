/**
 * Lanes that take turns: how deliveries, webhooks and inbound mail wait in memory. Each lane is first in, first out, and a lane whose item
 * was taken moves to the end of the turns, so a long lane delays no other. The caller decides what may start now.
 */

/** First in, first out. Taken entries are removed in bulk, so an item of a long lane costs no more than one of a short lane. */
class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  get front(): T {
    return this.#items[this.#head]!;
  }

  add(item: T, { first }: { first: boolean }): void {
    if (first) this.#items.splice(this.#head, 0, item);
    else this.#items.push(item);
  }

  shift(): T {
    const item = this.front;
    this.#items[this.#head] = undefined;
    this.#head += 1;
    if (this.#head > 64 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }

  remove(item: T): boolean {
    const index = this.#items.indexOf(item, this.#head);
    if (index === -1) return false;
    if (index === this.#head) this.shift();
    else this.#items.splice(index, 1);
    return true;
  }

  /** Removes up to `count` of the newest items; returns them in order. */
  drain(count: number): T[] {
    return this.#items.splice(Math.max(this.#head, this.#items.length - count)) as T[];
  }

  values(): T[] {
    return this.#items.slice(this.#head) as T[];
  }
}

export class Lanes<T> {
  readonly #lanes = new Map<string, Fifo<T>>();
  /** The lanes that are not on hold, in the order of their turns. No lane is empty. */
  readonly #turns = new Map<string, Fifo<T>>();
  readonly #onHold = new Set<string>();
  #size = 0;

  /** Number of items waiting in all lanes. */
  get size(): number {
    return this.#size;
  }

  sizeOf(lane: string): number {
    return this.#lanes.get(lane)?.size ?? 0;
  }

  /** Returns the items of a lane, or of all lanes, each lane in order. */
  items(lane?: string): T[] {
    if (lane !== undefined) return this.#lanes.get(lane)?.values() ?? [];
    return this.#lanes
      .values()
      .toArray()
      .flatMap((one) => one.values());
  }

  /** Adds an item at the end of its lane, or with `first` at its front. */
  add(lane: string, item: T, { first } = { first: false }): void {
    let fifo = this.#lanes.get(lane);
    if (!fifo) {
      fifo = new Fifo();
      this.#lanes.set(lane, fifo);
      if (!this.#onHold.has(lane)) this.#turns.set(lane, fifo);
    }
    fifo.add(item, { first });
    this.#size += 1;
  }

  /**
   * Takes the first accepted item at the front of a lane. A lane whose item is refused keeps its turn. With `looks`, only that many lanes
   * are tried, and those that refuse move to the end, so that the next call tries others.
   */
  next(accepts: (item: T, lane: string) => boolean, looks?: number): T | undefined {
    let left = Math.min(looks ?? Number.POSITIVE_INFINITY, this.#turns.size);
    for (const [lane, fifo] of this.#turns) {
      if (left === 0) return undefined;
      left -= 1;
      const isAccepted = accepts(fifo.front, lane);
      if (!isAccepted && looks === undefined) continue;
      this.#turns.delete(lane);
      this.#turns.set(lane, fifo);
      if (!isAccepted) continue;
      const item = fifo.shift();
      this.#removed(lane, fifo, 1);
      return item;
    }
    return undefined;
  }

  /** Takes the item at the front of a lane if it is accepted. The lane keeps its turn. */
  nextOf(lane: string, accepts: (item: T) => boolean): T | undefined {
    const fifo = this.#lanes.get(lane);
    if (!fifo || !accepts(fifo.front)) return undefined;
    const item = fifo.shift();
    this.#removed(lane, fifo, 1);
    return item;
  }

  /** Removes an item from its lane; false if it does not wait there. */
  remove(lane: string, item: T): boolean {
    const fifo = this.#lanes.get(lane);
    if (!fifo?.remove(item)) return false;
    this.#removed(lane, fifo, 1);
    return true;
  }

  /** Removes up to `count` of the newest items of a lane; returns them in order. */
  drain(lane: string, count = Number.POSITIVE_INFINITY): T[] {
    const fifo = this.#lanes.get(lane);
    if (!fifo) return [];
    const items = fifo.drain(count);
    this.#removed(lane, fifo, items.length);
    return items;
  }

  /** A lane on hold gets no turns; a lane that is no longer on hold starts at the end of them. */
  hold(lane: string, isOnHold: boolean): void {
    if (isOnHold === this.#onHold.has(lane)) return;
    if (isOnHold) {
      this.#onHold.add(lane);
      this.#turns.delete(lane);
      return;
    }
    this.#onHold.delete(lane);
    const fifo = this.#lanes.get(lane);
    if (fifo) this.#turns.set(lane, fifo);
  }

  #removed(lane: string, fifo: Fifo<T>, count: number): void {
    this.#size -= count;
    if (fifo.size > 0) return;
    this.#lanes.delete(lane);
    this.#turns.delete(lane);
  }
}
