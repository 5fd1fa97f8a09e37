/** Functions are short, and so are their scopes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { functionSizes, longFunctions } from './size-rules.ts';
import { productFiles } from './source-tree.ts';

/** Functions that are still too long, with the lines of their scopes. Entries may not be added, and numbers may not grow. */
const STILL_LONG: Record<string, number> = {
  domainRoutes: 124,
};

test('functions have at most 80 lines, or 120 with nested ones', () => {
  const tooLong = longFunctions(productFiles()).filter((one) => one.scopeLines > (STILL_LONG[one.name] ?? 0));
  assert.deepEqual(tooLong, []);
});

test('control: functions are measured with and without nested ones', () => {
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
  assert.deepEqual(longFunctions([{ path: 'a.ts', text: body(80) }]), []);
  assert.equal(longFunctions([{ path: 'a.ts', text: body(81) }]).length, 1);
});
