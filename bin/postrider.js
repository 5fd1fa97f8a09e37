#!/usr/bin/env node
// The entry point of the program. If the caller's Node is older than 26, runs src/main.ts with the Node 26 that npm installed with
// Postrider. Exits with an error if neither is available.
//
// In a checkout it runs the TypeScript sources directly; a copy of it in the build (scripts/build.ts) runs that. Compiled code is cached in
// node_modules/.cache for all threads, so later starts are faster and use less memory.
import { spawn } from 'node:child_process';
import module from 'node:module';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// By default SIGUSR1 starts Node's debugger and SIGUSR2 ends the process. A service ignores both.
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => undefined);

/** Returns the Node that npm installed as an optional dependency, below this package or next to it in a project that depends on it. */
function installedNode() {
  const { resolve } = module.createRequire(import.meta.url);
  const isWindows = process.platform === 'win32';
  const platform = `${isWindows ? 'win' : process.platform}-${process.arch}`;
  for (const name of [`node-${platform}`, `node-bin-${platform}`]) {
    try {
      return path.join(path.dirname(resolve(`${name}/package.json`)), 'bin', isWindows ? 'node.exe' : 'node');
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return undefined;
}

const isRecent = Number(process.versions.node.split('.')[0]) >= 26;
const installed = isRecent ? undefined : installedNode();
if (isRecent) {
  // The variable is for the threads, which read it when they start.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('../node_modules/.cache/postrider', import.meta.url));
  module.enableCompileCache(process.env.NODE_COMPILE_CACHE);
  // RSA signatures run in Node's thread pool. With four threads on two cores most threads sleep, and waking one per signature costs the
  // main thread nearly half the time of a signature (docs/explanation/performance.md).
  process.env.UV_THREADPOOL_SIZE ??= String(Math.max(2, Math.min(4, availableParallelism())));
  await import('../src/main.ts');
} else if (installed) {
  const child = spawn(installed, ['--disable-sigusr1', fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
} else {
  console.error(`postrider needs Node 26 or newer; this is ${process.version}. Run npm ci, or install Node 26.`);
  process.exit(1);
}
