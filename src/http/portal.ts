/**
 * Serves the portal: its page for `/` and all paths of the portal, its files, and the frames that display mail. Each response of the page
 * has a new nonce, so that the page can add styles without unsafe-inline or eval. File names change with their content, so browsers can
 * cache them indefinitely. Mail is displayed in a frame whose own policy forbids scripts and remote content; a second frame allows remote
 * images. If the portal was not built, its pages return 503 with the build command; the API is not affected.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROGRAM_FOLDER } from '../base/program-files.ts';
import { escapeAttribute } from '../mail/html/html-tags.ts';
import { type StaticFile, staticRoutes } from './files.ts';
import { type AnswerHeaders, defineRoute, type RouteDefinition } from './route.ts';

/** Output folder of `npm run build`. */
const BUILT = path.join(PROGRAM_FOLDER, 'portal/dist');
/** Placeholder for the nonce in the built page. */
const NONCE = 'CSP-NONCE';
/** Placeholder for `yes` or `no`. */
const PROVIDER = 'HAS-IDENTITY-PROVIDER';
/** Placeholder for the path of the base URL. */
const BASE_PATH = 'BASE-PATH';
/** Addresses of the files in the built page. */
const FILE_ADDRESS = /(?<= (?:src|href)=")\.?\/(?=assets\/|icon\.svg")/g;
const PAGES = [
  '/',
  '/sign-in',
  '/welcome',
  '/reset',
  '/shared',
  '/preview',
  '/app',
  '/app/:area',
  '/app/:area/:page',
  '/app/:area/:page/:id',
  '/app/:area/:page/:id/:part',
];
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.js': 'application/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};
const HTML = 'text/html; charset=utf-8';
const FOR_EVER = 'public, max-age=31536000, immutable';

const ALIKE: AnswerHeaders = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
};

const pagePolicy = (nonce: string): string =>
  `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data:; font-src 'self'; connect-src 'self'; ` +
  "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const framePolicy = (images: string): string =>
  `default-src 'none'; style-src 'unsafe-inline'; img-src ${images}; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; ` +
  'sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox';

const FRAMES = [
  ['/app-frame', 'data:'],
  ['/app-frame-with-images', 'data: https: http:'],
] as const;

const EMPTY = '<!doctype html><title>Mail</title>';

const notBuiltPage = (basePath: string): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Postrider: portal not built</title></head>
<body>
<h1>The portal is not built</h1>
<p>Run <code>npm ci &amp;&amp; npm run build</code>, then restart Postrider.
The API is not affected: see <a href="${basePath}/docs">its documentation</a>.</p>
</body>
</html>
`;

interface Page {
  html: string;
  files: StaticFile[];
}

/** Returns undefined if the portal was not built. */
function builtPage(folder: string): Page | undefined {
  const page = path.join(folder, 'index.html');
  if (!existsSync(page)) return undefined;
  const names = readdirSync(path.join(folder, 'assets')).filter((name) => path.extname(name) in CONTENT_TYPES);
  const files = names.map((name) => ({
    ...fileOf(folder, `assets/${name}`, FOR_EVER),
    readBrotli: () => readFile(path.join(folder, 'assets', `${name}.br`)),
  }));
  return { html: readFileSync(page, 'utf8'), files: [...files, fileOf(folder, 'icon.svg', 'public, max-age=86400')] };
}

function fileOf(folder: string, name: string, cacheControl: string): StaticFile {
  return {
    path: `/${name}`,
    contentType: CONTENT_TYPES[path.extname(name)]!,
    cacheControl,
    headers: ALIKE,
    read: () => readFile(path.join(folder, name)),
  };
}

interface PageAnswer {
  /** 200 by default. */
  status?: number;
  html: string;
  headers: AnswerHeaders;
}

function pageRoute<C>(at: string, answer: () => PageAnswer): RouteDefinition<C> {
  return defineRoute<C>({
    method: 'GET',
    path: at,
    summary: 'Open a page of the portal',
    tag: 'service',
    access: { auth: 'none' },
    hidden: true,
    ownQuery: true,
    body: { type: 'raw', maxBytes: 0 },
    response: { status: 200, contentType: HTML },
    handle() {
      const { status = 200, html, headers } = answer();
      return { ok: true, status, contentType: HTML, content: html, headers: { ...ALIKE, ...headers } };
    },
  });
}

interface PortalOptions {
  /** Whether users can log in with the organization's identity provider. */
  hasIdentityProvider: boolean;
  /** Path of the base URL, without a trailing slash (base-path.ts). */
  basePath?: string;
  folder?: string;
}

export function portalRoutes<C>(options: PortalOptions): RouteDefinition<C>[] {
  const { hasIdentityProvider, basePath = '', folder = BUILT } = options;
  const built = builtPage(folder);
  const base = escapeAttribute(basePath);
  const html = built?.html
    .replace(FILE_ADDRESS, () => `${base}/`)
    .replace(PROVIDER, hasIdentityProvider ? 'yes' : 'no')
    .replace(BASE_PATH, () => base);
  const page = (): PageAnswer => {
    const nonce = randomBytes(16).toString('base64');
    const headers = { 'Content-Security-Policy': pagePolicy(nonce), 'X-Frame-Options': 'DENY' };
    if (html === undefined) return { status: 503, html: notBuiltPage(base), headers };
    return { html: html.replaceAll(NONCE, nonce), headers };
  };
  return [
    // The page's own router removes a trailing slash.
    ...PAGES.flatMap((at) => (at === '/' ? [at] : [at, `${at}/`])).map((at) => pageRoute<C>(at, page)),
    ...FRAMES.map(([at, images]) =>
      pageRoute<C>(at, () => ({ html: EMPTY, headers: { 'Content-Security-Policy': framePolicy(images) } })),
    ),
    ...staticRoutes<C>(built?.files ?? []),
  ];
}
