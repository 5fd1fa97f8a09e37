/**
 * The path of a base URL such as https://tools.example/mail. A reverse proxy removes it from requests, but URLs that a browser or client
 * follows must include it. Routes and handlers do not know it: app.ts removes it from requests that still include it, and adds it to the
 * paths in Link and Location headers of responses.
 */
import type { AnswerHeaders } from './route.ts';

/** Returns the path without a trailing slash; empty for a base URL without a path. */
export function basePathOf(baseUrl: string): string {
  return new URL(baseUrl).pathname.replace(/\/+$/, '');
}

/** Returns the request target as routes expect it. A proxy may or may not have removed the path. */
export function withoutBasePath(url: string, basePath: string): string {
  if (basePath === '' || !url.startsWith(basePath)) return url;
  const rest = url.slice(basePath.length);
  if (rest === '' || rest.startsWith('?')) return `/${rest}`;
  return rest.startsWith('/') ? rest : url;
}

/** Returns the headers with paths as the client reaches them. */
export function withBasePath(headers: AnswerHeaders | undefined, basePath: string): AnswerHeaders | undefined {
  if (basePath === '' || headers === undefined || !('Link' in headers || 'Location' in headers)) return headers;
  const { Link: link, Location: location } = headers;
  return {
    ...headers,
    ...(typeof link === 'string' && link.startsWith('</') && { Link: `<${basePath}${link.slice(1)}` }),
    ...(typeof location === 'string' && /^\/(?!\/)/.test(location) && { Location: `${basePath}${location}` }),
  };
}
