/** Data that this browser stores for a template: unsaved changes and the selected sample set. Keyed by account, mode and template. */
import type { Scope } from '../../scope.ts';

const keyOf = ({ account, mode }: Pick<Scope, 'account' | 'mode'>, id: string, what: string): string =>
  `postrider.template.${account?.accountId}.${mode}.${id}.${what}`;

export interface Kept<T> {
  read(): T | undefined;
  /** Undefined removes the value. Returns whether the browser could store it. */
  write(value: T | undefined): boolean;
}

export function keptIn<T>(scope: Pick<Scope, 'account' | 'mode'>, id: string, what: string): Kept<T> {
  const key = keyOf(scope, id, what);
  return {
    read() {
      try {
        return JSON.parse(localStorage.getItem(key) ?? 'null') ?? undefined;
      } catch {
        return undefined;
      }
    },
    write(value) {
      try {
        if (value === undefined) localStorage.removeItem(key);
        else localStorage.setItem(key, JSON.stringify(value));
        return true;
      } catch {
        return false;
      }
    },
  };
}
