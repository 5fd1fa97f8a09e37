import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { runningMs } from '../../../test/kit/running-time.ts';
import { htmlToText } from './html-text.ts';

const RECEIPT = `<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Receipt</title><style>p{color:red}</style></head>
<body style="margin:0"><!-- preheader -->
<div style="display: none; max-height:0">Hidden preview text</div>
<table width="100%"><tbody><tr><td align="center">
  <table><tr><th>Item</th><th>Price</th></tr><tr><td>Tea &amp; cake</td><td>4.20&nbsp;€</td></tr></table>
</td></tr></tbody></table>
<h1>Thank you, <b>Ann</b>!</h1>
<p>Order <a href="https://example.com/o/42">42</a> is <i>on</i> its way.<br>See <a href="https://example.com">https://example.com</a>
or write to <a href="mailto:help@example.com">us</a>.</p>
<img src="https://example.com/pixel.gif" width="1"><img src="logo.png" alt="Our logo">
</body></html>`;

test('a receipt is converted to readable text', () => {
  const expected = [
    'Item Price',
    'Tea & cake 4.20 €',
    '',
    'Thank you, Ann!',
    '',
    'Order 42 <https://example.com/o/42> is on its way.',
    'See https://example.com or write to us <help@example.com>.',
    '',
    'Our logo',
  ].join('\n');
  assert.equal(htmlToText(RECEIPT), expected);
});

const TEXTS: [what: string, html: string, text: string][] = [
  ['nothing', '', ''],
  ['what is no tag', '1 < 2 & 3 > 2', '1 < 2 & 3 > 2'],
  ['white space', ' a \n\t b<b> c </b>d&nbsp; e\u200bf ', 'a b c d  e f'],
  ['lists', '<p>Buy:</p><ul><li>Tea<li>Milk<ol><li>fresh</li></ol></ul>', 'Buy:\n\n- Tea\n- Milk\n  1. fresh'],
  [
    'lists with paragraphs and line breaks',
    '<ul><li><p>a</p><p>b</p></li><li>c<br>d</li><li></li></ul>e',
    '- a\n\n  b\n\n- c\n  d\n\ne',
  ],
  [
    'numbers, letters and Roman numbers',
    '<ol start="9"><li>a<li>b</ol><ol type="A" start="26"><li>c<li>d</ol><ol type=i start=4><li>e</ol>',
    '9. a\n10. b\n\nZ. c\nAA. d\n\niv. e',
  ],
  [
    'quotes',
    'a<blockquote><p>b</p><p>c<br>d</p><blockquote>e</blockquote></blockquote>f',
    'a\n\n> b\n>\n> c\n> d\n>\n> > e\n\nf',
  ],
  ['white space that counts', '<pre>\n a\n   b\n\n c</pre>d', 'a\n   b\n\n c\n\nd'],
  ['empty lines', '<div>a</div><div><br></div><div>b<br></div><div>c</div>', 'a\n\nb\nc'],
  ['terms', '<dl><dt>a<dd>b<dt>c<dd>d</dl>', 'a\nb\nc\nd'],
  ['cells', '<table><tr><td>a<td>b<tr><th>c</th><th><div>d</div></th></table>', 'a b\nc\nd'],
  ['headings', '<h1>a</h1>b<h6>c</h6><h2>d</h2>', 'a\n\nb\n\nc\n\nd'],
  ['a rule', 'a<hr>b', `a\n\n${'-'.repeat(40)}\n\nb`],
  ['a button', '<a href="https://x.example/?a=1&amp;b=2"><div>Go </div></a>on', 'Go <https://x.example/?a=1&b=2>\non'],
  ['a link within an open paragraph', '<p>x <a href=https://x.example><div>y</div></a>', 'x\ny <https://x.example>'],
  ['a link that says where it leads', '<a href="https://x.example">https:// x.example</a>', 'https:// x.example'],
  [
    'a picture in a link',
    '<a href="https://x.example"><img src=y alt="Our &quot;logo&quot;"></a>',
    'Our "logo" <https://x.example>',
  ],
  ['a picture without words in a link', 'a <a href="https://x.example"><img src=y></a>', 'a https://x.example'],
  ['links that lead nowhere else', '<a href="#top">a</a> <a name=b>b</a> <a href="">c</a>', 'a b c'],
  ['a link that is not closed', '<a href="https://x.example">a<a href="https://y.example">b', 'a <https://x.example>b'],
  ['references', '&eacute;&copy 1 &#150;&#x1F600;&bogus; &amp;amp; &notit; &#0;', 'é© 1 –😀&bogus; &amp; ¬it; \ufffd'],
  ['what is not shown', '<script>alert("<p>1</p>")</script><style>x</style><div hidden>no<p>no</div>yes', 'yes'],
  ['forms', '<select><option>1<option>2</select><textarea>x</textarea><button>Go</button>', 'Go'],
  ['hidden cells', '<table><tr><td style="x; DISPLAY:none">a<td>b<tr hidden><td>c<tr><td>d</table>', 'b\nd'],
  ['a hidden preheader', '<div style="display: none">a<table><tr><td></div>b</td></tr></table></div>c', 'c'],
  ['comments', 'a<!-- b --><!--[if mso]><p>c</p><![endif]--><![if !mso]>d<![endif]><?e?></>f', 'adf'],
  ['a head that is not closed', '<head><title>t</title><meta x><p>a', 'a'],
  ['text behind the body', '<body>a</body></html>b', 'ab'],
  ['paragraphs without ends', 'a<p>b<p>c</p>d', 'a\n\nb\n\nc\n\nd'],
  ['a tag that the text ends within', 'a <b>b</b> <a href="x', 'a b'],
];
for (const [what, html, text] of TEXTS) {
  test(`html to text: ${what}`, () => assert.equal(htmlToText(html), text));
}

/** Well-formed HTML with its visible words. */
interface Written {
  html: string;
  words: string[];
}

const word = fc.stringMatching(/^[a-z]{1,8}$/).map((text): Written => ({ html: text, words: [text] }));
const paragraph = word.map(({ html, words }): Written => ({ html: `<p>${html}</p>`, words }));
const silent = fc
  .constantFrom(
    ' ',
    '\n',
    '<br>',
    '<img src=x>',
    '<!-- x -->',
    '<style>p > a</style>',
    '<script>a < b</script>',
    '&nbsp;',
  )
  .map((html): Written => ({ html, words: [] }));
const BLOCKS = 'div h1 table ul ol blockquote pre section center dl'.split(' ');
const INLINE = 'b i span font em strong u'.split(' ');
const { written } = fc.letrec<{ written: Written }>((tie) => ({
  written: fc
    .array(
      fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        word,
        paragraph,
        silent,
        fc
          .tuple(
            fc.constantFrom(...BLOCKS, ...INLINE),
            fc.constantFrom('', ' hidden', " style='display:none'"),
            tie('written'),
          )
          .map(([name, attribute, { html, words }]): Written => {
            const inner = { table: `<tr><td>${html}<td>`, ul: `<li>${html}`, ol: `<li>${html}`, dl: `<dd>${html}` }[
              name
            ];
            return { html: `<${name}${attribute}>${inner ?? html}</${name}>`, words: attribute === '' ? words : [] };
          }),
      ),
      { maxLength: 6 },
    )
    .map((all) => ({ html: all.map(({ html }) => `${html} `).join(''), words: all.flatMap(({ words }) => words) })),
}));

test('property: the text contains exactly the visible content, in order', () => {
  fc.assert(
    fc.property(written, ({ html, words }) => {
      const text = htmlToText(html);
      assert.deepEqual(text.match(/[a-z]+/g) ?? [], words);
      assert.doesNotMatch(text, /[ \t]\n|\n{3}|^\s|\s$/);
    }),
    { numRuns: 2000 },
  );
});

const piece = fc.constantFrom(
  '<p>',
  '</p>',
  '<div hidden>',
  '</div>',
  '<td>',
  '</table>',
  '<table>',
  '<tr>',
  '<li>',
  '<ul>',
  '</ul>',
  '<ol>',
  '</pre>',
  '<pre>',
  '<a href=x>',
  '</a>',
  '<blockquote>',
  '</blockquote>',
  '<br>',
  '<',
  '>',
  '"',
  '&',
  '&lt',
  ' ',
  '\n',
  'word',
  '<!--',
  '-->',
  '<style>',
  '</style>',
  '<head>',
  '<body>',
  '</body>',
  '<img alt=x>',
  '<b',
  '/>',
  '</',
  '<hr>',
  '<title>',
);
test('property: broken HTML results in clean text', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      assert.doesNotMatch(htmlToText(pieces.join('')), /[ \t]\n|\n{3}|^\s|\s$/);
    }),
    { numRuns: 2000 },
  );
});

test('hidden text of any length does not displace visible text', () => {
  const long = 'A'.repeat(300_000);
  for (const between of [
    `<img alt="" src="data:image/png;base64,${long}">`,
    `<style>${long}</style>`,
    `<!--${long}-->`,
    `<div hidden>${long}</div>`,
  ])
    assert.equal(htmlToText(`<p>first</p>${between}<p>last</p>`), 'first\n\nlast', between.slice(0, 20));
});

test('words beyond 256 KB are omitted without cutting a word', () => {
  const filled = `<p>${'x '.repeat(131_000)}`;
  for (const end of ['😀', '&amp;', '<a href="https://a.example">a</a>']) {
    const text = htmlToText(filled + end.repeat(300));
    assert.ok(text.length < 256 * 1024 + 100, `${text.length}`);
    assert.ok(text.isWellFormed());
    assert.doesNotMatch(text.slice(-20), /&a|<a/);
  }
});

test('hostile HTML takes bounded time', () => {
  const hostile = [
    '<div>',
    '<div>a',
    '<b>',
    '<table>',
    '<p>a</p>',
    '<a href="x">y',
    '<',
    '&',
    '<!--',
    '<style>',
    '<ul><li>a',
    '<td>',
    '<blockquote>',
    '<br>',
    ' ',
    '<pre>\n',
    '<ol><li>',
    '<hr>',
    '<b></i>',
    '<svg><a/>',
    '&#1',
  ];
  const start = runningMs();
  for (const piece of hostile) htmlToText(piece.repeat(Math.ceil(2_000_000 / piece.length)));
  // All cases take a second on a slow machine. Without the limits a single case takes minutes.
  assert.ok(runningMs() - start < 5000, `${runningMs() - start} ms`);
});
