/**
 * Serves /docs: the API documentation in a browser, as Swagger UI for the generated document. The page loads files from this service
 * only, and has no inline script and no logo.
 */
import { readFile } from 'node:fs/promises';
import { escapeAttribute } from '../mail/html/html-tags.ts';
import { type StaticFile, staticRoutes } from './files.ts';
import type { RouteDefinition } from './route.ts';

const HEADERS = {
  // Swagger UI sets styles on its elements.
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
};

const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#2f5d8a" d="M1 3h14v10H1z"/><path fill="none" stroke="#fff" d="m2 4 6 5 6-5"/></svg>';

/** Hides the top bar with the logo of Swagger. The document is addressed relative to this script, so it works with any proxy path. */
const START = `window.ui = SwaggerUIBundle({
  url: new URL('../json', document.currentScript.src).href,
  dom_id: '#swagger-ui',
  deepLinking: true,
  layout: 'BaseLayout',
  validatorUrl: null,
  tryItOutEnabled: true,
});
`;

/** `base` is the URL of the page's files. */
function page(base: string): string {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<title>Postrider API</title>
<link rel="stylesheet" href="${base}/swagger-ui.css">
<link rel="stylesheet" href="${base}/index.css">
<link rel="icon" type="image/svg+xml" href="${base}/icon.svg" sizes="any">
</head>
<body>
<div id="swagger-ui"></div>
<script src="${base}/swagger-ui-bundle.js" charset="UTF-8"></script>
<script src="${base}/swagger-initializer.js" charset="UTF-8"></script>
</body>
</html>
`;
}

const HTML = 'text/html; charset=utf-8';
const SCRIPT = 'application/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';

/** Browsers may use files of the previous release for up to an hour after an upgrade. */
const KEPT = 'public, max-age=3600';

function ofSwagger(name: string, contentType: string): StaticFile {
  return asset(name, contentType, () => readFile(new URL(name, import.meta.resolve('swagger-ui-dist/package.json'))));
}

function asset(name: string, contentType: string, read: StaticFile['read']): StaticFile {
  return { path: `/docs/static/${name}`, contentType, read, cacheControl: KEPT };
}

/** Routes of the page and its files for this OpenAPI document, which is generated once; `basePath` as in base-path.ts. */
export function docsRoutes<C>(openapi: () => unknown, { basePath = '' } = {}): RouteDefinition<C>[] {
  const files: StaticFile[] = [
    { path: '/docs', contentType: HTML, read: () => page(`${escapeAttribute(basePath)}/docs/static`) },
    { path: '/docs/', contentType: HTML, read: () => page('./static') },
    { path: '/docs/json', contentType: 'application/json; charset=utf-8', read: () => JSON.stringify(openapi()) },
    ofSwagger('swagger-ui.css', STYLE),
    ofSwagger('index.css', STYLE),
    ofSwagger('swagger-ui-bundle.js', SCRIPT),
    asset('swagger-initializer.js', SCRIPT, () => START),
    asset('icon.svg', 'image/svg+xml', () => ICON),
  ];
  return staticRoutes(files.map((file) => ({ ...file, headers: HEADERS })));
}
