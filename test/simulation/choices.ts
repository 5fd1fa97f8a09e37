/**
 * The removable parts of a scenario: single messages, single deaths, kinds of faults, each with a name. The same seed without some of them
 * is the same scenario as far as possible, so a failing seed can be shrunk to the few parts that its failure needs.
 */
export class Choices {
  readonly #only: ReadonlySet<string> | undefined;
  /** All parts that took part, in order. */
  readonly parts = new Set<string>();

  /** Allows all parts, or only those with these names. */
  constructor(only: readonly string[] | undefined) {
    this.#only = only && new Set(only);
  }

  has(name: string): boolean {
    if (this.#only?.has(name) === false) return false;
    this.parts.add(name);
    return true;
  }

  /** Returns the shares and numbers of faults; for a removed or empty kind, those of a scenario without it. */
  faults<T extends object>(kind: string, drawn: T, none: T): T {
    const names = Object.keys(drawn) as (keyof T & string)[];
    const kept = names.map((name) => [name, this.#keeps(`${kind}-${name}`, drawn[name], none[name])] as const);
    return Object.fromEntries(kept) as T;
  }

  #keeps<V>(name: string, drawn: V, none: V): V {
    return drawn === none || this.has(name) ? drawn : none;
  }

  /** An event that happens several times; each occurrence can be removed separately. */
  each(name: string, run: () => void): () => void {
    let times = 0;
    return () => {
      times += 1;
      if (this.has(`${name}-${times}`)) run();
    };
  }
}
