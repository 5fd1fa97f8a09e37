/**
 * Serves /docs: the API reference as a page of this service. The page loads files from this service only and has no inline script or style.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROGRAM_FOLDER } from '../../base/program-files.ts';
import { type StaticFile, staticRoutes } from '../files.ts';
import type { RouteDefinition } from '../route.ts';
import type { OpenapiDocument } from './document.ts';

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
};

const HTML = 'text/html; charset=utf-8';
/** Browsers may use files of the previous release for up to an hour after an upgrade. */
const KEPT = 'public, max-age=3600';

/** URLs as seen from /docs/. */
const BELOW_DOCS = { assets: './static', document: './json' };

const FOLDER = path.join(PROGRAM_FOLDER, 'src/http/reference');

/** The files of the page and their content types. */
export const REFERENCE_ASSETS = {
  'reference.css': 'text/css; charset=utf-8',
  'reference.js': 'application/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
};

/** Most services never render it, so its modules are loaded on the first request. */
async function render(openapi: OpenapiDocument): Promise<string> {
  const { renderReference } = await import('./page.ts');
  return renderReference(openapi, BELOW_DOCS);
}

/**
 * Routes of the page and its files for this OpenAPI document; the page is rendered once. Its URLs are relative, so it works below any path of
 * a proxy.
 */
export function referenceRoutes<C>(openapi: () => unknown): RouteDefinition<C>[] {
  let page: Promise<string> | undefined;
  const rendered = (): Promise<string> => {
    page ??= render(openapi() as OpenapiDocument).catch((error: unknown) => {
      page = undefined;
      throw error;
    });
    return page;
  };
  const files: StaticFile[] = [
    // Quotes in texts are escaped, so only URLs match.
    { path: '/docs', contentType: HTML, read: async () => (await rendered()).replaceAll('="./', '="docs/') },
    { path: '/docs/', contentType: HTML, read: rendered },
    { path: '/docs/json', contentType: 'application/json; charset=utf-8', read: () => JSON.stringify(openapi()) },
    ...Object.entries(REFERENCE_ASSETS).map(([name, contentType]) => ({
      path: `/docs/static/${name}`,
      contentType,
      read: () => readFile(path.join(FOLDER, name)),
      cacheControl: KEPT,
    })),
  ];
  return staticRoutes(files.map((file) => ({ ...file, headers: HEADERS })));
}
