/**
 * The portal in a browser: the page for `/` and every path of its own, its files, and the frames that show mail. The page is answered with a
 * fresh nonce each time, so that the styles it makes are its own and no others' (no unsafe-inline, no eval); the files' names change with
 * their content, so that browsers keep them for ever. Mail is shown in a frame whose own policy forbids scripts, and everything
 * from elsewhere; a second one lets remote images in. If the portal was not built, its pages answer 503 and say how to build it; the
 * API is not affected.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { escapeAttribute } from '../mail/html/html-tags.ts';
import { type StaticFile, staticRoutes } from './files.ts';
import { type AnswerHeaders, defineRoute, type RouteDefinition } from './route.ts';

/** Where `npm run build` puts the portal. */
const BUILT = path.resolve(import.meta.dirname, '../../portal/dist');
/** In the built page, in place of the nonce. */
const NONCE = 'CSP-NONCE';
/** In the same, in place of `yes` or `no`. */
const PROVIDER = 'HAS-IDENTITY-PROVIDER';
/** In the same, in place of the path of the base URL. */
const BASE_PATH = 'BASE-PATH';
/** Addresses of the files in the built page. */
const FILE_ADDRESS = /(?<= (?:src|href)=")\.?\/(?=assets\/|icon\.svg")/g;
const PAGES = [
  ...['/', '/sign-in', '/welcome', '/reset', '/shared', '/app', '/app/:area', '/app/:area/:page'],
  ...['/app/:area/:page/:id', '/app/:area/:page/:id/:part'],
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

/** Undefined where it was not built. */
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
    ...{ path: `/${name}`, contentType: CONTENT_TYPES[path.extname(name)]!, cacheControl, headers: ALIKE },
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
    ...{ method: 'GET', path: at, summary: 'Open a page of the portal', tag: 'service', auth: 'none' },
    ...{ hidden: true, ownQuery: true, bodyType: 'raw', maxBodyBytes: 0 },
    response: { status: 200, contentType: HTML },
    handle() {
      const { status = 200, html, headers } = answer();
      return { ok: true, status, contentType: HTML, content: html, headers: { ...ALIKE, ...headers } };
    },
  });
}

interface PortalOptions {
  /** Whether users may sign in at their organisation's identity provider. */
  hasIdentityProvider: boolean;
  /** Of the base URL, without a slash at its end (base-path.ts). */
  basePath?: string;
  /** Where the portal was built. */
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
    // The router of the page takes the slash at the end away.
    ...PAGES.flatMap((at) => (at === '/' ? [at] : [at, `${at}/`])).map((at) => pageRoute<C>(at, page)),
    ...FRAMES.map(([at, images]) =>
      pageRoute<C>(at, () => ({ html: EMPTY, headers: { 'Content-Security-Policy': framePolicy(images) } })),
    ),
    ...staticRoutes<C>(built?.files ?? []),
  ];
}
