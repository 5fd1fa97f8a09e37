/** Filters that differ from those of Liquid, errors of filters, and the table of filters in the documentation. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseExactJson } from '../base/exact-json.ts';
import { htmlToText } from '../mail/html/html-text.ts';
import { FILTERS } from './filters.ts';
import { liquidFor } from './parse.ts';
import { createRender } from './templates.ts';

const render = createRender(htmlToText);

function fill(text: string, variables: Readonly<Record<string, unknown>> = {}) {
  return render({ text, variables, accountVariables: {}, keepMissing: false, deriveText: false });
}

function filled(text: string, variables: Readonly<Record<string, unknown>> = {}) {
  const result = fill(text, variables);
  assert.ok(result.ok, `${text}: ${JSON.stringify(result)}`);
  return result.value;
}

function issueOf(text: string, variables: Readonly<Record<string, unknown>> = {}) {
  const result = fill(`first line\n ${text}`, variables);
  assert.ok(!result.ok, `${text} was expected to be rejected`);
  assert.equal(result.failure.code, 'TEMPLATE_INVALID');
  const issue = result.failure.details[0]!;
  assert.deepEqual([issue.line, issue.column], [2, 2], text);
  assert.match(issue.message, /\(line 2, column 2\)$/);
  return issue.message;
}

/** The arguments that filters require. */
const REQUIRED_ARGUMENTS: Readonly<Record<string, string>> = {
  append: '"x"',
  prepend: '"x"',
  where_exp: '"item", "item > 1"',
  reject_exp: '"item", "item > 1"',
  group_by_exp: '"item", "item > 1"',
  has_exp: '"item", "item > 1"',
  find_exp: '"item", "item > 1"',
  find_index_exp: '"item", "item > 1"',
};

test('the table of the documentation lists the filters that exist', () => {
  const guide = readFileSync(new URL('../../docs/guides/templates.md', import.meta.url), 'utf8');
  const table = /### Filters\n\n((?:\|.*\n)+)/.exec(guide)![1]!;
  const documented = [...table.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
  assert.ok(documented.length > 80, `${documented.length} filters`);
  for (const name of documented) {
    const value = name === 'base64_decode' ? '"YQ=="' : name === 'divided_by' || name === 'modulo' ? '7' : '"2"';
    filled(`{{ ${value} | ${name}: ${REQUIRED_ARGUMENTS[name] ?? '1'} | json }}`);
  }
  documented.sort();
  assert.deepEqual(documented, Object.keys(liquidFor('html').filters).sort());
  assert.deepEqual(documented, [...FILTERS.keys()].sort());
});

test('an unknown time zone is rejected with its position', () => {
  const d = '2026-03-05T12:00:00Z';
  for (const tz of ['Europe/Berlin ', 'Nope/Zone', '', 'toString']) {
    const source = '{{ d | date: "%H", tz }}';
    assert.ok(issueOf(source, { d, tz }).includes(`"${tz}", which is not a time zone`), tz);
  }
  assert.match(issueOf('{% assign h = d | date: "%H", "x" %}{{ h }}', { d }), /not a time zone/);
  assert.match(issueOf('{{ d | date: "%H", 12345678901234567890 }}', { d }), /not a time zone/);
  assert.equal(filled('{{ d | date: "%H", "Europe/Berlin" }} {{ d | date: "%H", -60 }}', { d }).text, '13 13');
});

test('an integer that is too large for a date is printed unchanged', () => {
  const variables = parseExactJson('{ "n": 12345678901234567890 }') as Record<string, unknown>;
  for (const filter of ['date: "%Y"', 'date_to_xmlschema', 'date_to_rfc822', 'date_to_string', 'date_to_long_string'])
    assert.equal(filled(`{{ n | ${filter} }}`, variables).text, '12345678901234567890', filter);
});

test('filters and indexes do not divide a character', () => {
  const n = '😀 Ann 👍';
  for (const [source, expected] of [
    ['{{ n | split: "" | first }}', '😀'],
    ['{{ n | split: "" | join: "|" }}', '😀| |A|n|n| |👍'],
    ['{{ n | split: none | size }}', '7'],
    ['{{ n | split: " " | join: "|" }}', '😀|Ann|👍'],
    ['{{ n | first }}{{ n | last }}', '😀👍'],
    ['{{ "ab" | first }}{{ "ab" | last }}{{ "" | first }}{{ list | first }}{{ list | last }}', 'ab13'],
    ['{{ n[0] }}|{{ n[1] }}|{{ n[3] }}|{{ n[7] }}|{{ n[8] }}|{{ n["3"] }}', '😀||A|👍||A'],
    ['{{ n[0] | append: "|" }}{{ n[1] | append: "|" }}{{ n[3] | append: "|" }}{{ n[7] | append: "|" }}', '😀||A|👍|'],
    ['{% assign last = n.size | minus: 1 %}[{{ n[last] }}]{% assign last = last | minus: 1 %}{{ n[last] }}', '[]👍'],
    ['{% for i in (0..8) %}{{ n[i] }}{% endfor %}', n],
    ['{% if n[0] == "😀" %}yes{% endif %}{% if n[9] %}no{% endif %}', 'yes'],
  ] as const) {
    const { text, missing } = filled(source, { n, list: [1, 2, 3] });
    assert.equal(text, expected, source);
    assert.deepEqual(missing, source.includes('none') ? ['none'] : [], source);
  }
  assert.deepEqual(filled('{{ n[9] }}{{ n[9] | upcase }}', { n }).missing, ['n.9']);
  assert.match(issueOf('{{ n | split: "" }}', { n: 'x'.repeat(30_000) }), /more than 10000 items/);
});

test('a division by zero is rejected with its position', () => {
  const variables = parseExactJson('{ "zero": 0, "n": 12345678901234567890 }') as Record<string, unknown>;
  for (const source of [
    '{{ 10 | divided_by: 0 }}',
    '{{ 10 | divided_by: zero }}',
    '{{ 10 | divided_by: "x" }}',
    '{{ n | modulo: 0 }}',
    '{{ 10 | modulo: 0.0 }}',
  ])
    assert.match(issueOf(source, variables), /^divides by zero with the filter (?:divided_by|modulo); /, source);
  assert.equal(filled('{{ 10 | divided_by: 4 }} {{ 7 | modulo: 4 }} {{ 0 | divided_by: 5 }}').text, '2.5 3 0');
  const { text, missing } = filled('{{ 10 | divided_by: count }}', variables);
  assert.equal(text, '');
  assert.deepEqual(missing, ['count']);
});

test('NaN is never printed', () => {
  assert.equal(filled('{{ a | to_integer | default: "no number" }}', { a: 'abc' }).text, 'no number');
  assert.deepEqual(filled('{{ a | to_integer }}', { a: 'abc' }).missing, []);
  assert.equal(filled('{{ 1 | plus }}').text, '');
});
