/** Syntax of other template languages and of rich-text editors: each is rejected with its replacement and position. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseUncached } from './parse.ts';

const FOREIGN: [source: string, hint: RegExp][] = [
  ['{{#if a}}x{{/if}}', /Handlebars.*\{% if name %\}/],
  ['{{~#if a}}x{{/if}}', /Handlebars.*\{% if name %\}/],
  ['{{#unless a}}x{{/unless}}', /\{% unless name %\}/],
  ['{{#each items}}x{{/each}}', /\{% for item in list %\}/],
  ['{{#with a}}x{{/with}}', /write the path/],
  ['{{#items}}x{{/items}}', /Mustache.*\{% for item in name %\}/],
  ['{{/if}}', /\{% endif %\}/],
  ['{{^a}}x{{/a}}', /\{% unless name %\}/],
  ['{% if a %}x{{else}}y{% endif %}', /\{% else %\}/],
  ['{{{a}}}', /\{\{ name \| raw \}\}/],
  ['{{& a}}', /\{\{ name \| raw \}\}/],
  ['{{> header}}', /layoutTemplateId/],
  ['{{! note }}', /\{% comment %\}/],
  ['{{!-- note --}}', /\{% comment %\}/],
  ['{{ @index }}', /forloop\.index0/],
  ['{{ ../a }}', /write name/],
  ['{{ if .Name }}x{{ end }}', /Go templates/],
  ['{{ end }}', /Go templates/],
  ['{{ range .Items }}', /Go templates/],
  ['{{ a || "b" }}', /\| default/],
  ['{% if a || b %}x{% endif %}', /write or instead/],
  ['{% if a && b %}x{% endif %}', /write and instead/],
  ['{% if !a %}x{% endif %}', /not name/],
  ['{% if a and !b %}x{% endif %}', /not name/],
  ['{% if a === 5 %}x{% endif %}', /write == or !=/],
  ['{% if a = 5 %}x{% endif %}', /write == to compare/],
  ['{% if a is defined %}x{% endif %}', /name == nil/],
  ['{% if a in b %}x{% endif %}', /list contains item/],
  ['{% if a gt 5 %}x{% endif %}', /write ==, !=, >/],
  ['{% if a <> 5 %}x{% endif %}', /write != instead/],
  ['{% if (a and b) or c %}x{% endif %}', /no parentheses/],
  ['{% if a %}x{% else if b %}y{% endif %}', /\{% elsif … %\}/],
  ['{% if a %}x{% elif b %}y{% endif %}', /\{% elsif … %\}/],
  ['{% if a %}x{% elseif b %}y{% endif %}', /\{% elsif … %\}/],
  ['{% if a %}x{% end %}', /\{% endif %\} or \{% endfor %\}/],
  ['{% for a of b %}x{% endfor %}', /\{% for item in list %\}/],
  ['{% foreach a in b %}x{% endforeach %}', /\{% for item in list %\}/],
  ['{% set a = 1 %}', /\{% assign name = value %\}/],
  ['{% include "x" %}', /layoutTemplateId/],
  ['{% extends "x" %}', /layoutTemplateId/],
  ['{% csrf_token %}', /no tag csrf_token/],
  ['{% If a %}x{% EndIf %}', /lower case: if/],
  ['{% endif %}', /closes nothing/],
  ['{{ a ? "x" : "y" }}', /\? : operator/],
  ['{{ a ?? "x" }}', /\| default/],
  ['{{ a + 1 }}', /\| plus/],
  ['{{ a - 1 }}', /\| minus/],
  ['{{ a * 2 }}', /\| times/],
  ['{{ a / 2 }}', /\| divided_by/],
  ['{{ a % 2 }}', /\| modulo/],
  ['{{ a ~ b }}', /\| append/],
  ['{{ $name }}', /no \$/],
  ['{{ name() }}', /no functions/],
  ['{{ a | date("Y") }}', /after a colon/],
  ['{{ a | upper }}', /write upcase/],
  ['{{ a | safe }}', /write raw/],
  ['{{ a | e }}', /always escaped/],
  ['{{ a | no_such }}', /no filter no_such/],
  ['{{ name; }}', /semicolon/],
  ['{{ a = 5 }}', /\{% assign name = value %\}/],
  ['{{ }}', /no name/],
  ['{{ first name }}', /several names/],
  ['{{&nbsp;a }}', /&nbsp; inside the tag; write a space/],
  ['{% if a &gt; 5 %}x{% endif %}', /&gt; inside the tag; write >/],
  ['{{ a | default: &quot;x&quot; }}', /&quot; inside the tag; write "/],
  ['{{ <b>name</b> }}', /HTML element/],
  ['{{ name</span> }}', /HTML element/],
  ['{{ name | default: “you” }}', /straight ones/],
  ['{% if a == ‘x’ %}x{% endif %}', /straight ones/],
];

test('rejects the syntax of other languages with its replacement', () => {
  for (const [source, hint] of FOREIGN) {
    const parsed = parseUncached(`first line\n ${source}`, 'html');
    assert.equal(parsed.ok, false, source);
    assert.match(parsed.issue.message, /^has an invalid tag \{[{%].*: /, source);
    assert.match(parsed.issue.message, hint, source);
    assert.equal(parsed.issue.line, 2, source);
    assert.ok(parsed.issue.column! >= 2, source);
  }
});

test('names of inherited properties get the message of any other unknown name', () => {
  for (const name of ['toString', 'constructor', 'valueOf', 'hasOwnProperty', '__proto__']) {
    for (const [source, message] of [
      [`{{ "a" | ${name} }}`, `there is no filter ${name}; docs/guides/templates.md lists the filters`],
      [`{{ a &${name}; b }}`, `it has the HTML entity &${name}; inside the tag; write the character itself`],
      [
        `{% ${name} %}`,
        name === '__proto__' || name === name.toLowerCase()
          ? `there is no tag ${name}; `
          : 'write tags in lower case: ',
      ],
    ] as const) {
      const parsed = parseUncached(source, 'html');
      assert.equal(parsed.ok, false, source);
      assert.ok(parsed.issue.message.includes(message), parsed.issue.message);
      assert.ok(!parsed.issue.message.includes('native code'), parsed.issue.message);
    }
  }
});

test('Liquid that resembles another language parses', () => {
  const sources = [
    '{{ "a || b && c ? d : e" }}',
    "{{ 'He said “hi” &amp; <b>left</b>; 1 + 1' }}",
    '“{{ name }}” &gt; {{ a | append: "&gt;" }}',
    '{% if not a and b contains "x" %}x{% elsif c != 5 %}y{% else %}z{% endif %}',
    '{% unless a %}x{% endunless %}{% case a %}{% when 1, 2 %}x{% else %}y{% endcase %}',
    '{% for i in (1..3) %}{{ forloop.index }}{% else %}none{% endfor %}',
    '{{ user.first_name | default: "you" | capitalize }} {{ ends }} {{ elsewhere }} {{ first-name }}',
    '{% raw %}{{#if a}}{{{b}}}{{/if}}{% endraw %}',
    '{% comment %}{{#if a}}{% endcomment %}',
    '{% # it’s a comment %}',
    '{% comment %} it’s fine {% endcomment %}',
  ];
  for (const source of sources) {
    const parsed = parseUncached(source, 'html');
    assert.ok(parsed.ok, `${source}: ${parsed.ok || parsed.issue.message}`);
  }
});
