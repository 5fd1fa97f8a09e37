/** The measures of functions are right. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { functionSizes, longFunctions } from './size-rules.ts';

test('control: functions are measured with and without those inside them', () => {
  const text = [
    "const é = 'two units: 😀';",
    'export function outer(): void {',
    '  const inner = (): number => {',
    '    return 1;',
    '  };',
    '  [1].map((one) => {',
    '    return one;',
    '  });',
    '  const short = () => inner();',
    '}',
    'class Some {',
    '  #method(): void {',
    '  }',
    '}',
  ].join('\n');
  const sizes = functionSizes({ path: 'src/x/x.ts', text }).map(
    ({ name, line, ownLines, scopeLines }) => `${line} ${name} ${ownLines} ${scopeLines}`,
  );
  assert.deepEqual(sizes, ['2 outer 7 9', '3 inner 3 3', '6 (anonymous) 3 3', '9 short 1 1', '12 method 2 2']);
  const body = (lines: number): string => `function long() {\n${'  x();\n'.repeat(lines - 2)}}\n`;
  assert.deepEqual(longFunctions([{ path: 'a.ts', text: body(60) }]), []);
  assert.equal(longFunctions([{ path: 'a.ts', text: body(61) }]).length, 1);
});
