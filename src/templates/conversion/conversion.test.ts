/** Converted templates, rendered by Postrider, compared with the output of Handlebars or the rules of Mustachio and Resend. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Handlebars from 'handlebars';
import { htmlToText } from '../../mail/html/html-text.ts';
import { createRender } from '../templates.ts';
import { ConversionError, convertTemplate, type Dialect } from './conversion.ts';

type Values = Record<string, unknown>;
type Case = [source: string, ...values: Values[]];

const render = createRender(htmlToText);

/** Returns the output of a send with these values, which fails if a variable has no value. */
function rendered(source: string, variables: Values, kind: 'html' | 'text' = 'html'): string {
  const mail = { [kind]: source, variables, accountVariables: {}, keepMissing: false, deriveText: false };
  const result = render(mail);
  assert.ok(result.ok, `${source}: ${JSON.stringify(result)}`);
  assert.deepEqual(result.value.missing, [], source);
  return result.value[kind] ?? '';
}

/** Normalizes escapes that differ, except ` and =, which Postrider does not need to escape. */
const sameEntities = (html: string): string =>
  html.replaceAll('&quot;', '&#34;').replaceAll('&#x27;', '&#39;').replaceAll('&#x60;', '`').replaceAll('&#x3D;', '=');

/** The helpers of SendGrid, as its documentation describes them. */
function sendgridHelpers(): typeof Handlebars {
  const engine = Handlebars.create();
  const block = (name: string, test: (...values: unknown[]) => unknown): void => {
    engine.registerHelper(name, function (this: unknown, ...given: unknown[]) {
      const options = given.pop() as Handlebars.HelperOptions;
      return test(...given) ? options.fn(this) : options.inverse(this);
    });
  };
  block('equals', (a, b) => a === b);
  block('notEquals', (a, b) => a !== b);
  block('greaterThan', (a, b) => (a as number) > (b as number));
  block('lessThan', (a, b) => (a as number) < (b as number));
  block('and', (...all) => all.every((one) => !Handlebars.Utils.isEmpty(one) && one !== 0));
  block('or', (...all) => all.some((one) => !Handlebars.Utils.isEmpty(one) && one !== 0));
  engine.registerHelper('length', (list: unknown[] | undefined) => list?.length ?? 0);
  engine.registerHelper('insert', (value: unknown, fallback: unknown) =>
    Handlebars.Utils.isEmpty(value) && typeof fallback === 'string' ? fallback.replace('default=', '') : value,
  );
  return engine;
}

const order = {
  customer: { first_name: 'Ann & <Bo>', 'last name': 'Lee', vip: true },
  items: [
    { name: 'Tea', price: 4.5, tags: ['hot', 'green'], options: [{ key: 'size', value: 'L' }] },
    { name: '<Cake>', price: 0, tags: [], options: [] },
  ],
  total: 0,
  note: '',
  currency: '€',
  html: '<b>"bold"</b>',
  members: { b: 1, a: 2 },
};

const HANDLEBARS: Case[] = [
  ['<p>Hello {{customer.first_name}}, {{ currency }}{{total}}.</p>', order],
  ['{{name}}|{{a.b.c}}', {}, { name: 'x', a: { b: {} } }, { name: null, a: null }, { name: 0, a: { b: { c: false } } }],
  ['<i>{{{html}}}</i><u>{{html}}</u>{{&html}}', order, {}],
  ['{{bio_html}}|{{{bio_html}}}', { bio_html: '<b>x</b>' }],
  [
    '{{#if note}}yes{{else}}no{{/if}}',
    { note: '' },
    { note: 'a' },
    { note: 0 },
    { note: [] },
    { note: [0] },
    {},
    { note: '0' },
  ],
  ['{{#if a.b}}yes{{/if}}', { a: { b: true } }, { a: null }, {}, { a: { b: false } }, { a: { b: 'false' } }],
  ['{{#if total includeZero=true}}{{currency}}{{total}}{{else}}free{{/if}}', order, { total: '' }, {}],
  ['{{#unless note}}none{{else}}{{note}}{{/unless}}', { note: '' }, { note: 'n' }, { note: 0 }, {}],
  ['{{#if a}}1{{else if b}}2{{else if c}}3{{else}}4{{/if}}', { a: 1 }, { b: 1 }, { c: [1] }, { c: [] }, {}],
  [
    '{{#if a}}{{#if b}}12{{else}}1{{/if}}{{else}}{{#unless b}}0{{/unless}}{{/if}}',
    { a: 1 },
    { a: 1, b: 1 },
    { b: 1 },
    {},
  ],
  ['<ul>{{#each items}}<li>{{@index}} {{name}} {{this.price}}</li>{{/each}}</ul>', order, {}, { items: [] }],
  ['{{#each tags}}{{this}}{{#unless @last}}, {{/unless}}{{/each}}', { tags: ['a', '<b>', 'c'] }, { tags: ['a'] }],
  ['{{#each items}}{{name}}{{else}}nothing{{/each}}', order, { items: [] }, {}],
  ['{{#each items}}{{../currency}}{{price}}{{#if price}}{{@root.currency}}{{../currency}}{{/if}} {{/each}}', order],
  [
    '{{#each items}}{{#each tags}}{{@../index}}.{{@index}} {{this}} of {{../name}} in {{../../currency}};{{/each}}{{/each}}',
    order,
  ],
  [
    '{{#each items as |one i|}}{{i}}:{{one.name}}{{#each options as |option|}}[{{one.name}}/{{option.key}}]{{/each}}{{/each}}',
    order,
  ],
  ['{{#each members}}{{@key}}={{this}};{{/each}}', order],
  [
    '{{#with customer}}{{first_name}}{{#if vip}} (VIP){{/if}} {{../currency}}{{else}}guest{{/with}}',
    order,
    {},
    { customer: null },
  ],
  ['{{#with customer as |c|}}{{c.first_name}}/{{currency}}{{c.[last name]}}{{/with}}', order],
  ['{{#each items}}{{#if @first}}<{{/if}}{{name}}{{#if @last}}>{{/if}}{{#if @index}}+{{/if}}{{/each}}', order],
  [
    '{{customer.[last name]}} {{items.[0].name}} {{items.1.name}} {{this.currency}} {{./currency}} {{items.length}}',
    order,
  ],
  ['a {{! note }}{{!-- {{not}} a tag --}}b', {}],
  ['a   {{~ currency ~}}   b {{~#if total~}} x {{~else~}} y {{~/if}} c', order],
  [
    'Dear\n{{#if vip}}\n  VIP\n{{else}}\n  guest\n{{/if}}\n{{#each list}}\n- {{this}}\n{{/each}}\nBye\n',
    { vip: 1, list: [1, 2] },
    { list: [] },
  ],
  ['\\{{literal}} {% not liquid %} { {{currency}} {% endraw %}', order],
  ['{{#each items}}{{lookup ../labels @index}} {{/each}}', { items: [1, 2], labels: ['x', 'y'] }],
  ['{{item}} {{#each items}}{{item}}-{{../item}} {{/each}}', { item: 'outer', items: [{ item: 'inner' }] }],
];

const SENDGRID: Case[] = [
  ['{{#equals plan "pro"}}Pro{{else}}Free{{/equals}}', { plan: 'pro' }, { plan: 'x' }, {}],
  [
    "{{#equals a b}}same{{/equals}}{{#equals a 5}}five{{/equals}}{{#equals c true}}t{{/equals}}{{#equals q 'it\\'s'}}q{{/equals}}",
    { a: 5, b: 5, c: true, q: "it's" },
    { a: '5', b: 5 },
  ],
  ['{{#notEquals a b}}differ{{else}}same{{/notEquals}}', { a: 1, b: 2 }, { a: 1, b: 1 }],
  ['{{#and a b}}both{{else}}not{{/and}}', { a: 1, b: 'x' }, { a: 1, b: '' }, { a: 0, b: 1 }, {}],
  ['{{#or a b c}}any{{else}}none{{/or}}', { a: 1 }, { b: '' }, { c: [1] }, { c: 0 }, {}],
  ['{{#or a b}}x{{else}}{{#or c d}}y{{/or}}{{/or}}', { a: 1 }, { c: 1 }, {}],
  ['{{#greaterThan n 3}}many{{else}}few{{/greaterThan}}', { n: 4 }, { n: 3 }, {}],
  ['{{#lessThan n limit}}below{{else}}above{{/lessThan}}', { n: 4, limit: 5 }, { n: 5, limit: 5 }],
  ['{{#greaterThan (length items) 1}}several{{else}}one{{/greaterThan}}', { items: [1, 2] }, { items: [1] }],
  ['Hello {{insert name "default=customer & co"}}!', { name: 'Ann' }, {}, { name: '' }],
  ['{{insert name}}', { name: 'Ann' }],
  ['{{length items}} items', { items: [1, 2, 3] }, { items: [] }, {}],
  [
    '{{#each items}}{{#equals kind "a"}}{{../a}}{{else}}{{kind}}{{/equals}}{{/each}}',
    { a: 'A', items: [{ kind: 'a' }, { kind: 'b' }] },
  ],
  ['{{#if a}}1{{else equals b 2}}2{{else}}3{{/if}}', { a: 1 }, { b: 2 }, {}],
  [
    '{{#if vip}}\n  {{#equals tier "gold"}}\n  Gold\n  {{/equals}}\n{{/if}}\n',
    { vip: true, tier: 'gold' },
    { vip: true },
  ],
  ...HANDLEBARS,
];

test('SendGrid and Mailgun templates render like Handlebars with the helpers', () => {
  const engine = sendgridHelpers();
  for (const [source, ...values] of SENDGRID) {
    for (const dialect of ['sendgrid', 'mailgun'] as const) {
      for (const kind of ['html', 'text'] as const) {
        const expected = engine.compile(source, { noEscape: kind === 'text' });
        const { source: liquid, checks } = convertTemplate(source, dialect, kind);
        assert.deepEqual(
          checks.filter((check) => !check.isConverted),
          [],
          source,
        );
        for (const given of values) {
          // Handlebars prints false, which is documented as different.
          const isFalsePrinted = source.startsWith('{{name}}') && given.name === 0;
          const own = rendered(liquid, given, kind);
          const reference = sameEntities(expected(given));
          assert.equal(
            own,
            isFalsePrinted ? reference.replace('false', '') : reference,
            `${source}\n${liquid}\n${JSON.stringify(given)}`,
          );
        }
      }
    }
  }
});

test('SES templates render like Handlebars, and a variable without a value is missing', () => {
  let compared = 0;
  for (const [source, ...values] of HANDLEBARS) {
    const { source: liquid } = convertTemplate(source, 'ses', 'html');
    for (const given of values) {
      const result = render({
        html: liquid,
        variables: given,
        accountVariables: {},
        keepMissing: false,
        deriveText: false,
      });
      assert.ok(result.ok, source);
      if (result.value.missing.length > 0) continue;
      assert.equal(result.value.html, sameEntities(Handlebars.compile(source)(given)), source);
      compared += 1;
    }
  }
  assert.ok(compared > 50, `${compared}`);
  const { source } = convertTemplate(
    '{{name}} {{#if nick}}{{nick}}{{/if}}{{#each items}}{{x}}{{/each}}',
    'ses',
    'html',
  );
  const result = render({ html: source, variables: {}, accountVariables: {}, keepMissing: false, deriveText: false });
  assert.deepEqual(result.ok && result.value.missing, ['name']);
});

/** Mustachio sections read from their value, never from outer values, and only each loops. */
const MUSTACHIO: [source: string, values: Values, expected: string][] = [
  ['Hi {{name}}', { name: '<A>' }, 'Hi &lt;A&gt;'],
  ['{{{html}}}{{&html}}', { html: '<b>' }, '<b><b>'],
  ['{{a.b.c}}|{{x}}', { a: { b: { c: 1 } } }, '1|'],
  ['{{#each items}}<li>{{name}}</li>{{/each}}', { items: [{ name: 'a' }, { name: 'b' }] }, '<li>a</li><li>b</li>'],
  ['{{#each items}}{{.}},{{/each}}', { items: [1, 0, 'x'] }, '1,0,x,'],
  ['{{#each a.items}}{{name}}{{../../owner}}{{/each}}', { a: { owner: 'o', items: [{ name: 'n' }] } }, 'no'],
  ['{{#each items}}{{../../title}}{{/each}}', { title: 't', items: [1, 2] }, 'tt'],
  ['{{#company}}{{name}} {{../name}}{{/company}}', { name: 'out', company: { name: 'in' } }, 'in out'],
  ['{{#company}}{{name}}{{missing}}{{/company}}', { missing: 'outer', company: { name: 'in' } }, 'in'],
  ['{{#show}}{{.}}{{/show}}', { show: 'text' }, 'text'],
  ['{{#show}}x{{/show}}', { show: 0 }, ''],
  ['{{#show}}x{{/show}}{{^show}}y{{/show}}', { show: '' }, 'y'],
  ['{{#show}}x{{^show}}y{{/show}}', { show: [] }, 'y'],
  ['{{#show}}x{{^show}}y{{/show}}', { show: true }, 'x'],
  ['{{^items}}none for {{../name}}{{/items}}', { name: 'Ann', items: [] }, 'none for Ann'],
  ['{{#a.b}}{{c}}{{../d}}{{../../e}}{{/a.b}}', { e: 3, a: { d: 2, b: { c: 1 } } }, '123'],
  ['{{#each a}}{{#each b}}{{.}}{{../../n}};{{/each}}{{/each}}', { a: [{ n: 'x', b: [1, 2] }] }, '1x;2x;'],
  ['a{{! comment }}b {% c %}', {}, 'ab {% c %}'],
  ['A\n{{#x}}\nB\n{{/x}}\n', { x: { y: 1 } }, 'A\n\nB\n\n'],
];

test('Postmark templates follow Mustachio for sections, scopes, and each', () => {
  for (const [source, values, expected] of MUSTACHIO) {
    const { source: liquid, checks } = convertTemplate(source, 'postmark', 'html');
    assert.deepEqual(checks, [], source);
    assert.equal(rendered(liquid, values), expected, `${source}\n${liquid}`);
  }
  assert.equal(
    convertTemplate('<main>{{{ @content }}}</main>', 'postmark', 'html').source,
    '<main>{{ content }}</main>',
  );
});

const RESEND: [source: string, values: Values, html: string][] = [
  ['Hi {{{NAME}}}', { NAME: '<b>' }, 'Hi <b>'],
  ['Hi {{{ NAME }}}', { NAME: 1 }, 'Hi 1'],
  ['Hi {{{NAME|there}}}', {}, 'Hi there'],
  ['Hi {{{NAME|there}}}', { NAME: 'Ann' }, 'Hi Ann'],
  ['Hi {{{NAME | dear friend }}}', {}, 'Hi dear friend'],
  ['Hi {{{NAME|}}}!', {}, 'Hi !'],
  ["{{{N|it's}}}", {}, "it's"],
  ['{{{A}}}{{{B}}}', { A: 1, B: 2 }, '12'],
  ['{ {{{A}}} }', { A: 1 }, '{ 1 }'],
  ['{% if x %}', {}, '{% if x %}'],
  ['a } b }} c', {}, 'a } b }} c'],
  ['<a href="{{{URL}}}">x</a>', { URL: 'https://x.test/?a=1&b=2' }, '<a href="https://x.test/?a=1&b=2">x</a>'],
  ['{{{A_1}}}\n{{{A_1}}}', { A_1: 'é' }, 'é\né'],
  ['{{{PRICE|0}}} €', { PRICE: 0 }, '0 €'],
  ['plain', {}, 'plain'],
];

test('Resend variables and fallbacks are converted, and other braces are text and reported', () => {
  for (const [source, values, expected] of RESEND) {
    const { source: liquid, checks } = convertTemplate(source, 'resend', 'html');
    assert.deepEqual(checks, [], source);
    assert.equal(rendered(liquid, values), expected, liquid);
  }
  const { source, checks } = convertTemplate('\n{{name}} {{{contact.first_name|you}}}', 'resend', 'html');
  assert.deepEqual(
    checks.map(({ line, what, isConverted }) => [line, what, isConverted]),
    [
      [2, '{{name}}', false],
      [2, '{{{contact.first_name|you}}}', false],
    ],
  );
  assert.equal(rendered(source, {}), '\n{{name}} {{{contact.first_name|you}}}');
});

test('date formats are converted to strftime', () => {
  const dates: [format: string, offset: string, expected: string][] = [
    ['MMMM DD, YYYY h:mm:ss A', '', 'March 05, 2026 1:07:09 PM'],
    ['dddd, Do MMM YY [at] HH:mm', '', 'Thursday, 5th Mar 26 at 13:07'],
    ['M/D/YYYY hh:mm a', ' "-0800"', '3/5/2026 05:07 am'],
    ['YYYY-MM-DD HH:mm 100%', ' "+0530"', '2026-03-05 18:37 100%'],
  ];
  for (const [format, offset, expected] of dates) {
    const { source, checks } = convertTemplate(`{{formatDate at "${format}"${offset}}}`, 'sendgrid', 'html');
    assert.equal(rendered(source, { at: '2026-03-05T13:07:09.000Z' }), expected, source);
    assert.equal(rendered(source, {}), '', source);
    assert.equal(checks.length, 1);
  }
});

const UNCONVERTIBLE: [dialect: Dialect, source: string, what: string][] = [
  ['sendgrid', 'a {{> footer}} b', '{{> footer}}'],
  ['sendgrid', '{{#items}}{{name}}{{/items}}', '{{#items}}'],
  ['mailgun', '{{upper name}}', '{{upper name}}'],
  ['mailgun', '{{#custom a}}x{{/custom}}', '{{#custom a}}'],
  ['ses', '{{#if (custom a)}}x{{else}}y{{/if}}', '{{#if (custom a)}}'],
  ['ses', '{{this}}', '{{this}}'],
  ['ses', '{{@index}}', '{{@index}}'],
  ['ses', '{{../a}}', '{{../a}}'],
  ['mailgun', 'Hi %recipient.name%', '%recipient.name%'],
  ['sendgrid', '{{formatDate at "Qo"}}', '{{formatDate at "Qo"}}'],
  ['sendgrid', '{{formatDate at format}}', '{{formatDate at format}}'],
  ['sendgrid', '{{#if a}}x{{else custom b}}y{{/if}}', '{{#if a}}'],
  ['postmark', '{{> x}}', '{{> x}}'],
  ['postmark', '{{#each items}}{{this.name}}{{/each}}', '{{this.name}}'],
  ['postmark', '{{a b}}', '{{a b}}'],
  ['sendgrid', '{{1st}} {{[first name]}}', '{{1st}}'],
];

test('unsupported constructs stay as text and are reported with line and reason', () => {
  for (const [dialect, source, what] of UNCONVERTIBLE) {
    const { source: liquid, checks } = convertTemplate(`\n${source}`, dialect, 'html');
    const left = checks.filter((check) => !check.isConverted);
    assert.equal(left[0]?.what, what, source);
    assert.equal(left[0]?.line, 2);
    assert.ok(left[0]!.why.length > 10);
    assert.ok(rendered(liquid, { items: [{}] }).includes(what), liquid);
  }
});

test("unsubscribe links are replaced by Postrider's link", () => {
  const links: [dialect: Dialect, source: string][] = [
    ['sendgrid', '<a href="{{{unsubscribe}}}">x</a>'],
    ['sendgrid', '<a href="<%asm_group_unsubscribe_raw_url%>">x</a>'],
    ['mailgun', '<a href="%unsubscribe_url%">x</a>'],
    ['ses', '<a href="{{amazonSESUnsubscribeUrl}}">x</a>'],
    ['postmark', '<a href="{{{ pm:unsubscribe_url }}}">x</a>'],
  ];
  for (const [dialect, source] of links) {
    const { source: liquid, checks } = convertTemplate(source, dialect, 'html');
    assert.equal(liquid, '<a href="{{ unsubscribe_email_html }}">x</a>');
    assert.deepEqual(
      checks.map((check) => check.isConverted),
      [true],
    );
  }
});

test('a member named size, which Liquid answers without a value, is reported', () => {
  const reported: [dialect: Dialect, source: string, what: string[]][] = [
    ['sendgrid', '{{#each items}}{{name}}{{#if size}} (size {{size}}){{/if}};{{/each}}', ['size']],
    ['sendgrid', '{{#each items}}\n{{#with this.size}}{{name}}{{/with}}{{/each}}', ['this.size']],
    ['sendgrid', '{{#equals item.[size] "L"}}x{{/equals}}', ['item.[size]']],
    ['sendgrid', '{{lookup item "size"}}', ['item.size']],
    ['postmark', '{{#each items}}{{#size}}{{.}}{{/size}}{{/each}}', ['size']],
    ['sendgrid', '{{font-size}}{{size_of}}{{#each sizes}}{{this}}{{/each}}{{#with a as |size|}}{{size}}{{/with}}', []],
    ['sendgrid', '{{size}}', []],
    // Liquid reads first and last only of lists.
    ['sendgrid', '{{#each items}}{{first}}{{last}}{{/each}}', []],
  ];
  for (const [dialect, source, what] of reported) {
    const { source: liquid, checks } = convertTemplate(source, dialect, 'html');
    assert.deepEqual(
      checks.map((check) => check.what),
      what,
      source,
    );
    assert.ok(checks.every(({ why, isConverted }) => isConverted && why.startsWith('if it has no value, Liquid uses')));
    if (what.length === 0) assert.equal(rendered(liquid, { items: [{ name: 'Mug' }] }), '', source);
  }
});

const MALFORMED: [source: string, message: RegExp][] = [
  ['{{#if a}}x', /not closed: \{\{#if a\}\} \(line 1\)/],
  ['x\n{{/if}}', /\{\{\/if\}\} without an opening tag \(line 2\)/],
  ['{{#if a}}{{#each b}}{{/if}}{{/each}}', /has \{\{\/if\}\} instead of \{\{\/each\}\}/],
  ['{{else}}', /outside a block/],
  ['{{#if a}}{{else}}{{else}}{{/if}}', /two \{\{else\}\} tags/],
  ['{{ name', /not closed/],
  ['{{!-- x', /not closed/],
  ['{{{{raw}}}}x{{{{/raw}}}}', /raw block/],
  ['{{#if a}}'.repeat(100_000), /deeper than 50|more than 10000 tags/],
  [`${'{{#if a}}'.repeat(51)}${'{{/if}}'.repeat(51)}`, /deeper than 50 levels/],
  [`{{#if a}}${'{{else if b}}'.repeat(200)}{{/if}}`, /more than 100 branches/],
  ['{{a}}'.repeat(200_000), /more than 10000 tags/],
  [`{{${'a'.repeat(1_000_000)}}}`, /a tag that is longer than 8000 characters/],
  ['{{'.repeat(500_000), /not closed|more than/],
];

test('an unreadable source returns an error with its line', () => {
  for (const [source, message] of MALFORMED) {
    for (const dialect of ['sendgrid', 'ses', 'mailgun'] as const) {
      assert.throws(
        () => convertTemplate(source, dialect, 'html'),
        (error) => error instanceof ConversionError && message.test(error.message),
        source.slice(0, 60),
      );
    }
  }
  assert.throws(() => convertTemplate('{{#a}}'.repeat(60), 'postmark', 'html'), ConversionError);
  assert.throws(() => convertTemplate('{{#a}}{{/b}}', 'postmark', 'html'), ConversionError);
});

test('1 MB of hostile text takes linear time', () => {
  const pieces = ['{', '{ {', '\\', '%', '{%', ' \n', '<%a', '[unsubscribe', '%recipient.', '}}', '((', '"', '| a'];
  for (const piece of pieces) {
    const source = piece.repeat(Math.ceil(1_000_000 / piece.length)).slice(0, 1_000_000);
    for (const dialect of ['sendgrid', 'mailgun', 'ses', 'postmark', 'resend'] as const) {
      const startedMs = process.cpuUsage().user;
      try {
        assert.ok(convertTemplate(source, dialect, 'html').source.length >= source.length);
      } catch (error) {
        assert.ok(error instanceof ConversionError, `${error}`);
      }
      // A hang would take minutes.
      assert.ok(process.cpuUsage().user - startedMs < 5_000_000, `${piece} in ${dialect}`);
    }
  }
  for (const inner of [
    '('.repeat(7_990),
    '"'.repeat(7_990),
    'a.'.repeat(3_990),
    '../'.repeat(2_660),
    '[['.repeat(3_990),
  ]) {
    const source = `{{${inner}}}`.repeat(4);
    const { checks } = convertTemplate(source, 'sendgrid', 'html');
    assert.ok(checks.every((check) => !check.isConverted) || inner.startsWith('a.'));
  }
});
