/**
 * A set of objects that come and go thousands of times a second: a list in which the last one takes the slot of the one that goes. A Set grows a new table every few dozen changes, and each old one
 * still names what it held and the table after it: once one of them has been promoted by the collector, all that ever passed
 * through the set since then is kept and promoted too, until the next full collection.
 */
export interface ActiveMember {
  /** Its index in its set; -1 in none. */
  activeIndex: number;
}

export class ActiveSet<T extends ActiveMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  /** An object may be in one set. */
  add(member: T): void {
    if (member.activeIndex !== -1) return;
    member.activeIndex = this.#members.push(member) - 1;
  }

  delete(member: T): boolean {
    const index = member.activeIndex;
    if (index === -1) return false;
    const last = this.#members.pop()!;
    if (last !== member) {
      this.#members[index] = last;
      last.activeIndex = index;
    }
    member.activeIndex = -1;
    return true;
  }

  /** The members at this moment. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#members][Symbol.iterator]();
  }
}
