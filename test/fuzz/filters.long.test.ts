/**
 * Every filter and operator with lists and texts of hostile size and shape: none blocks the event loop for more than 100 ms. CPU time of
 * the thread is measured, since the machine may be busy, and the fastest of a few runs counts, since garbage collection and a cold cache
 * interfere. A Liquid filter or operator without a test fails by name.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultOperators, Liquid } from 'liquidjs';
import { htmlToText } from '../../src/mail/html/html-text.ts';
import { Budget, CHECK_EVERY } from '../../src/templates/context.ts';
import { FILTERS, limitOperators } from '../../src/templates/filters.ts';

import { createRender, threadTimeMs } from '../../src/templates/templates.ts';

const BOUND_MS = 100;
const MOST_RUNS = 5;
const render = createRender(htmlToText);

const texts = (count: number): string[] => Array.from({ length: count }, (_, i) => `Ab ${i}`);
const objects = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ x: `v${i}`, n: i % 9, deep: [[`d${i}`]] }));

/** The maximum of a request: 16 MB, and 100,000 values in total. */
const values: Record<string, unknown> = {
  few: texts(9_900),
  many: texts(90_000),
  rows: objects(9_900),
  many_rows: objects(20_000),
  nested: Array.from({ length: 300 }, () => texts(300)),
  members: Object.fromEntries(texts(90_000).map((name) => [name, 1])),
  big_texts: Array.from({ length: 15 }, (_, i) => `${i}`.repeat(500_000)),
  a: 'a'.repeat(199_000),
  long: 'a'.repeat(2_000_000),
  markup: '<'.repeat(24_000),
  sought: `${'a'.repeat(100)}b${'a'.repeat(99)}`,
};

const INPUTS = [
  'few',
  'many',
  'rows',
  'many_rows',
  'nested',
  'members',
  'big_texts',
  'a',
  'long',
  'markup',
  '(1..9999)',
  '(1..4900000)',
  '(-4900000..1)',
  '(1..nested)',
];

/** Declarations before a filter under test. */
const BEFORE = ['', '| split: "" ', '| push: nested | concat: few ', '| group_by: "x" | map: "items" '];

function argumentsOf(name: string): string[] {
  if (name.endsWith('_exp'))
    return ['"i", "i > 1"', '"i", "(1..9999) contains i"', '"i", "i | where_exp: \'j\', \'j\'"'];
  return ['', '"x"', '"deep", nested', 'sought, "b"', '1, 150000', 'a', 'few', '"latin"', 'nested, nested'];
}

/** CPU time of one rendering, and whether it was rejected. */
function run(html: string): { ms: number; said: string | undefined } {
  const began = threadTimeMs();
  const result = render({ html, variables: values, accountVariables: {}, keepMissing: false, deriveText: true });
  const ms = threadTimeMs() - began;
  if (result.ok) return { ms, said: undefined };
  assert.match(result.failure.code, /^(TEMPLATE_INVALID|INVALID_REQUEST)$/);
  return { ms, said: result.failure.details[0]!.message };
}

function assertBounded(html: string): void {
  const runs = [run(html)];
  while (runs.length < MOST_RUNS && runs.at(-1)!.ms > BOUND_MS) runs.push(run(html));
  const ms = Math.min(...runs.map((one) => one.ms));
  assert.ok(ms <= BOUND_MS, `${ms} ms: ${html.slice(0, 300)} (${runs[0]!.said})`);
}

test('every Liquid filter and operator is covered', () => {
  assert.deepEqual(
    Object.keys(new Liquid().filters).filter((name) => !FILTERS.has(name)),
    [],
  );
  const bounded = limitOperators();
  assert.deepEqual(
    Object.keys(defaultOperators).filter((name) => !(name in bounded)),
    [],
  );
});

test('every filter is bounded, once and in a loop, for any input', () => {
  for (const [place, name] of [...FILTERS.keys()].entries()) {
    const all = argumentsOf(name);
    for (const [index, input] of INPUTS.entries()) {
      // The inputs share the arguments, so that each filter gets all combinations.
      const args = all[(place + index) % all.length]!;
      assertBounded(`{{ ${input} | ${name}${args === '' ? '' : `: ${args}`} | size }}`);
      const before = BEFORE[(place + index) % BEFORE.length]!;
      assertBounded(`{{ ${input} ${before} | ${name}: "x" | size }}`);
    }
    for (const input of ['few', 'a'])
      assertBounded(`{% for k in (1..9999) %}{{ ${input} | ${name}: ${all[1]} }}{% endfor %}`);
  }
});

test('every operator is bounded for any operands', () => {
  for (const operator of Object.keys(limitOperators())) {
    for (const left of INPUTS) {
      for (const right of ['nested', 'a', 'sought']) {
        const condition = operator === 'not' ? `not ${left}` : `${left} ${operator} ${right}`;
        assertBounded(`{% for k in (1..${left === right ? 9999 : 1}) %}{% if ${condition} %}x{% endif %}{% endfor %}`);
      }
    }
  }
});

test('all other loops, texts, and names in a template are bounded', () => {
  const doubled = `{% assign a = "a b" | split: " " %}${'{% assign a = a | push: a %}'.repeat(60)}`;
  const ends = [
    '{{ a }}',
    '{{ rows[a] }}',
    '{{ (1..a) | size }}',
    '{% if a > 1 %}{% endif %}',
    '{{ a | join }}',
    '{{ [a] }}',
  ];
  for (const source of [
    ...ends.map((end) => `${doubled}${end}`),
    `${doubled}{% for i in few limit: a %}{% endfor %}`,
    `${doubled}{% tablerow i in few cols: a %}{% endtablerow %}`,
    `${doubled}{% cycle a: 1, 2 %}`,
    `{% assign s = "x" %}${'{% assign s = s | append: s %}'.repeat(60)}{{ s }}`,
    '{% for i in (1..9999) %}{% capture c %}{{ c }}{{ i }}{% endcapture %}{% endfor %}',
    '{% for i in (1..9999) %}{% for j in (1..9999) %}{% for k in (1..9999) %}{% endfor %}{% endfor %}{% endfor %}',
    '{% tablerow i in (1..9999) %}{% tablerow j in many %}{% endtablerow %}{% endtablerow %}',
    '{% tablerow i in few cols: big_texts %}{% endtablerow %}',
    '{% tablerow i in few cols: long %}{% endtablerow %}',
    '{% for i in members %}{{ i }}{% endfor %}',
    '{% for i in (1..9999) %}{{ members.size }}{{ many_rows.size.x }}{% endfor %}',
    '{% for i in (1..9999) %}{% for j in many reversed limit: 1 %}{% endfor %}{% endfor %}',
    `{% for i in (1..9999) %}{% case i %}{% when ${'0,'.repeat(3_000)}0 %}{% endcase %}{% endfor %}`,
    `{% for i in (1..9999) %}{% cycle ${'a,'.repeat(99)}a %}{% endfor %}`,
    '{% assign r = (1..10000) %}'.repeat(1_700),
    '{{ (9007199254740992..9007199254740999) | size }}{{ ("1e400"..2) | size }}',
    '{% assign r = (9000000..1) %}{% for i in (1..9000000) %}{% endfor %}',
    '{{ few }}'.repeat(5_000),
    '{{ long }}{{ long | escape }}{{ long | newline_to_br }}',
    `{{ rows | sort: "x" | size }}`.repeat(1_500),
  ]) {
    assertBounded(source);
  }
});

test('parsing is bounded', () => {
  const filled = (unit: string, open = '{{ a', close = ' }}') =>
    `${open}${unit.repeat((7_900 - open.length) / unit.length)}${close}`;
  const most = (tag: string) => tag.repeat(Math.floor(49_900 / tag.length));
  for (const source of [
    most('{{a}}'),
    most(filled('|abs')),
    most(filled('|map:a')),
    most(filled('.a')),
    most(filled('[a]')),
    most(filled(' or a', '{% if a', '%}{% endif %}')),
    most(filled('0,', '{% case 1 %}{% when ', '0 %}{% endcase %}')),
    most(filled('\necho a', '{% liquid ', '%}')),
    most(filled('a,', '{% cycle ', 'a %}')),
    '{% raw %}x{% endraw %}'.repeat(4_900),
    `{% raw %}${'{%'.repeat(9_000)}${'x'.repeat(1_900_000)}`,
    `{% comment %}${'{{'.repeat(9_000)}`,
    `${'\n'.repeat(1_990_000)}{{ a | nope }}`,
    '{{ '.repeat(9_999),
    '{'.repeat(2_000_000),
    `${'x'.repeat(1_900_000)}{{`,
    '{% if a %}'.repeat(4_900),
  ]) {
    assertBounded(source);
  }
});

test('work between two clock checks never exceeds the budget of one filter', (t) => {
  let unasked = 0;
  let most = 0;
  const { work, checkTime } = Budget.prototype;
  t.after(() => Object.assign(Budget.prototype, { work, checkTime }));
  Budget.prototype.work = function (units) {
    unasked += units;
    most = Math.max(most, unasked);
    work.call(this, units);
  };
  Budget.prototype.checkTime = function () {
    unasked = 0;
    checkTime.call(this);
  };
  for (const name of FILTERS.keys()) {
    const [, args] = argumentsOf(name);
    unasked = 0;
    run(`{% for k in (1..20) %}{{ few | ${name}: ${args} }}{{ a | ${name} }}{% endfor %}`);
  }
  assert.ok(most > CHECK_EVERY, 'work is counted');
  // The input of a call is counted immediately, and its output is about as much again.
  assert.ok(most <= CHECK_EVERY + 400_000, `${most} units of work without a check`);
});
