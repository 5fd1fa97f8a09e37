/**
 * Serves the documentation below /guide if `npm run docs:site` has built it. Pages have no extension, as the links between them. The site is
 * built for the path /guide/; with a base URL that has a path, its addresses are extended by that path.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROGRAM_FOLDER } from '../base/program-files.ts';
import { type StaticFile, staticRoutes } from './files.ts';
import { type AnswerHeaders, defineRoute, type RouteDefinition } from './route.ts';

/** Output folder of `npm run docs:site`. */
const BUILT = path.join(PROGRAM_FOLDER, 'site/dist');
/** The path for which the site is built (site/.vitepress/config.ts). */
const BASE = '/guide/';
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'application/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};
/** Files that contain addresses of other files. */
const LINKING = new Set(['.html', '.js', '.css']);
const FOR_EVER = 'public, max-age=31536000, immutable';
const INLINE_SCRIPT = /<script(?: id="[\w-]+")?>([^<]+)<\/script>/g;

/** Allows the inline scripts of the page by their hashes; Vue sets styles on elements. */
function policyOf(page: string): string {
  const hashes = [...page.matchAll(INLINE_SCRIPT)].map(
    ([, script]) => ` 'sha256-${createHash('sha256').update(script!).digest('base64')}'`,
  );
  return (
    `default-src 'none'; script-src 'self'${hashes.join('')}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; ` +
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  );
}

/** Returns the path of a file: `/guide/send` for `send.html`, and `/guide/move/` for `move/index.html`. */
const pathOf = (name: string): string => `${BASE}${name}`.replace(/(?:(?<=\/)index)?\.html$/, '');

/** Sends browsers from `/guide/move` to `/guide/move/`, as links of a page are relative to its path. */
function redirect<C>(from: string, to: string): RouteDefinition<C> {
  return defineRoute<C>({
    method: 'GET',
    path: from,
    summary: 'Go to the page of a folder',
    tag: 'service',
    access: { auth: 'none' },
    hidden: true,
    ownQuery: true,
    body: { type: 'raw', maxBytes: 0 },
    response: { status: 308, contentType: CONTENT_TYPES['.html']! },
    handle: () => ({
      ok: true,
      status: 308,
      contentType: CONTENT_TYPES['.html']!,
      content: '',
      headers: { Location: to },
    }),
  });
}

interface GuideOptions {
  /** Path of the base URL, without a trailing slash (base-path.ts). */
  basePath?: string;
  folder?: string;
}

/** Returns the routes of the site, or none if it was not built. */
export function guideRoutes<C>({ basePath = '', folder = BUILT }: GuideOptions = {}): RouteDefinition<C>[] {
  const start = path.join(folder, 'index.html');
  if (!existsSync(start)) return [];
  const headers: AnswerHeaders = {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'same-origin',
    'X-Frame-Options': 'DENY',
  };
  const based = (text: string): string => (basePath === '' ? text : text.replaceAll(BASE, `${basePath}${BASE}`));
  // All pages have the same inline scripts.
  const policy = policyOf(based(readFileSync(start, 'utf8')));
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).flatMap((entry): StaticFile[] => {
    const name = entry.split(path.sep).join('/');
    const extension = path.extname(name);
    const contentType = CONTENT_TYPES[extension];
    if (contentType === undefined) return [];
    const file = {
      contentType,
      headers: extension === '.html' ? { ...headers, 'Content-Security-Policy': policy } : headers,
      ...(name.startsWith('assets/') ? { cacheControl: FOR_EVER } : {}),
      read: async () => {
        const bytes = await readFile(path.join(folder, name));
        return LINKING.has(extension) ? based(bytes.toString('utf8')) : bytes;
      },
    };
    return [{ ...file, path: pathOf(name) }];
  });
  const folders = files.map((file) => file.path).filter((at) => at.endsWith('/'));
  return [...staticRoutes<C>(files), ...folders.map((at) => redirect<C>(at.slice(0, -1), `${basePath}${at}`))];
}
