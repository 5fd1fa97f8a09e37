/**
 * Runs everything that must pass before a change is merged: types, format and lint, dead code, generated documents, OpenAPI rules, tests
 * (including the house rules). Runs all steps even if one fails, prints the duration of each, and fails at the end. `--without-tests` skips
 * the tests.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';

const root = path.dirname(import.meta.dirname);
const tool = (name: string): string => path.join(root, 'node_modules', '.bin', name);

interface Step {
  name: string;
  command: string;
  args: string[];
}

const steps: Step[] = [
  { name: 'types', command: tool('tsc'), args: ['--noEmit'] },
  { name: "the portal's types", command: tool('tsc'), args: ['-p', 'portal'] },
  { name: 'format and lint', command: tool('biome'), args: ['check', '.'] },
  { name: 'dead code', command: tool('knip'), args: [] },
  { name: 'generated documents', command: process.execPath, args: ['scripts/generate-docs.ts', '--check'] },
  { name: 'OpenAPI', command: tool('redocly'), args: ['lint', 'docs/openapi.json', '--format', 'stylish'] },
];
if (!process.argv.includes('--without-tests')) {
  steps.push({ name: 'tests', command: process.execPath, args: ['scripts/test.ts'] });
}

// Otherwise Redocly checks the registry for a newer version.
const env = { ...process.env, REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
const results = steps.map((step) => {
  console.log(`\n── ${step.name}`);
  const startedAt = performance.now();
  const { status, error } = spawnSync(step.command, step.args, {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (error) console.error(`${step.name} could not run: ${error.message}`);
  return { name: step.name, ok: status === 0, seconds: (performance.now() - startedAt) / 1000 };
});

console.log('');
for (const { name, ok, seconds } of results) {
  console.log(`${ok ? 'ok    ' : 'FAILED'}  ${name.padEnd(22)} ${seconds.toFixed(1).padStart(6)} s`);
}
const failed = results.filter((one) => !one.ok).length;
console.log(`steps: ${results.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
