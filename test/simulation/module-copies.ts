/**
 * Loads copies of modules, each with its own state: a process can run several versions of the product one after another, and loads and
 * compiles packages only once.
 */
import { registerHooks, stripTypeScriptTypes } from 'node:module';

const MARK = '?copy=';

/** Sources without types, by the source with them. */
const stripped = new Map<string, string>();
let copies = 0;

const isOwn = (url: string): boolean => url.startsWith('file:') && !url.includes('/node_modules/');

function withoutTypes(source: string): string {
  const known = stripped.get(source) ?? stripTypeScriptTypes(source);
  stripped.set(source, known);
  return known;
}

/**
 * Imports a copy of a module and of everything of this project that it imports, except the modules at the `shared` URLs. Hooks that change
 * sources must be registered before. `end` must be called when the copy imports nothing more.
 */
export async function importCopy<T>(url: string, shared: ReadonlySet<string>): Promise<{ copy: T; end(): void }> {
  copies += 1;
  const mark = `${MARK}${copies}`;
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      const resolved = next(specifier, context);
      const isCopied = context.parentURL?.endsWith(mark) && isOwn(resolved.url) && !shared.has(resolved.url);
      return isCopied ? { ...resolved, url: `${resolved.url}${mark}` } : resolved;
    },
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (!url.endsWith(`.ts${mark}`)) return loaded;
      return { ...loaded, format: 'module', source: withoutTypes(String(loaded.source)) };
    },
  });
  return { copy: await import(`${url}${mark}`), end: () => hooks.deregister() };
}
