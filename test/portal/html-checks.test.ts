/** Findings in the HTML of an email, rule by rule: with an email that has the problem, and a similar one that does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findingsOf, RULES, scoreOf } from '../../portal/src/pages/inbox/html-checks.ts';
import { rules } from '../../portal/src/texts/inbox.ts';

/** A correct email with this in its body. */
const mailOf = (body: string, head = ''): string =>
  `<!doctype html><html><head><title>Order</title>${head}</head><body><div style="display:none">Shipped</div>${body}</body></html>`;

const TABLE: Record<keyof typeof rules, { has: string[]; hasNot: string[] }> = {
  tooLarge: { has: [mailOf('é'.repeat(53_000))], hasNot: [mailOf('é'.repeat(51_000))] },
  noText: { has: [], hasNot: [] },
  noTitle: {
    has: ['<p>Hello</p>', '<html><head><title> </title></head><body>Hello</body></html>'],
    hasNot: [mailOf('')],
  },
  noPreheader: {
    has: ['<p>Hello</p>'],
    hasNot: [mailOf(''), '<span style="font-size: 1px">In short</span>', '<p style="max-height:0">In short</p>'],
  },
  imageWithoutAlt: {
    has: [mailOf('<img src="a.png">'), mailOf("<IMG SRC='a>b.png' width=1>")],
    hasNot: [mailOf('<img src="a.png" alt="">'), mailOf('<!-- <img src="a.png"> -->'), mailOf('<img alt src=a>')],
  },
  emptyLink: {
    has: [
      mailOf('<a href="">x</a>'),
      mailOf('<a href="#">x</a>'),
      mailOf('<a>x</a>'),
      mailOf('<a href="javascript:x()">x</a>'),
    ],
    hasNot: [mailOf('<a href="https://a.example">x</a>'), mailOf('<a name="top"></a>'), mailOf('<a href="#top">x</a>')],
  },
  insecureLink: {
    has: [mailOf('<a href="http://a.example/">x</a>'), mailOf('<a href=HTTP://a.example>x</a>')],
    hasNot: [mailOf('<a href="https://a.example/?to=http://b">x</a>'), mailOf('<p>http://a.example</p>')],
  },
  relativeLink: {
    has: [mailOf('<a href="/orders/17">x</a>'), mailOf('<a href="orders">x</a>')],
    hasNot: [
      mailOf('<a href="https://a.example/">x</a>'),
      mailOf('<a href="mailto:a@b.example">x</a><a href="#x">y</a>'),
    ],
  },
  localLink: {
    has: [mailOf('<a href="http://localhost:3000/x">x</a>'), mailOf('<a href="https://shop.test/">x</a>')],
    hasNot: [
      mailOf('<a href="https://localhost.example/">x</a>'),
      mailOf('<a href="https://a.example/?next=localhost">x</a>'),
    ],
  },
  addressLink: {
    has: [mailOf('<a href="https://192.0.2.1/x">x</a>')],
    hasNot: [mailOf('<a href="https://192.0.2.1.example/">x</a>')],
  },
  shortLink: {
    has: [mailOf('<a href="https://bit.ly/abc">x</a>')],
    hasNot: [mailOf('<a href="https://bit.ly.example/abc">x</a>')],
  },
  placeholder: {
    has: [mailOf('<p>Hello {{ name }}</p>'), mailOf('<a href="https://a.example/{{id}}">x</a>')],
    hasNot: [mailOf('<p>Hello { name }</p>'), mailOf('<!-- {{ name }} -->')],
  },
  dataImage: {
    has: [mailOf('<img alt="" src="data:image/png;base64,AA">')],
    hasNot: [mailOf('<img alt="" src="cid:a">')],
  },
  imageOnly: {
    has: [mailOf('<img alt="" src="https://a.example/a.png">')],
    hasNot: [mailOf(`<img alt="" src="https://a.example/a.png"><p>${'Your order is on its way. '.repeat(3)}</p>`)],
  },
  externalStyles: {
    has: [mailOf('', '<link rel="stylesheet" href="a.css">'), mailOf('', '<style>@import url(a.css);</style>')],
    hasNot: [mailOf('', '<link rel="icon" href="a.png">')],
  },
  styleInBody: {
    has: [mailOf('<style>p{}</style>')],
    hasNot: [mailOf('', '<style>p{}</style>'), '<style>p{}</style>x'],
  },
  position: {
    has: [mailOf('<p style="position: absolute">x</p>'), mailOf('', '<style>p{color:red;position:fixed}</style>')],
    hasNot: [mailOf('<p style="background-position: top">x</p>'), mailOf('<p>position: absolute</p>')],
  },
  flex: {
    has: [mailOf('<p style="display:flex">x</p>'), mailOf('', '<style>p{display: inline-flex}</style>')],
    hasNot: [mailOf('<p style="display:block">flex</p>'), mailOf('', '<style>/* p{display:flex} */</style>')],
  },
  grid: { has: [mailOf('<p style="DISPLAY: Grid">x</p>')], hasNot: [mailOf('<p class="grid">x</p>')] },
  video: { has: [mailOf('<video src="a.mp4">'), mailOf('<audio src=a>')], hasNot: [mailOf('<p>video</p>')] },
  form: { has: [mailOf('<form></form>'), mailOf('<input>')], hasNot: [mailOf('<p>&lt;form&gt;</p>')] },
  svg: { has: [mailOf('<svg></svg>')], hasNot: [mailOf('<img src="a.svg" alt="">')] },
  script: {
    has: [mailOf('<script>if (a < b) c</script>'), mailOf('<iframe src="a">')],
    hasNot: [mailOf('<p>script</p>')],
  },
};

const found = (html: string, text: string | null = 'Hello'): string[] =>
  findingsOf({ html, text }).map(({ rule }) => rule);

for (const [rule, { has, hasNot }] of Object.entries(TABLE)) {
  test(`finds ${rule} only where it applies`, () => {
    for (const html of has) assert.ok(found(html).includes(rule), html.slice(0, 300));
    for (const html of hasNot) assert.ok(!found(html).includes(rule), html.slice(0, 300));
  });
}

test('a correct email has no finding, one without text has one, and each rule has a message', () => {
  assert.deepEqual(found(mailOf('<p>Hello</p>')), []);
  assert.deepEqual(found(mailOf('<p>Hello</p>'), null), ['noText']);
  assert.deepEqual(RULES.map(({ rule }) => rule).sort(), Object.keys(rules).sort());
});

test('the score is 100 without findings, less for each, and never negative', () => {
  assert.equal(scoreOf(findingsOf({ html: mailOf('<p>Hello</p>'), text: 'Hello' })), 100);
  assert.equal(scoreOf(findingsOf({ html: mailOf('<a href="">x</a><svg></svg>'), text: 'Hello' })), 80);
  const bad =
    '<a href=""></a><a href="/x">x</a><img src=a><form></form><script></script><a href="https://10.0.0.1/">x</a>{{x}}';
  assert.equal(scoreOf(findingsOf({ html: bad, text: null })), 0);
});

test('reports the position briefly, and the count', () => {
  const html = mailOf(Array.from({ length: 9 }, (_, index) => `<img src="${index}${'x'.repeat(500)}">`).join(''));
  const [finding] = findingsOf({ html, text: 'Hello' });
  assert.deepEqual([finding?.rule, finding?.count, finding?.examples.length], ['imageWithoutAlt', 9, 3]);
  assert.ok(finding!.examples.every((one) => one.length < 130));
});

test('stays fast on HTML made to be slow', () => {
  const hostile = [
    '<'.repeat(200_000),
    '<a '.repeat(60_000),
    '<style>'.repeat(30_000),
    '<!--'.repeat(50_000),
    `<a ${'x="'.repeat(60_000)}`,
    '<style>/*'.repeat(40_000),
    `<p ${' '.repeat(200_000)}>`,
    `<p style="${'/*'.repeat(80_000)}">`,
    '<title>'.repeat(40_000),
    '<!x'.repeat(60_000),
  ];
  for (const html of hostile) {
    const began = performance.now();
    found(html);
    assert.ok(performance.now() - began < 2_000, `${html.slice(0, 10)} took ${performance.now() - began} ms`);
  }
});
