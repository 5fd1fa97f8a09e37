/** Resend sources in Postrider's template language: variables are inserted unescaped, and nothing else is expanded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { fromLiquid, toLiquid } from './resend.ts';

test('variables become outputs, and other braces are text', () => {
  assert.equal(toLiquid('<b>{{{NAME}}}</b>', 'html'), '<b>{{ NAME | raw }}</b>');
  assert.equal(toLiquid('Hi {{{ NAME }}}', 'text'), 'Hi {{ NAME }}');
  assert.equal(toLiquid('{{ x }} {% y %}', 'html'), '{% raw %}{{{% endraw %} x }} {% raw %}{%{% endraw %} y %}');
  assert.equal(toLiquid('{ no } }} %}', 'html'), '{ no } }} %}');
});

/** Returns the source with `{{{ NAME }}}` written as `{{{NAME}}}`, reading braces from left to right. */
const withoutSpaces = (source: string): string =>
  source.replace(/\{\{\{\s*([A-Za-z_]\w*)\s*\}\}\}|\{\{|\{%/g, (found, name?: string) =>
    name === undefined ? found : `{{{${name}}}}`,
  );

test('every source is restored as written, except spaces in a variable', () => {
  const piece = fc.constantFrom(
    '{',
    '}',
    '%',
    '{{',
    '}}',
    '{{{A}}}',
    '{{{B_1}}}',
    '{%',
    '%}',
    'raw',
    ' ',
    '<p>',
    '{{ A }}',
    'é',
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 12 }),
      fc.constantFrom('html' as const, 'text' as const),
      (pieces, kind) => {
        const source = pieces.join('');
        assert.equal(fromLiquid(toLiquid(source, kind), kind), withoutSpaces(source));
      },
    ),
    { numRuns: 1_000 },
  );
});
