#!/usr/bin/env node
// The program's entry. Runs src/main.ts under the Node 26 that the package brings along when the caller's own Node is
// older; refuses with one clear line when neither is there.
//
// The sources are TypeScript that Node runs as it is. What it makes of them is kept beside the dependencies, for every
// thread, so that only the first start pays for it: 0.4 s instead of 0.65 s, and 45 MB less resident memory.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

// Node opens its debugger at SIGUSR1, and SIGUSR2 ends a process. A service ignores both.
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => undefined);

const bundled = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
if (Number(process.versions.node.split('.')[0]) >= 26) {
  // The variable is for the threads, which read it when they start.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/postrider', import.meta.url));
  module.enableCompileCache(process.env.NODE_COMPILE_CACHE);
  // Node's pool makes the RSA signatures. With four threads on two cores most of them sleep, and to wake one for each signature costs
  // the serving thread nearly half of what a signature takes (docs/explanation/performance.md).
  process.env.UV_THREADPOOL_SIZE ??= String(Math.max(2, Math.min(4, availableParallelism())));
  await import('../src/main.ts');
} else if (existsSync(bundled)) {
  const child = spawn(bundled, ['--disable-sigusr1', fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
} else {
  console.error(`postrider needs Node 26 or newer; this is ${process.version}. Run npm ci, or install Node 26.`);
  process.exit(1);
}
