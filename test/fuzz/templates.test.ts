/**
 * Templates and values of random pieces: rendering always ends soon, never throws, changes no object, prints only given values, and gives
 * the same result twice. Time limits only distinguish bounded from unbounded work: a rendering may take 50 ms, and the machine may be busy.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import { applyDeclarations } from '../../src/templates/render.ts';
import { inLayout } from '../../src/templates/template.ts';
import { createRender, type MailToRender } from '../../src/templates/templates.ts';
import { runningMs } from '../kit/running-time.ts';

const render = createRender(htmlToText);
const BOUND_MS = 3_000;

const name = fc.constantFrom(
  'a',
  'b',
  'list',
  'o',
  'a_html',
  'constructor',
  '__proto__',
  'toString',
  'forloop',
  'size',
  'x-y',
);
const path = fc
  .array(fc.oneof(name, fc.constantFrom('[0]', '["__proto__"]', '[a]', '.first', '.length')), {
    minLength: 1,
    maxLength: 4,
  })
  .map((parts) => parts.map((part, index) => (index > 0 && /^\w/.test(part) ? `.${part}` : part)).join(''));
const filter = fc.constantFrom(
  'upcase',
  'raw',
  'json',
  'escape',
  'default: "d"',
  'append: b',
  'split: ","',
  'join: a',
  'sort',
  'map: "x"',
  'size',
  'slice: 0, 2',
  'truncate: 3',
  'where: "x", a',
  'date: "%Y"',
  'times: 9',
  'replace: a, b',
  'newline_to_br',
  'nope',
);
const output = fc.tuple(path, fc.array(filter, { maxLength: 4 })).map(([of, by]) => `{{ ${[of, ...by].join(' | ')} }}`);
const broken = fc.constantFrom('{', '}', '{{', '}}', '{%', '%}', '{{{{a}}}}', '{% endif %}', '{%- -%}', '{{ a b }}');
const leaf = fc.oneof(
  { weight: 12, arbitrary: output },
  {
    weight: 8,
    arbitrary: fc.constantFrom('text ', '<b>', '&', '"', '{{ content }}', '{% assign q = a %}', '{% cycle a, b %}'),
  },
  { weight: 4, arbitrary: fc.string({ maxLength: 8 }) },
  { weight: 1, arbitrary: broken },
);
const { source } = fc.letrec<{ source: string; block: string }>((tie) => ({
  source: fc
    .array(fc.oneof({ depthSize: 'small' }, leaf, tie('block')), { maxLength: 5 })
    .map((parts) => parts.join('')),
  block: fc
    .tuple(
      fc.constantFrom(
        'if a',
        'unless b',
        'for i in list',
        'for i in (1..3)',
        'for i in (1..999999999)',
        'capture c',
        'case a',
        'comment',
        'raw',
        'tablerow i in list',
        'for i in o reversed',
        'if a contains b',
      ),
      tie('source'),
    )
    .map(([open, inner]) => `{% ${open} %}${inner}{% end${open.split(' ')[0]} %}`),
}));

const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('{{ b }}', '{% if true %}x{% endif %}', '<script>', '\ue0000\ue001', '', null, true, -0, 1e21),
    fc.string({ maxLength: 20 }),
    fc.integer(),
    fc.array(tie('any'), { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('x', 'a', 'constructor', 'toString', 'length'), tie('any'), { maxKeys: 3 }),
  ),
})).any;
const variables = fc.dictionary(fc.constantFrom('a', 'b', 'list', 'o', 'a_html', 'i', 'content'), value, {
  maxKeys: 6,
});

/** Text that only internals could print. */
const SECRETS = /native code|function |\[object |process\.|node:/;

function fill(mail: Partial<MailToRender>) {
  const started = runningMs();
  const result = render({ variables: {}, accountVariables: {}, keepMissing: false, deriveText: true, ...mail });
  assert.ok(runningMs() - started < BOUND_MS, `took ${runningMs() - started} ms: ${JSON.stringify(mail)}`);
  return result;
}

test('random templates with random values end soon, never throw, and print only given values', () => {
  const before = Object.getOwnPropertyNames(Object.prototype).join();
  let filled = 0;
  fc.assert(
    fc.property(source, source, variables, fc.boolean(), (html, text, values, keepMissing) => {
      const given = JSON.stringify([html, text, values]);
      const first = fill({ html, text, subject: text, variables: values, keepMissing });
      assert.equal(JSON.stringify([html, text, values]), given, 'the input is not changed');
      if (first.ok) filled += 1;
      if (first.ok && !SECRETS.test(given)) {
        for (const part of [first.value.html, first.value.text, first.value.subject])
          assert.doesNotMatch(part ?? '', SECRETS);
      }
      if (!first.ok) assert.match(first.failure.code, /^(TEMPLATE_INVALID|INVALID_REQUEST)$/);
      assert.equal(Object.getOwnPropertyNames(Object.prototype).join(), before);
    }),
    { numRuns: 1_500, interruptAfterTimeLimit: 20_000 },
  );
  assert.equal(({} as { x?: unknown }).x, undefined);
  assert.ok(filled > 200, `only ${filled} templates were valid enough to render`);
});

test('a value is never expanded, wherever it appears', () => {
  const hostile = fc.constantFrom(
    '{{ secret }}',
    '{% if true %}{{ secret }}{% endif %}',
    '{{ content }}',
    '{{"secret"}}',
  );
  const place = fc.constantFrom(
    '{{ a }}',
    '{{ a | raw }}',
    '{{ a_html }}',
    '{% assign z = a %}{{ z }}',
    '{% for i in list %}{{ i }}{% endfor %}',
    '{% capture c %}{{ a }}{% endcapture %}{{ c | raw }}',
  );
  fc.assert(
    fc.property(hostile, fc.array(place, { minLength: 1, maxLength: 4 }), (evil, places) => {
      const values = { a: evil, a_html: evil, list: [evil], secret: 'LEAKED' };
      const sources = inLayout(
        { subject: null, html: places.join(''), text: null },
        { subject: null, html: '<p>{{ content }}</p>', text: null },
      );
      assert.ok(sources.ok);
      const result = fill({ html: sources.value.html!, variables: values });
      assert.ok(result.ok, JSON.stringify(result));
      assert.doesNotMatch(`${result.value.html}${result.value.text}`, /LEAKED/);
    }),
    { numRuns: 500 },
  );
});

test('rendering a cached template gives the same result as the first time', () => {
  fc.assert(
    fc.property(source, variables, (html, values) => {
      const once = fill({ html, variables: values });
      const again = fill({ html, variables: values });
      assert.deepEqual(again, once, 'the cached rendering equals the first one');
    }),
    { numRuns: 500, interruptAfterTimeLimit: 15_000 },
  );
});

test('declarations never invent, lose, or change a given value', () => {
  const declared = fc.uniqueArray(
    fc.record({
      name: fc.constantFrom('a', 'b', 'list', 'o', 'constructor', 'toString', 'company'),
      type: fc.constantFrom(
        'string' as const,
        'number' as const,
        'boolean' as const,
        'array' as const,
        'object' as const,
      ),
      required: fc.boolean(),
    }),
    { selector: (one) => one.name },
  );
  fc.assert(
    fc.property(declared, variables, (list, values) => {
      const settled = applyDeclarations(list, values, { company: 'c' });
      for (const [key, given] of Object.entries(values)) assert.equal(settled.variables[key], given);
      for (const one of settled.missing) assert.ok(!Object.hasOwn(values, one) || values[one] === null);
      for (const one of settled.optional) assert.ok(!Object.hasOwn(values, one) || values[one] === null);
      assert.equal(settled.missing.includes('company'), false);
    }),
    { numRuns: 1_000 },
  );
});

test('two million braces are cheap to parse, whatever is between them', () => {
  const units = [
    '{',
    '}',
    '{{',
    '}}',
    '{%',
    '%}',
    '{{}}',
    '{%%}',
    '{{a',
    '{{ "',
    "{{ '",
    '{{{{a}}}}',
    '{% if',
    '{%raw%}',
    '{{-',
    '-}}',
    '{{#with}}',
  ];
  for (const unit of units) {
    const text = unit.repeat(2_000_000 / unit.length);
    const started = runningMs();
    render({ text, html: text, variables: {}, accountVariables: {}, keepMissing: true, deriveText: false });
    const tookMs = runningMs() - started;
    // 200 ms on an idle machine (both parts), five times that on a busy one.
    assert.ok(tookMs < 1_000, `${unit} took ${tookMs} ms`);
  }
});
