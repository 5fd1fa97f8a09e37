/** Links and tracking pixel of tracked HTML: changes, unchanged bytes, and the time for hostile HTML. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { runningMs } from '../../../test/kit/running-time.ts';
import { decodeAttribute } from './html-tags.ts';
import { trackHtml } from './track-html.ts';

const TRACKED = 'https://t.test/t/x';

/** The HTML with every link tracked, and the URLs found. */
function tracked(html: string): { html: string; urls: string[] } {
  const urls: string[] = [];
  const rewriteLink = (url: string): string => {
    urls.push(url);
    return TRACKED;
  };
  return { html: trackHtml(html, { rewriteLink }), urls };
}

const links: [what: string, before: string, after: string, url: string][] = [
  ['double quotes', '<a href="https://a.test/">x</a>', `<a href="${TRACKED}">x</a>`, 'https://a.test/'],
  ['single quotes', "<a href='http://a.test/'>", `<a href='${TRACKED}'>`, 'http://a.test/'],
  ['no quotes', '<a href=http://a.test/b>', `<a href="${TRACKED}">`, 'http://a.test/b'],
  ['other case', '<A CLASS=x HREF = "HTTP://A.test/">', `<A CLASS=x HREF = "${TRACKED}">`, 'HTTP://A.test/'],
  ['area', '<area href="https://a.test/"/>', `<area href="${TRACKED}"/>`, 'https://a.test/'],
  [
    'character references',
    '<a href="https://a.test/?a=1&amp;b=2&#38;c=&#x33;&d=4">',
    `<a href="${TRACKED}">`,
    'https://a.test/?a=1&b=2&c=3&d=4',
  ],
  [
    'character references by name, with and without semicolon',
    '<a href="https://a.test/&unknown;?a&copy=1&eacute;&copy">',
    `<a href="${TRACKED}">`,
    'https://a.test/&unknown;?a&copy=1é©',
  ],
  ['spaces and line breaks', '<a href=" https://a.\n test/ ">', '<a href=" https://a.\n test/ ">', ''],
  ['a broken line', '<a href="\nhttps://a.test/b\n/c">', `<a href="${TRACKED}">`, 'https://a.test/b/c'],
  ['> in a value', '<a title=">" href="https://a.test/">', `<a title=">" href="${TRACKED}">`, 'https://a.test/'],
  ['a slash instead of a space', '<a/href="https://a.test/">', `<a/href="${TRACKED}">`, 'https://a.test/'],
  [
    'the first of two',
    '<a href="https://a.test/" href="https://b.test/">',
    `<a href="${TRACKED}" href="https://b.test/">`,
    'https://a.test/',
  ],
];
for (const [what, before, after, url] of links) {
  test(`a link is found: ${what}`, () => {
    const result = tracked(before);
    assert.equal(result.html, after);
    assert.deepEqual(result.urls, url === '' ? [] : [url]);
  });
}

const leftAlone = [
  '<a href="mailto:a@b.test">',
  '<a href="tel:+1">',
  '<a href="#top">',
  '<a href="/relative">',
  '<a href="//a.test/">',
  '<a href="javascript:alert(1)">',
  '<a href="">',
  '<a href>',
  '<a href="https://">',
  '<a href="https://a.test/" data-notrack>',
  '<a DATA-NOTRACK="1" href="https://a.test/">',
  '<a href="https://a.test/{{ name }}">',
  '<link href="https://a.test/">',
  '<img src="https://a.test/">',
  '<abbr href="https://a.test/">',
  '<a data-href="https://a.test/">',
  '<!-- <a href="https://a.test/"> -->',
  '<!--[if mso]><a href="https://a.test/"><![endif]-->',
  '<style>a:before { content: \'<a href="https://a.test/">\' }</style>',
  '<script>"<a href=\'https://a.test/\'>"</script>',
  '<title><a href="https://a.test/"></title>',
  '<textarea><a href="https://a.test/"></textarea>',
  '<p title="<a href=\'https://a.test/\'>">',
  '< a href="https://a.test/">',
  '<a href="https://a.test/',
  '<a href="https://a.test/"',
  'text https://a.test/ text',
];
for (const html of leftAlone) {
  test(`unchanged: ${html}`, () => assert.deepEqual(tracked(html), { html, urls: [] }));
}

test('finds links after comments, styles, and incomplete tags', () => {
  const before = '<!--> <!---> <!-- a --!> <!x> <?y> </> </ z> < <style>a</style > <script>if (a < b) {}</script>';
  const { urls } = tracked(`${before}<a href="https://a.test/">`);
  assert.deepEqual(urls, ['https://a.test/']);
});

test('a rewritten URL with quotes and ampersands is decoded correctly', () => {
  const other = `https://t.test/?a=1&b="2"&c='3'&lt=4<5>`;
  const html = trackHtml('<a href=http://a.test/ class=x>', { rewriteLink: () => other });
  assert.equal(decodeAttribute(/^<a href="([^"]*)" class=x>$/.exec(html)![1]!), other);
});

test('adds the pixel at the end of the body, the HTML, or the text', () => {
  const pixelUrl = 'https://t.test/t/p';
  const end = (html: string): string => trackHtml(html, { pixelUrl }).replace(/<img [^>]*>/, '|');
  assert.equal(end('<html><body>x</body></html>'), '<html><body>x|</body></html>');
  assert.equal(end('<html>x</html>'), '<html>x|</html>');
  assert.equal(end('x'), 'x|');
  assert.equal(end('<body>a</body><!-- </body> -->'), '<body>a|</body><!-- </body> -->');
  assert.equal(end('</body>a</body>b'), '</body>a|</body>b');
  const both = trackHtml('<body>a</body><a href="https://a.test/">b</a>', { pixelUrl, rewriteLink: () => TRACKED });
  assert.equal(both.replace(/<img [^>]*>/, '|'), `<body>a</body><a href="${TRACKED}">b</a>|`);
  const img = trackHtml('', { pixelUrl });
  assert.match(img, /^<img src="https:\/\/t\.test\/t\/p" width="1" height="1" alt="" style="[^"]*">$/);
});

test('nothing changes without options', () => {
  const html = '<a href="https://a.test/">';
  assert.equal(trackHtml(html, {}), html);
  assert.equal(trackHtml(html, { rewriteLink: () => undefined }), html);
});

const piece = fc.constantFrom(
  '<',
  '>',
  '/',
  '=',
  '"',
  "'",
  ' ',
  '\n',
  '<!--',
  '-->',
  '--!>',
  '</',
  '<!',
  '<?',
  '&',
  '&amp;',
  'href',
  'text',
  '<a ',
  '<a href=',
  '</a>',
  '<style>',
  '</style>',
  '<script>',
  '</script>',
  '<title',
  '</title',
  '</body>',
  'https://a.test/',
  '<a href="https://a.test/1">',
  '<area href=http://b.test/>',
  ' data-notrack',
  '\u00e9',
  '\0',
);
const soup = fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join(''));

test('property: restoring the URLs gives the original HTML byte for byte', () => {
  fc.assert(
    fc.property(soup, (html) => {
      const written: string[] = [];
      let at = 0;
      // Each link gets a unique URL, so its original text can be looked up.
      const changed = trackHtml(html, {
        rewriteLink: (url) => {
          written.push(url);
          at += 1;
          return `https://t.test/${at}/`;
        },
      });
      const back = changed.split(/"?https:\/\/t\.test\/\d+\/"?/);
      let rest = html;
      for (const [index, kept] of back.entries()) {
        const found = index === 0 ? (rest.startsWith(kept) ? 0 : -1) : rest.indexOf(kept);
        assert.notEqual(found, -1);
        rest = rest.slice(found + kept.length);
      }
      assert.equal(back.length, written.length + 1);
      const again: string[] = [];
      trackHtml(changed, {
        rewriteLink: (url) => {
          again.push(url);
          return undefined;
        },
      });
      assert.deepEqual(
        again,
        written.map((_, index) => `https://t.test/${index + 1}/`),
        'the same links are found in the result',
      );
    }),
    { numRuns: 2_000 },
  );
});

test('hostile HTML takes linear time', () => {
  const n = 2_000_000;
  const hostile = [
    '<',
    '<a',
    '<a ',
    '<a href=',
    '<a href="',
    "<a href='x'",
    '<!--',
    '<!',
    '</',
    '<a b ',
    '<style>',
    '<title></title>',
    '</body>',
    'a=',
    '<a =',
    '&',
    '<a href="https://a.test/&a;',
    '<a href="https://a.test/">',
  ].map((unit) => unit.repeat(n / unit.length));
  hostile.push(
    `<a href="https://a.test/?${'&amp;a=1'.repeat(n / 8)}">`,
    `<a href="https://a.test/${' '.repeat(n)}b">`,
    `<a ${'b '.repeat(n / 2)}>`,
    `<a ${'='.repeat(n)}>`,
  );
  for (const html of hostile) {
    const started = runningMs();
    trackHtml(html, { rewriteLink: () => TRACKED, pixelUrl: TRACKED });
    const tookMs = runningMs() - started;
    // 100 ms on an idle machine. The limit only distinguishes linear from quadratic time.
    assert.ok(tookMs < 1_500, `${html.slice(0, 20)} took ${tookMs} ms`);
  }
});
