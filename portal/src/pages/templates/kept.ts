/**
 * What this browser keeps of a template, beside the service: changes that are not saved yet, and sample sets. By account, mode and template, so that
 * nothing of one shows in another.
 */
import type { Scope } from '../../scope.ts';

const keyOf = ({ account, mode }: Pick<Scope, 'account' | 'mode'>, id: string, what: string): string =>
  `postrider.template.${account?.accountId}.${mode}.${id}.${what}`;

export interface Kept<T> {
  read(): T | undefined;
  /** Undefined removes it. Says whether the browser has room for it. */
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
