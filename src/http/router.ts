/**
 * Finds the route of a path. Paths are compared as they came: no trailing slash, no dot segments, no case folding. A
 * parameter matches one non-empty segment and is handed over decoded. A fixed segment wins over a parameter, but only for
 * the methods it has: GET /templates/render still reaches GET /templates/:id.
 */
import type { Method } from './route.ts';

export interface Routed {
  method: Method;
  path: string;
}

export type Match<R> =
  | { found: true; route: R; params: Record<string, string> }
  /** allow: the methods of this path; empty when the path is unknown. */
  | { found: false; allow: string[] };

export type Router<R> = (method: string, path: string) => Match<R>;

interface Pattern<R> {
  segments: string[];
  byMethod: Map<string, R>;
}

const NO_PARAMS: Record<string, string> = Object.freeze(Object.create(null) as Record<string, string>);

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** The parameters of a path under a pattern, or undefined when it is another path. */
function matchSegments(pattern: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  let params = NO_PARAMS;
  for (const [index, expected] of pattern.entries()) {
    const segment = segments[index]!;
    if (expected.startsWith(':')) {
      const value = segment === '' ? undefined : decode(segment);
      if (value === undefined) return undefined;
      if (params === NO_PARAMS) params = Object.create(null) as Record<string, string>;
      params[expected.slice(1)] = value;
    } else if (expected !== segment) return undefined;
  }
  return params;
}

/** Orders patterns: the first position where only one of two has a fixed segment decides. */
function bySpecificity(a: Pattern<unknown>, b: Pattern<unknown>): number {
  for (const [index, segment] of a.segments.entries()) {
    const other = b.segments[index] ?? '';
    if (segment.startsWith(':') !== other.startsWith(':')) return segment.startsWith(':') ? 1 : -1;
  }
  return 0;
}

function shapeOf(path: string): string {
  return path.replaceAll(/:[^/]+/g, ':');
}

function group<R extends Routed>(routes: readonly R[]): Pattern<R>[] {
  const patterns = new Map<string, Pattern<R>>();
  const seen = new Set<string>();
  for (const route of routes) {
    if (!route.path.startsWith('/')) throw new Error(`a route's path starts with a slash: ${route.path}`);
    const name = `${route.method} ${shapeOf(route.path)}`;
    if (seen.has(name)) throw new Error(`two routes answer ${route.method} ${route.path}`);
    seen.add(name);
    const pattern = patterns.get(route.path) ?? { segments: route.path.split('/'), byMethod: new Map<string, R>() };
    patterns.set(route.path, pattern);
    pattern.byMethod.set(route.method, route);
  }
  return [...patterns.values()].sort(bySpecificity);
}

/** A router over these routes; throws when two of them answer the same call. */
export function createRouter<R extends Routed>(routes: readonly R[]): Router<R> {
  const byLength = Map.groupBy(group(routes), ({ segments }) => segments.length);
  return (method, path) => {
    const segments = path.split('/');
    const allow = new Set<string>();
    for (const pattern of byLength.get(segments.length) ?? []) {
      const params = matchSegments(pattern.segments, segments);
      if (params === undefined) continue;
      const route = pattern.byMethod.get(method) ?? (method === 'HEAD' ? pattern.byMethod.get('GET') : undefined);
      if (route !== undefined) return { found: true, route, params };
      for (const other of pattern.byMethod.keys()) allow.add(other);
    }
    if (allow.has('GET')) allow.add('HEAD');
    return { found: false, allow: [...allow].sort() };
  };
}
