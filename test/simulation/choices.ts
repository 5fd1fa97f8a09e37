/**
 * What of a world can be left out: single mails, single deaths, kinds of faults, each under a name. The same seed without some of them
 * is the same world as far as it can be. So a seed with a fault shrinks to the few things that the fault needs.
 */
export class Choices {
  readonly #only: ReadonlySet<string> | undefined;
  /** Of all that came up and took part, in that order. */
  readonly parts = new Set<string>();

  /** Everything, or nothing but the parts with these names. */
  constructor(only: readonly string[] | undefined) {
    this.#only = only && new Set(only);
  }

  has(name: string): boolean {
    if (this.#only?.has(name) === false) return false;
    this.parts.add(name);
    return true;
  }

  /** Shares and numbers of faults; what is left out, or nothing anyway, has the value of a world without it. */
  faults<T extends object>(kind: string, drawn: T, none: T): T {
    const names = Object.keys(drawn) as (keyof T & string)[];
    const kept = names.map((name) => [name, this.#keeps(`${kind}-${name}`, drawn[name], none[name])] as const);
    return Object.fromEntries(kept) as T;
  }

  #keeps<V>(name: string, drawn: V, none: V): V {
    return drawn === none || this.has(name) ? drawn : none;
  }

  /** Something that happens several times; each time for itself may be left out. */
  each(name: string, run: () => void): () => void {
    let times = 0;
    return () => {
      times += 1;
      if (this.has(`${name}-${times}`)) run();
    };
  }
}
