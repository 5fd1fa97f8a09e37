/** Limits of one rendering: total text, time, and HTML converted to text. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { againIfPaused, runningMs } from '../../test/kit/running-time.ts';
import { htmlToText } from '../mail/html/html-text.ts';
import { Budget, MAX_OUTPUT_LENGTH } from './context.ts';
import { createRender, type MailToRender } from './templates.ts';

let reduced = 0;
const render = createRender((html) => {
  reduced += 1;
  return htmlToText(html);
});

function fill(mail: Partial<MailToRender>) {
  return render({ variables: {}, accountVariables: {}, keepMissing: false, deriveText: true, ...mail });
}

function refused(mail: Partial<MailToRender>) {
  const result = fill(mail);
  assert.ok(!result.ok, 'was expected to be rejected');
  assert.equal(result.failure.code, 'TEMPLATE_INVALID');
  return result.failure.details;
}

const long = (character: string): string => character.repeat(50_000);

// If the process is paused, half of the rendering time passes without work.
test('repeated output stops at the limit, plain or in Liquid, before it is escaped', () =>
  againIfPaused(async () => endsAtTheBound()));

function endsAtTheBound(): void {
  for (const [name, mail] of Object.entries({
    escaped: { html: '{{a}}'.repeat(1_000), variables: { a: long('<') } },
    plain: { text: '{{a}}'.repeat(1_000), variables: { a: long('x') } },
    'in a list': { text: '{{a}}'.repeat(1_000), variables: { a: [long('x')] } },
    'in a loop': { html: '{% for i in (1..9000) %}{{a}}{% endfor %}', variables: { a: long('x') } },
    'in an echo': { text: '{% for i in (1..9000) %}{% echo a %}{% endfor %}', variables: { a: long('x') } },
    'in a cycle': { text: '{% for i in (1..9000) %}{% cycle a, a %}{% endfor %}', variables: { a: long('x') } },
    literally: { text: `{% for i in (1..9000) %}${long('x')}{% endfor %}` },
    captured: { text: `{% capture c %}{% for i in (1..9000) %}${long('x')}{% endfor %}{% endcapture %}{{ c.size }}` },
  })) {
    const [issue, ...more] = refused(mail);
    assert.match(
      issue!.message,
      /^produces too much text: more than 10000000 characters|^takes longer than 50 ms/,
      name,
    );
    assert.deepEqual(more, [], name);
  }
}

test('all parts share the output limit, and output at the limit is rendered', () => {
  const variables = { a: 'x'.repeat(MAX_OUTPUT_LENGTH / 2 - 10), b: 'y'.repeat(10) };
  assert.equal(fill({ html: '{{a}}{{b}}', text: '{{a}}{{b}}', variables }).ok, true);
  const issues = refused({ subject: '{{b}}', html: '{{a}}{{b}}', text: '{{a}}{{b}}', variables });
  assert.deepEqual(
    issues.map((issue) => issue.field),
    ['text'],
  );
  const derived = fill({ html: '<p>{{a}}{{a}}</p>', variables: { a: 'x'.repeat(200_000) } });
  assert.ok(derived.ok && derived.value.text!.length <= 262_144, 'derived text has the limit of the HTML');
});

test('the time limit is checked before each property access', (t) => {
  const asked = t.mock.method(Budget.prototype, 'checkTime');
  assert.equal(fill({ html: '{{a.size.x}}'.repeat(10), variables: { a: { b: 1 } }, keepMissing: true }).ok, true);
  assert.ok(asked.mock.callCount() >= 10, `${asked.mock.callCount()} times`);
});

test('plain variables are subject to the time limit', () => {
  const a = Array.from({ length: 200_000 }, () => '');
  const started = runningMs();
  assert.match(refused({ html: '{{a}}'.repeat(7_000), variables: { a } })[0]!.message, /takes longer than 50 ms/);
  assert.ok(runningMs() - started < 3_000);
});

test('the time limit is reported identically inside and outside of blocks', () => {
  const list = Array.from({ length: 300 }, (_, x) => ({ x }));
  const tag = '{{ a | map: "x" | uniq | size }}{{ a | map: "x" | sort | join | size }}';
  const [issue] = refused({ text: tag.repeat(480), variables: { a: list } });
  assert.match(issue!.message, /takes longer than 50 ms|produces too much text/);
  // About ten times the limit on a fast machine.
  const long = Array.from({ length: 2_000 }, (_, x) => ({ x: (x * 7) % 1_999 }));
  const [slow] = refused({ text: '{{ a | sort: "x" | first | size }}'.repeat(1_000), variables: { a: long } });
  assert.match(slow!.message, /takes longer than 50 ms|produces too much text/);
});

test('an HTML value is converted to text once per rendering', () => {
  const a_html = '<p>word</p>'.repeat(12_000);
  assert.ok(a_html.length > 100_000);
  reduced = 0;
  const result = fill({ text: '{{a_html}}'.repeat(20), variables: { a_html } });
  assert.ok(result.ok, JSON.stringify(result));
  assert.equal(reduced, 1);
});
