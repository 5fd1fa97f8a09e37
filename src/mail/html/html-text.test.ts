import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { runningMs } from '../../../test/kit/running-time.ts';
import { htmlToText, htmlToTextByLibrary, tidyText } from './html-text.ts';
import { simpleHtmlToText } from './html-text-simple.ts';

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

test('a receipt reads like a letter', () => {
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
  assert.equal(htmlToTextByLibrary(RECEIPT), expected);
  assert.notEqual(simpleHtmlToText(RECEIPT), undefined);
});

test('lists, and html that only the library understands', () => {
  assert.equal(
    htmlToText('<p>Buy:</p><ul><li>Tea<li>Milk<ol><li>fresh</li></ol></ul>'),
    'Buy:\n\n- Tea\n- Milk\n  1. fresh',
  );
  assert.equal(htmlToText('a &eacute; <p>b<p>c'), 'a é\n\nb\n\nc');
  assert.equal(htmlToText('<script>alert(1)</script><style>x</style><div hidden>no</div>yes'), 'yes');
  assert.equal(htmlToText('<textarea>x</textarea><head><title>t</title></head>'), '');
  assert.equal(htmlToText('1 < 2 & 3 > 2'), '1 < 2 & 3 > 2');
  assert.equal(htmlToText(''), '');
});

/** Pieces of html, mostly well formed and nested; broken ones in between, which the fast path must leave or read alike. */
const leaf = fc.constantFrom(
  'word',
  'two words',
  ' ',
  '\n  ',
  ' a ',
  '&amp;',
  '&nbsp;',
  '&lt;b&gt;',
  '&',
  '& co',
  '&copy 1',
  '&eacute;',
  '&#169;',
  '<br>',
  '<br/>',
  '<BR>',
  '<hr>',
  '<img alt="pic">',
  '<img src="x" alt=" a b ">',
  '<img>',
  '<!-- c -->',
  '<!--[if mso]><p>x</p><![endif]-->',
  '<style>p > a { }</style>',
  '<script>if (a < b) x</script>',
  '<title>t</title>',
  '<meta charset="utf-8">',
  '<p>',
  '</p>',
  '</div>',
  '<td>',
  '<li>x',
  '<',
  '>',
  '\u200b',
  '\u00a0x',
  '<a href="x">',
);
const TAGS =
  'p div b i span a h1 h3 table tr td th tbody thead center section header em strong u font ul li body html head blockquote pre'.split(
    ' ',
  );
const ATTRIBUTES = [
  '',
  '',
  '',
  ' class="x"',
  " style='color:red'",
  ' style="display:none"',
  ' STYLE="x;Display: None"',
  ' hidden',
  ' href="https://x.example/a"',
  ' href="word"',
  ' href="twowords"',
  ' href="#top"',
  ' href=""',
  ' href="mailto:a@b.example"',
  ' href="?a=1&amp;b=2"',
  ' href="?a&copy=1"',
  ' href=x',
  ' width="1" href="y"',
  ' a="1" a="2"',
];
const { html } = fc.letrec<{ html: string }>((tie) => ({
  html: fc
    .array(
      fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        leaf,
        fc
          .tuple(fc.constantFrom(...TAGS), fc.constantFrom(...ATTRIBUTES), tie('html'))
          .map(([tag, attributes, inner]) => `<${tag}${attributes}>${inner}</${tag}>`),
        tie('html').map((inner) => `<table><tr><td>${inner}</td><td>b</td></tr></table>`),
      ),
      { maxLength: 5 },
    )
    .map((parts) => parts.join('')),
}));

test('where the fast path answers, it answers as the library does', () => {
  let answered = 0;
  fc.assert(
    fc.property(html, (source) => {
      const simple = simpleHtmlToText(source);
      if (simple === undefined) return;
      answered += 1;
      assert.equal(tidyText(simple), htmlToTextByLibrary(source));
    }),
    { numRuns: 4000 },
  );
  assert.ok(answered > 400, `only ${answered} were simple`);
});

test('hostile html is bounded', () => {
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
  ];
  const start = runningMs();
  for (const piece of hostile) htmlToText(piece.repeat(Math.ceil(2_000_000 / piece.length)));
  // All sixteen take half a second on a slow machine; without the bounds one alone takes minutes.
  assert.ok(runningMs() - start < 5000, `${runningMs() - start} ms`);
});
