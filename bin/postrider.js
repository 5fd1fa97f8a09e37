#!/usr/bin/env node
// The command line's entry. Runs src/main.ts under the Node 26 that the package brings along when the caller's own
// Node is older; refuses with one clear line when neither is there.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const bundled = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
if (Number(process.versions.node.split('.')[0]) >= 26) {
  await import('../src/main.ts');
} else if (existsSync(bundled)) {
  const child = spawnSync(bundled, [main, ...process.argv.slice(2)], { stdio: 'inherit' });
  process.exit(child.status ?? 1);
} else {
  console.error(`postrider needs Node 26 or newer; this is ${process.version}. Run npm ci, or install Node 26.`);
  process.exit(1);
}
