/** Support by email client in a real browser: what a browser reads from HTML and styles, and the table of a message in the sandbox inbox. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { build, type Rolldown } from 'vite';
import { noBrowser, setFirstPassword, signedIn, startBrowser } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { faultsOf } from './every-page.ts';

const skip = noBrowser();
const PAGES = path.resolve(import.meta.dirname, '../../portal/src/pages/inbox');
let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService();
  await setFirstPassword(service);
});
after(async () => {
  await visitors?.close();
  await service?.close();
});

/** Returns the modules as a script that sets `support`. */
async function bundled(): Promise<string> {
  const entry = path.join(PAGES, 'support-entry.ts');
  const source = `export { usageOf } from '${PAGES}/html-usage.ts';
    export { limitedFeatures } from '${PAGES}/client-support.ts';`;
  const built = (await build({
    configFile: false,
    logLevel: 'silent',
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === entry ? id : undefined),
        load: (id) => (id === entry ? source : undefined),
      },
    ],
    build: { write: false, minify: false, lib: { entry, formats: ['iife'], name: 'support' } },
  })) as Rolldown.RolldownOutput[];
  const [chunk] = built[0]!.output;
  return chunk.code.replace(/^(?:var|const) support =/m, 'globalThis.support =');
}

const style = (css: string): string => `<html><head><style>${css}</style></head><body></body></html>`;

/** What an email has, and the features that are found; names without css- or html-. */
const FOUND: readonly (readonly [html: string, ...features: string[]])[] = [
  ['<p>Plain <b>text</b> <font color="#fff">x</font></p>'],
  ['<p style="color: #ffffff; background: #000; margin: 0; font: 16px Arial">x</p>', 'css-background'],
  ['<td style="padding: 8px">x</td><p style="padding:4px 0">x</p>', 'css-padding'],
  ['<p style="margin:0 auto">x</p>', 'css-margin'],
  ['<p style="border-radius:4px">x</p>', 'css-border-radius'],
  ['<p style="display:flex;gap:8px">x</p>', 'css-display-flex', 'css-gap'],
  [
    '<p style="background: url(a.png) no-repeat">x</p>',
    'css-background',
    'css-background-image',
    'css-background-repeat',
  ],
  ['<p style="background-image:linear-gradient(red, blue)">x</p>', 'css-background-image', 'css-linear-gradient'],
  ['<p style="width: calc(100% - 2rem)">x</p>', 'css-unit-calc', 'css-unit-rem', 'css-width'],
  ['<p style="--gap: 1px; color: red">x</p>', 'css-variables'],
  [
    '<p style="white-space:nowrap;overflow:hidden;text-overflow:ellipsis">x</p>',
    'css-overflow',
    'css-text-overflow',
    'css-white-space',
  ],
  ['<p style="text-decoration:none;list-style:none;font-weight:bold;outline:none">x</p>'],
  ['<p style="font-weight:600;text-transform:uppercase">x</p>', 'css-font-weight'],
  ['<p style="position:relative;top:1px;z-index:2">x</p>', 'css-left-right-top-bottom', 'css-position', 'css-z-index'],
  ['<p style="no-such: 1; mso-line-height-rule: exactly; color: }red">x</p>'],
  ['<!--[if mso]><p style="display:flex">x</p><![endif]--><p>x</p>'],
  [style('/* p { display: flex } */ .a:hover { color: red }'), 'css-pseudo-class-hover', 'html-style'],
  [
    style('@media (max-width: 600px) { td > a { width: 100% } }'),
    'css-at-media',
    'css-selector-child',
    'css-width',
    'html-style',
  ],
  [
    style('@media (prefers-color-scheme: dark) { a { color: red } }'),
    'css-at-media',
    'css-at-media-prefers-color-scheme',
    'html-style',
  ],
  [style('@font-face { font-family: x; src: url(https://fonts.example/x.woff2) }'), 'css-at-font-face', 'html-style'],
  [style('@import url(https://styles.example/a.css);'), 'css-at-import', 'html-style'],
  [style('@supports (display: grid) { a { color: red } }'), 'css-at-supports', 'html-style'],
  [style('@keyframes x { to { opacity: 0 } }'), 'css-at-keyframes', 'html-style'],
  [style('.a { color: red; & b { color: blue } }'), 'css-nesting', 'html-style'],
  [style('.a::before { content: "> + ~" }'), 'css-pseudo-element-before', 'html-style'],
  ['<video src="a.mp4"></video><svg></svg>', 'html-svg', 'html-video'],
  [
    '<img src="https://shop.example/a.webp" srcset="b.webp 2x" loading="lazy">',
    'html-loading-attribute',
    'html-srcset',
    'image-webp',
  ],
  ['<form><input type="checkbox"><button>x</button></form>', 'html-button-submit', 'html-form', 'html-input-checkbox'],
];

test('the features of HTML and styles are found as the browser reads them', { skip }, async (t) => {
  const visit = await visitors.visit(service.url);
  t.after(() => visit.close());
  const { page } = visit;
  await page.goto('about:blank');
  await page.evaluate(await bundled());
  const usage = (html: string): string => `support.usageOf(${JSON.stringify(html)}, document.implementation)`;
  for (const [html, ...features] of FOUND) {
    const found = await page.evaluate<string[]>(
      `support.limitedFeatures(${usage(html)}).map(({ name }) => name).sort()`,
    );
    assert.deepEqual(found, features, html);
  }
  const large = `<p style="padding:1px">x</p>`.repeat(100_000);
  const count = await page.evaluate(`support.limitedFeatures(${usage(large)}).map(({ count }) => count)`);
  assert.deepEqual(count, [100_000]);
  visit.assertClean();
});

const HTML = `<html><head><title>Order</title><link rel="stylesheet" href="https://styles.example/b.css"><style>
@import url(https://styles.example/a.css);
@media (max-width: 600px) { .column { width: 100% } }
.button:hover { opacity: 0.8 }
</style></head><body><div style="display:flex; gap:12px; border-radius:8px; box-shadow: 0 1px 2px #ccc">
<img src="https://images.example/a.webp" alt="" style="object-fit: cover"><p style="padding:8px; margin:-4px 0">Hello</p>
<p style="padding:4px; background-image:url(https://images.example/b.png)">Again</p></div>
<script>document.title = 'run'</script></body></html>`;

test('the checks of a message list the features that email clients do not support', { skip }, async (t) => {
  const email = {
    from: 'Shop <shop@shop.example>',
    to: 'ann@example.com',
    subject: 'Styled',
    text: 'Hello',
    html: HTML,
  };
  const sent = await service.sandboxApi.post('/send', email);
  assert.equal(sent.status, 202, sent.text);
  const visit = await signedIn(t, visitors, service);
  const { page } = visit;
  const requested: string[] = [];
  page.on('request', (request) => requested.push(request.url()));
  await page.goto(`/app/sandbox/inbox/${sent.body.data.messageId}`);
  await page.getByRole('tab', { name: /Checks/ }).click();
  const table = page.getByRole('region', { name: 'Support by email client' }).getByRole('table');
  const row = (name: string) =>
    table.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });
  assert.match(await row('display:flex').innerText(), /Outlook \(classic\)/);
  assert.match(await row('box-shadow').innerText(), /Gmail \(web\)/);
  assert.match(await row('@media').innerText(), /^@media\s+1\s+Outlook \(classic\)/);
  const link = row('object-fit').getByRole('link');
  assert.equal(await link.getAttribute('href'), 'https://www.caniemail.com/features/css-object-fit/');
  assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
  assert.equal(await row('padding').count(), 0, 'partly supported only');
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('button', { name: /^Show \d+ partly supported features$/ }).click();
  assert.match(await row('padding').innerText(), /^padding\s+2\s+Outlook \(classic\)/);
  await row('padding').getByText('2 notes').click();
  await row('padding').getByText('Only supported on table cells.').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  assert.deepEqual(
    requested.filter((url) => !url.startsWith(service.url)),
    [],
  );
  assert.doesNotMatch(await page.title(), /run/);
  visit.assertClean();
});

test('plain HTML has no limited features', { skip }, async (t) => {
  const html = '<html><head><title>x</title></head><body><p>Hello</p></body></html>';
  const email = { from: 'Shop <shop@shop.example>', to: 'ann@example.com', subject: 'Plain', text: 'Hello', html };
  const { body } = await service.sandboxApi.post('/send', email);
  const visit = await signedIn(t, visitors, service);
  await visit.page.goto(`/app/sandbox/inbox/${body.data.messageId}?view=checks`);
  await visit.page.getByText('All known email clients support the HTML and CSS of this email.').waitFor();
  visit.assertClean();
});
