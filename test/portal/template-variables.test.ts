/** The variables that the portal finds in a template, and how it reads and sets their values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathsFound, rootsFound } from '../../portal/src/pages/templates/found.ts';
import { typedValue, valueAt, valuesIn, withValueAt } from '../../portal/src/pages/templates/values.ts';

const found = (html: string, given: string[] = []): Record<string, string> =>
  Object.fromEntries(
    pathsFound({ subject: '', mjml: null, html, text: '' }, given).map(({ path, type }) => [path, type]),
  );

test('finds variables in output, loops, and conditions', () => {
  const table: [html: string, paths: Record<string, string>][] = [
    ['no braces', {}],
    ['{{ name }} {{-name-}} {{ name | upcase }}', { name: 'string' }],
    ['{{ order.number | default: "none" | append: suffix }}', { 'order.number': 'string', suffix: 'string' }],
    ['{% for item in items %}{{ item.name }} {{ forloop.index }}{% endfor %}', { items: 'array' }],
    ['{% for i in (1..count) %}{{ i }}{% endfor %}', { count: 'number' }],
    ['{% if gift %}x{% endif %}', { gift: 'boolean' }],
    ['{% if gift %}{{ gift }}{% endif %}', { gift: 'string' }],
    ['{% if plan == "free" and not old %}x{% endif %}', { plan: 'string', old: 'string' }],
    ['{% unless orders.size %}x{% endunless %}', { 'orders.size': 'boolean' }],
    ['{% assign total = price | times: count %}{{ total }}', { price: 'string', count: 'string' }],
    ['{% capture box %}{{ inner }}{% endcapture %}{{ box }}', { inner: 'string' }],
    ['{% case state %}{% when "a", other %}{% endcase %}', { state: 'string', other: 'string' }],
    ['{% raw %}{{ not_read }}{% endraw %}{% comment %}{{ nor_this }}{% endcomment %}', {}],
    ['{{ company_address_html }}{{ unsubscribe_email_html }}{{ content }}', {}],
    ['{{ order }} {{ order.number }} {{ lines[0].sum }}', { 'order.number': 'string', 'lines[0].sum': 'string' }],
    ['{{ "a.b | c" }} {{ true }} {{ 17 }} {{ open', {}],
  ];
  for (const [html, paths] of table) assert.deepEqual(found(html), paths, html);
  assert.deepEqual(found('{{ slogan }}{{ name }}', ['slogan']), { name: 'string' });
});

test('a variable with properties is an object or a list', () => {
  const paths = pathsFound({ subject: '{{ user.name }}', mjml: null, html: '{{ lines[0].sum }}', text: '{{ code }}' });
  assert.deepEqual(rootsFound(paths), [
    { path: 'user', type: 'object' },
    { path: 'lines', type: 'array' },
    { path: 'code', type: 'string' },
  ]);
});

test('values are set and removed by path, and prototypes are untouched', () => {
  const values = withValueAt(withValueAt({}, 'order.number', 17), 'lines[1].sum', 2);
  assert.deepEqual(values, { order: { number: 17 }, lines: [undefined, { sum: 2 }] });
  assert.equal(valueAt(values, 'order.number'), 17);
  assert.equal(valueAt(values, 'order.other.deep'), undefined);
  assert.equal(valueAt(values, 'constructor.name'), undefined);
  assert.deepEqual(withValueAt({ a: 1, b: 2 }, 'a', undefined), { b: 2 });
  assert.deepEqual(Object.keys(withValueAt({}, '__proto__.polluted', 'x')), ['__proto__']);
  assert.equal(({} as { polluted?: string }).polluted, undefined);
});

test('input is parsed as the declared type, or rejected', () => {
  assert.deepEqual(typedValue('17', 'string'), { value: '17' });
  assert.deepEqual(typedValue('17', 'number'), { value: 17 });
  assert.deepEqual(typedValue('', 'number'), { value: undefined });
  assert.deepEqual(typedValue('[1]', 'array'), { value: [1] });
  for (const [text, type] of [
    ['x', 'number'],
    ['{}', 'array'],
    ['[]', 'object'],
    ['null', 'object'],
    ['{', 'object'],
    ['1', 'boolean'],
  ] as const)
    assert.equal(typedValue(text, type), undefined, text);
  assert.deepEqual(valuesIn(' '), {});
  assert.equal(valuesIn('[]'), undefined);
});
