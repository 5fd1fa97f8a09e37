/**
 * A set of objects that come and go thousands of times a second. A Set grows a new table every few dozen changes, and each old one
 * still names what it held and the table after it: once one of them has been promoted by the collector, all that ever passed
 * through the set since then is kept and promoted too, until the next full collection.
 */
export interface Enrolled {
  /** Where it stands in its roll; -1 in none. */
  rollIndex: number;
}

export class Roll<T extends Enrolled> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** An object may stand in one roll. */
  add(member: T): void {
    if (member.rollIndex !== -1) return;
    member.rollIndex = this.#members.push(member) - 1;
  }

  delete(member: T): boolean {
    const index = member.rollIndex;
    if (index === -1) return false;
    const last = this.#members.pop()!;
    if (last !== member) {
      this.#members[index] = last;
      last.rollIndex = index;
    }
    member.rollIndex = -1;
    return true;
  }

  /** The members at this moment. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#members][Symbol.iterator]();
  }
}
