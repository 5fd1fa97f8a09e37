/**
 * The pages that recipients see: small, without scripts, pictures or anything from elsewhere, so that nothing they hold can
 * be turned against the person who opens them. Texts from outside are escaped here and nowhere else.
 */
import { createHash } from 'node:crypto';
import type { ContentAnswer } from '../http/route.ts';
import { escapeAttribute } from '../mail/html/html-tags.ts';

const STYLE = `
:root { color-scheme: light dark; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: #f4f5f7; color: #1d2129;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { box-sizing: border-box; width: min(30rem, 100% - 2rem); padding: 2rem; border-radius: .75rem; background: #fff;
  box-shadow: 0 1px 4px rgb(0 0 0 / .15); }
h1 { margin: 0 0 .75rem; font-size: 1.375rem; line-height: 1.25; }
p { margin: 0 0 1rem; overflow-wrap: anywhere; }
p:last-child { margin: 0; }
button { padding: .625rem 1.25rem; border: 0; border-radius: .5rem; background: #1f5fd6; color: #fff; font: inherit;
  font-weight: 600; cursor: pointer; }
button:hover { background: #1a4fb3; }
button:focus-visible { outline: 3px solid #8db4ff; outline-offset: 2px; }
@media (prefers-color-scheme: dark) {
  body { background: #14171c; color: #e6e8eb; }
  main { background: #1f242b; box-shadow: none; }
}
`;

const HEADERS = {
  'Content-Security-Policy':
    `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; form-action 'self'; ` +
    "base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  'X-Robots-Tag': 'noindex, nofollow',
};

export interface Page {
  status: number;
  title: string;
  /** Each a paragraph of plain text. */
  paragraphs: string[];
  /** A form that is posted to the page's own address. */
  button?: string;
  headers?: Record<string, string>;
}

export function pageAnswer({ status, title, paragraphs, button, headers }: Page): ContentAnswer {
  const text = paragraphs.map((one) => `<p>${escapeAttribute(one)}</p>`).join('\n');
  const form = button === undefined ? '' : `\n<form method="post"><button>${escapeAttribute(button)}</button></form>`;
  const content = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeAttribute(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeAttribute(title)}</h1>
${text}${form}
</main>
</body>
</html>
`;
  return { ok: true, status, contentType: 'text/html; charset=utf-8', headers: { ...HEADERS, ...headers }, content };
}

/** For links that were not made here, or were altered on their way. */
export function unknownLink(): ContentAnswer {
  return pageAnswer({
    status: 404,
    title: 'This link does not work',
    paragraphs: [
      'It is not complete, or was changed on its way. Please open the link in the email itself, or copy all of it.',
    ],
  });
}
