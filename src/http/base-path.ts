/**
 * The path of a base URL such as https://tools.example/mail: a proxy in front of the service strips it from requests, and everything
 * that a browser or client follows needs it again. Routes and handlers do not know it: it is removed from a request that still has it,
 * and added to the paths in Link and Location of an answer, in one place each (app.ts).
 */
import type { AnswerHeaders } from './route.ts';

/** Without a slash at its end; empty for a base URL without a path. */
export function basePathOf(baseUrl: string): string {
  return new URL(baseUrl).pathname.replace(/\/+$/, '');
}

/** The target of a request as routes know it. A proxy may have left the path. */
export function withoutBasePath(url: string, basePath: string): string {
  if (basePath === '' || !url.startsWith(basePath)) return url;
  const rest = url.slice(basePath.length);
  if (rest === '' || rest.startsWith('?')) return `/${rest}`;
  return rest.startsWith('/') ? rest : url;
}

/** The headers of an answer, with paths as the client reaches them. */
export function withBasePath(headers: AnswerHeaders | undefined, basePath: string): AnswerHeaders | undefined {
  if (basePath === '' || headers === undefined || !('Link' in headers || 'Location' in headers)) return headers;
  const { Link: link, Location: location } = headers;
  return {
    ...headers,
    ...(typeof link === 'string' && link.startsWith('</') && { Link: `<${basePath}${link.slice(1)}` }),
    ...(typeof location === 'string' && /^\/(?!\/)/.test(location) && { Location: `${basePath}${location}` }),
  };
}
