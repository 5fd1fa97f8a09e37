/**
 * The direction of imports, as ARCHITECTURE.md shows it: a folder imports only from lower levels, and of a feature folder only its public
 * interface. The checker is a function of its files, so that its own test can use a tree that breaks every rule.
 */
import { importsOf, type SourceFile } from './source-tree.ts';

/** From the bottom up. Folders of one row do not import each other. */
const LEVELS: string[][] = [
  ['base'],
  ['mail'],
  ['storage', 'net'],
  ['work', 'http', 'limits', 'audit', 'mail-authentication'],
  ['events', 'suppressions'],
  [
    'messages',
    'templates',
    'attachments',
    'domains',
    'accounts',
    'sandbox',
    'nodes',
    'request-log',
    'statistics',
    'tls-policy',
    'acme',
  ],
  ['engagement', 'idempotency', 'users', 'reputation', 'tls-reports'],
  ['send', 'delivery', 'webhooks'],
  ['inbound'],
  ['inbound-routes'],
  ['smtp', 'housekeeping', 'erasure', 'incidents', 'operator', 'doctor'],
  ['doors', 'mcp'],
  ['api'],
  ['config-values'],
  ['config-together'],
  ['config'],
  ['roles'],
  ['cli'],
  ['main'],
];

/** Folders whose files are imported individually. All others have an interface: `<folder>/<folder>.ts`. */
const WITHOUT_DOOR = new Set([
  'base',
  'mail',
  'mail-authentication',
  'storage',
  'net',
  'http',
  'config-values',
  'config-together',
  'config',
  'roles',
  'cli',
  'main',
  'api',
]);

/** Configuration is passed as values: only these folders read the table, others may use its types. */
const READS_CONFIG = new Set(['roles', 'cli', 'main']);

/** Pure formats: no files, no sockets, no processes. */
const IO_MODULES = /^node:(fs|fs\/promises|net|tls|dns|dns\/promises|dgram|http|https|http2|child_process|sqlite)$/;

const levelOf = (room: string): number => LEVELS.findIndex((row) => row.includes(room));

function folderOf(file: string): string {
  const [, first = '', second] = file.split('/');
  return second === undefined ? first.replace(/\.ts$/, '') : first;
}

/** The folders, those with the longest names first. */
const FOLDERS = LEVELS.flat().sort((a, b) => b.length - a.length);

/** The folder whose routes a file of src/api has: for `src/api/messages-share.ts`, `messages`. */
function servedBy(file: string): string | undefined {
  const name = /^src\/api\/([a-z-]+)/.exec(file)?.[1];
  return name === undefined ? undefined : FOLDERS.find((folder) => name === folder || name.startsWith(`${folder}-`));
}

/** Whether a file has operations: a store, or the transactions of a stage. */
function isStore(file: string): boolean {
  return /\/(([a-z-]+-)?store|acceptance|claim|settle)\.ts$/.test(file);
}

/** Whether a file has schemas of the API: for routes and the API document, not for the interface that stores also import. */
function isSchema(file: string): boolean {
  return /-schema\.ts$/.test(file);
}

function check(from: string, to: string, typeOnly: boolean): string | undefined {
  if (!to.startsWith('src/')) return `${from} imports ${to}: product code imports nothing outside src`;
  const fromFolder = folderOf(from);
  const toFolder = folderOf(to);
  const inside = fromFolder === toFolder && to.split('/').length > 2;
  if (inside) return undefined;
  if (to === 'src/config.ts') {
    return typeOnly || READS_CONFIG.has(fromFolder)
      ? undefined
      : `${from} imports ${to}: settings come in as arguments`;
  }
  if (levelOf(fromFolder) === -1) return `${from}: the folder ${fromFolder} has no level; add it to the picture`;
  if (levelOf(toFolder) === -1) return `${to}: the folder ${toFolder} has no level; add it to the picture`;
  if (toFolder === 'api') {
    return fromFolder === 'roles' ? undefined : `${from} imports ${to}: routes are imported by roles only`;
  }
  if (levelOf(toFolder) >= levelOf(fromFolder)) {
    return `${from} imports ${to}: ${toFolder} does not stand below ${fromFolder}`;
  }
  if (isStore(to) && from === 'src/roles/operations.ts') return undefined;
  if (servedBy(from) === toFolder) return undefined;
  if (isSchema(to) && (fromFolder === 'roles' || fromFolder === 'api')) return undefined;
  if (!WITHOUT_DOOR.has(toFolder) && to !== `src/${toFolder}/${toFolder}.ts`) {
    return `${from} imports ${to}: other folders import its public module, src/${toFolder}/${toFolder}.ts`;
  }
  return undefined;
}

/** Returns one sentence for each import that breaks a rule. */
export function importFaults(files: SourceFile[]): string[] {
  const faults: string[] = [];
  for (const file of files) {
    for (const { specifier, target, typeOnly } of importsOf(file)) {
      if (target !== undefined) {
        const fault = check(file.path, target, typeOnly);
        if (fault) faults.push(fault);
      } else if (folderOf(file.path) === 'mail' && IO_MODULES.test(specifier)) {
        faults.push(`${file.path} imports ${specifier}: src/mail is formats only, without I/O`);
      } else if (
        !specifier.startsWith('node:') &&
        folderOf(file.path) === 'base' &&
        !/^(pino|prom-client)$/.test(specifier)
      ) {
        faults.push(`${file.path} imports ${specifier}: src/base stands on nothing but Node, pino and prom-client`);
      }
    }
  }
  return faults;
}

/** Returns the packages that a file loads, directly or not, each with the file that imports it. */
export function packagesReached(files: SourceFile[], from: string): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const found = new Set<string>();
  const reached = new Set([from]);
  for (const one of reached) {
    for (const { specifier, target, typeOnly } of importsOf(byPath.get(one)!)) {
      if (typeOnly || specifier.startsWith('node:')) continue;
      if (target === undefined) found.add(`${specifier} by ${one}`);
      else if (byPath.has(target)) reached.add(target);
    }
  }
  return [...found];
}

/** Returns every group of files that import each other, including type imports. */
export function importCircles(files: SourceFile[]): string[][] {
  const targets = new Map(
    files.map((file) => [
      file.path,
      importsOf(file)
        .map((one) => one.target)
        // A worker that starts from its own file is not a cycle.
        .filter((target): target is string => target !== undefined && target !== file.path),
    ]),
  );
  // Tarjan's strongly connected components: a file whose lowest reachable number is its own closes a group.
  const circles: string[][] = [];
  const numbers = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const visit = (file: string): void => {
    numbers.set(file, numbers.size);
    lowest.set(file, numbers.get(file)!);
    open.push(file);
    for (const target of targets.get(file) ?? []) {
      if (!numbers.has(target)) visit(target);
      if (open.includes(target)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!));
    }
    if (lowest.get(file) !== numbers.get(file)) return;
    const group = open.splice(open.indexOf(file));
    if (group.length > 1) circles.push(group.sort());
  };
  for (const file of targets.keys()) if (!numbers.has(file)) visit(file);
  return circles;
}
