/**
 * Nondeterminism (time, sockets, disks, threads, randomness) comes from modules of Node. The simulation replaces the parts that the product
 * uses, and blocks the others (test/simulation/replaced-functions.ts). This is the list of files with exceptions, because a simulated node
 * does not run them or they only read at the start. The command line is not part of a node.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DOORS } from '../simulation/replaced-functions.ts';
import { importsOf, productFiles, type SourceFile } from './source-tree.ts';

/** Deterministic modules. */
const PURE = new Set([
  'node:buffer',
  'node:events',
  'node:path',
  'node:stream',
  'node:stream/promises',
  'node:url',
  'node:util',
]);
/** Files with exceptions, by module. */
const AROUND: Readonly<Record<string, readonly string[]>> = {
  // Synchronous access, at the start, by backups, and to files of the program.
  'node:fs': [
    'src/config-values.ts',
    'src/delivery/destinations/providers.ts',
    'src/doctor/certificates.ts',
    'src/doctor/secrets.ts',
    'src/http/guide.ts',
    'src/http/portal.ts',
    'src/net/dns-servers.ts',
    'src/roles/api-examples.ts',
    'src/roles/ports.ts',
    'src/roles/serve.ts',
    'src/smtp/tls-identity.ts',
    'src/storage/data-directory.ts',
    'src/storage/durable-file.ts',
    'src/storage/migrate.ts',
    'src/storage/not-writable.ts',
    'src/storage/portable-file.ts',
    'src/storage/postgres/transfer.ts',
    'src/storage/postgres/url.ts',
    'src/storage/secret-key.ts',
    'src/storage/sqlite/backup.ts',
    'src/storage/sqlite/errors.ts',
    'src/storage/sqlite/log-check.ts',
    'src/users/create.ts',
  ],
  // Also real in the simulation, in its own thread.
  'node:sqlite': [
    'src/storage/blobs/copy.ts',
    'src/storage/data-directory.ts',
    'src/storage/portable-file.ts',
    'src/storage/postgres/transfer.ts',
    'src/storage/sqlite/backup.ts',
    'src/storage/sqlite/connection.ts',
  ],
  // The system's resolver, for localhost and names that an operator configured.
  'node:dns': ['src/net/dns-servers.ts', 'src/net/dns.ts'],
  'node:dns/promises': ['src/net/smtp-connect.ts'],
  // Whether this process has a supervisor.
  'node:cluster': ['src/net/shared-port.ts'],
  'node:https': ['src/doctor/certificates.ts', 'src/doctor/clock.ts'],
  // The folder of package.json, and Node's compile cache.
  'node:module': ['src/base/program-files.ts', 'src/storage/sqlite/thread.ts'],
  'node:os': ['src/audit/origin.ts', 'src/config-values.ts', 'src/roles/ports.ts'],
  'node:v8': ['src/base/collector.ts'],
  'node:vm': ['src/base/collector.ts'],
  'node:zlib': ['src/http/encoding.ts', 'src/http/files.ts', 'src/tls-reports/report.ts'],
  // Functions of modules that the simulation replaces only in part.
  'node:fs/promises access': ['src/doctor/disk.ts'],
  'node:fs/promises statfs': ['src/storage/data-directory.ts'],
  'node:http request': ['src/doctor/certificates.ts', 'src/doctor/clock.ts'],
  'process.getBuiltinModule': ['src/net/node-http.ts'],
  // In the text of sample programs.
  'fetch(': ['src/http/reference/samples.ts'],
  // Node's own timers, which are not replaced.
  'AbortSignal.timeout': [
    'src/acme/acme.ts',
    'src/acme/client.ts',
    'src/doctor/certificates.ts',
    'src/doctor/clock.ts',
    'src/storage/blobs/aws-credentials.ts',
  ],
};
/** Globals that are not replaced. */
const GLOBALS =
  /\bAbortSignal\.timeout\b|(?<![.\w])fetch\(|\bhrtime\b|\bprocess\.uptime\b|\bprocess\.getBuiltinModule\b|\bcrypto\.getRandomValues\b|\bnew (?:WebSocket|MessageChannel|BroadcastChannel)\b/g;

const IMPORT = /^\s*import\s+(?!type\b)([^'";]*?)\sfrom\s+'(node:[\w/]+|\.[\w./-]*\/node-http\.ts)'/gm;

/** Returns `module name` for what a file uses of partly replaced modules without replacement. */
function closedIn({ text }: SourceFile): string[] {
  return [...text.matchAll(IMPORT)].flatMap(([, clause = '', specifier = '']) => {
    // src/net/node-http.ts passes functions of node:http on.
    const module = specifier.endsWith('/node-http.ts') ? 'node:http' : specifier;
    const door = DOORS[module];
    if (!door) return [];
    const [, braces = ''] = /\{([^}]*)\}/.exec(clause) ?? [];
    const named = braces.split(',').map((one) => one.trim().split(' as ')[0]!);
    const whole = /^(?:\* as )?(\w+)/.exec(clause)?.[1];
    const members =
      whole === undefined
        ? []
        : [...text.matchAll(new RegExp(`(?<![\\w.])${whole}\\.(\\w+)`, 'g'))].map((one) => one[1]!);
    const used = [...named.filter((one) => one !== '' && !one.startsWith('type ')), ...members];
    return used.filter((one) => ![...door.replaced, ...door.pure].includes(one)).map((one) => `${module} ${one}`);
  });
}

function detours(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    if (file.path.startsWith('src/cli/')) return [];
    const builtin = importsOf(file).filter(({ specifier, typeOnly }) => specifier.startsWith('node:') && !typeOnly);
    const modules = builtin.map(({ specifier }) => specifier).filter((one) => !(one in DOORS));
    const used = [...modules, ...closedIn(file), ...(file.text.match(GLOBALS) ?? [])];
    return [...new Set(used)]
      .filter((one) => !PURE.has(one) && !AROUND[one]?.includes(file.path))
      .map((one) => `${file.path}: ${one} goes around the doors of the simulation; see docs/decisions/0020`);
  });
}

test('time, sockets, disks, threads, and randomness are used only through simulated modules', () => {
  assert.deepEqual(detours(productFiles()), []);
});

test('no file is exempt without need', () => {
  const files = new Map(productFiles().map((file) => [file.path, file.text]));
  const idle = Object.entries(AROUND).flatMap(([one, paths]) =>
    paths.filter((path) => !files.get(path)?.includes(one.split(' ').at(-1)!)).map((path) => `${path}: ${one}`),
  );
  assert.deepEqual(idle, []);
});

test('control: every other access is found', () => {
  const file = (text: string): SourceFile => ({ path: 'src/delivery/x.ts', text });
  const bad = [
    "import { connect } from 'node:http2';",
    "import { readFileSync } from 'node:fs';",
    'const answer = await fetch(url);',
    'const signal = AbortSignal.timeout(5_000);',
    'const now = process.hrtime.bigint();',
    'const upMs = process.uptime();',
    "import { scrypt } from 'node:crypto';",
    "import { type Stats, writeFile as write } from 'node:fs/promises';",
    "import http from 'node:http';\nhttp.request(url);",
    "import { request } from '../net/node-http.ts';",
    "const { request } = process.getBuiltinModule('node:http');",
    "import * as tls from 'node:tls';\ntls.createServer();",
  ];
  for (const text of bad) assert.equal(detours([file(text)]).length, 1, text);
  assert.deepEqual(detours([file("import { connect } from 'node:net';\nimport type { Stats } from 'node:fs';")]), []);
  assert.deepEqual(detours([{ path: 'src/cli/x.ts', text: 'await fetch(url);' }]), []);
});
