/** The lists of names in docs/ are complete: events, statuses, categories, doctor checks, metrics, and log messages. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { parse } from 'yaml';
import { deliveryDelayMs, webhookDelayMs } from '../../src/base/backoff.ts';
import { createMetrics } from '../../src/base/metrics.ts';
import { explanations } from '../../src/delivery/outcome/outcome-texts.ts';
import { EVENT_TYPES } from '../../src/events/event.ts';
import { eventSchema } from '../../src/events/event-schema.ts';
import { MESSAGE_STATUSES } from '../../src/messages/message.ts';
import { readFiles, root } from './source-tree.ts';

/** Returns the rows of the tables under a heading of a page, or of all its tables, as cells without backquotes. */
function rowsOf(page: string, heading?: string): string[][] {
  const text = readFileSync(path.join(root, 'docs', page), 'utf8');
  const section = heading === undefined ? text : (text.split(`\n## ${heading}\n`)[1] ?? '').split('\n## ')[0]!;
  const lines = section.split('\n');
  const rows = lines.filter((line, at) => line.startsWith('| `') && !lines[at + 1]?.startsWith('| ---'));
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.replaceAll('`', '').trim()),
  );
}

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort();

/** Asserts that the rows list each name once; a first cell may have several names. */
function assertListed(rows: string[][], names: Iterable<string>, separator?: string): void {
  const listed = rows.flatMap(([cell]) => (separator === undefined ? [cell!] : cell!.split(separator)));
  assert.deepEqual(sorted(listed), sorted(names));
  assert.equal(new Set(listed).size, listed.length, 'each once');
}

const sources = readFiles(['src/**/*.ts']).filter((file) => !file.path.endsWith('.test.ts'));

test('event types, message statuses, bounce types, owners, and categories', () => {
  const events = 'reference/events.md';
  assertListed(rowsOf(events, 'Types'), EVENT_TYPES, ', ');
  assertListed(rowsOf('get-started/concepts.md', 'Status of a message'), MESSAGE_STATUSES);
  const { bounce } = eventSchema.properties;
  assertListed(rowsOf(events, 'Bounce kinds'), (bounce.properties.kind as unknown as { enum: string[] }).enum);
  assertListed(rowsOf(events, 'Owner'), (bounce.properties.owner as unknown as { enum: string[] }).enum);
  const { accepted: _, ...categories } = explanations;
  assertListed(rowsOf(events, 'Categories'), Object.keys(categories));
  assert.deepEqual(
    rowsOf(events, 'Categories').map(([name, owner, kind]) => [name, owner, kind]),
    Object.entries(categories).map(([name, one]) => [name, one.owner, one.bounce]),
  );
});

const UNIT_MS = { s: 1_000, min: 60_000, h: 3_600_000 };

/** Returns the durations of a text in ms: "5 s, 30 min, and 2 h", or "1, 2, 4 hours", where all numbers have the unit at the end. */
function durationsOf(text: string): number[] {
  const unit = /\d (s|min|h)[a-z]*$/.exec(text)![1];
  return [...text.matchAll(/(\d+)(?: (s|min|h)\b)?/g)].map(
    ([, count, own]) => Number(count) * UNIT_MS[(own ?? unit) as keyof typeof UNIT_MS],
  );
}

test('retry schedules', () => {
  const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
  const delays = (delayMs: (attempts: number) => number | undefined, count: number) =>
    Array.from({ length: count }, (_, index) => delayMs(index + 1));

  const schedule = read('docs/explanation/retries.md').split('## Retry schedule')[1]!.split('\n\n')[1]!;
  const documented = [...schedule.matchAll(/^\| [\d, ]{2,} \| (.*) \|$/gm)].flatMap(([, after]) => durationsOf(after!));
  assert.deepEqual(documented, delays(deliveryDelayMs, 7));
  assert.deepEqual(durationsOf(/^\| later \| every (.*),/m.exec(schedule)![1]!), delays(deliveryDelayMs, 8).slice(-1));

  const guide = /retries after (.*), with jitter/.exec(read('docs/guides/webhooks.md'))![1]!;
  const portal = /schedule: '(.*)'/.exec(read('portal/src/texts/webhooks.ts'))![1]!;
  for (const text of [guide, portal]) assert.deepEqual(durationsOf(text), delays(webhookDelayMs, 9));
  assert.equal(webhookDelayMs(10), undefined);
});

/** Returns the names of checks in the source: of ok(), warn(), fail() and skip(), and of check objects. */
function checksOf(text: string): string[] {
  const constructed = /\b(?:(?:ok|warn|fail|skip|warnOfUncovered)\(\s*|(?:name|NAME)(?: =|:) )(?:'([^']+)'|`([^`]+)`)/g;
  const withoutGroups = text.replace(/name: '[^']+',( isThirdParty: true,)? ask:/g, '');
  return [...withoutGroups.matchAll(constructed)].map((match) => match[1] ?? match[2]!);
}

/** `domain ${domain.domain}` in the form of the page. */
const PLACES: Readonly<Record<string, string>> = { domain: 'DOMAIN', certificate: 'NAME', port: 'NUMBER' };
const withPlace = (name: string): string =>
  name.replace(/^(\w+) \$\{.*$/, (_, first: string) => `${first} ${PLACES[first]}`);

test('doctor checks', () => {
  const files = sources.filter(({ path: name }) => /^src\/doctor\/|^src\/(roles|cli)\/doctor\.ts$/.test(name));
  const checks = files.flatMap(({ text }) => checksOf(text));
  // Its other texts are not checks.
  const roles = sources.find(({ path: name }) => name === 'src/roles/certificates.ts')!;
  const ordered = checksOf(roles.text).filter((name) => name.startsWith('certificate '));
  assertListed(rowsOf('reference/doctor.md'), [...checks, ...ordered].map(withPlace));
});

/** Units that the name of a gauge may end with. */
const UNITS = /_(seconds|bytes|messages|events|operations|connections|orders|rows|transactions|open|ready|info)$/;

test('metrics and their types; counters end with _total, times and sizes with their unit', async () => {
  const text = await createMetrics().text();
  const ours = [...text.matchAll(/^# TYPE (postrider_\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]);
  const gauges = sources
    .filter(({ path: name }) => /^src\/(roles\/|cli\/scheduled-backups)/.test(name))
    .flatMap((file) => [...file.text.matchAll(/'(postrider_\w+)'/g)].map(([, name]) => [name!, 'gauge']));
  const all = [...ours, ...gauges].sort();
  assert.deepEqual(
    rowsOf('reference/metrics.md')
      .map(([name, type]) => [name, type])
      .sort(),
    all,
  );
  for (const [name, type] of all) {
    assert.equal(name!.endsWith('_total'), type === 'counter', name!);
    if (type === 'histogram') assert.match(name!, /_seconds$/);
    if (type === 'gauge') assert.match(name!, UNITS);
  }
});

/** Labels that Prometheus adds to every series, the last one on Kubernetes. */
const TARGET_LABELS = ['instance', 'job', 'namespace'];

/** Returns the metrics and labels in a PromQL expression that docs/reference/metrics.md does not list. */
function unknownInQuery(query: string): string[] {
  const known = new Map(rowsOf('reference/metrics.md').map(([name, , labels = '']) => [name!, labels.split(', ')]));
  const unknown: string[] = [];
  for (const [, name = '', selector = ''] of query.matchAll(/\b(postrider_\w+?)(?:_bucket)?(?:\{([^}]*)\}|\b)/g)) {
    const labels = known.get(name);
    if (!labels) unknown.push(name);
    for (const [, label = ''] of selector.matchAll(/(\w+)(?:=~?|!=|!~)/g)) {
      if (!TARGET_LABELS.includes(label) && !labels?.includes(label)) unknown.push(`${name}: ${label}`);
    }
  }
  const all = [...known.values()].flat();
  for (const [, labels = ''] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    unknown.push(...labels.split(', ').filter((label) => ![...TARGET_LABELS, 'le', ...all].includes(label)));
  }
  return unknown;
}

test('alerts and the dashboards query existing metrics, and each runbook is a docs section', () => {
  const read = (name: string): string => readFileSync(path.join(root, name), 'utf8');
  const { groups } = parse(read('deploy/alerts.yaml')) as {
    groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  const panels = globSync('deploy/dashboards/*.json', { cwd: root }).flatMap(
    (name) => (JSON.parse(read(name)) as { panels: { targets: { expr: string }[] }[] }).panels,
  );
  const queries = [
    ...rules.map(({ expr }) => expr),
    ...panels.flatMap((panel) => panel.targets.map(({ expr }) => expr)),
  ];
  assert.ok(queries.length > 50);
  for (const query of queries) assert.deepEqual(unknownInQuery(query), [], query);
  for (const { alert, annotations } of rules) {
    const [page = '', section] = annotations.runbook!.split('#');
    const headings = [...read(`docs/${page}`).matchAll(/^#+ (.+)$/gm)].map(([, text]) => slug(text!));
    if (section !== undefined) assert.ok(headings.includes(section), alert);
  }
  const wrong = 'sum by (tenant) (rate(postrider_mails_total{mode="live"}[5m])) + postrider_disk_free_bytes{drive="a"}';
  const found = ['postrider_mails_total', 'postrider_mails_total: mode', 'postrider_disk_free_bytes: drive', 'tenant'];
  assert.deepEqual(unknownInQuery(wrong), found, 'control');
});

/** The fragment of a heading. */
const slug = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\w\s-]/g, '')
    .replaceAll(' ', '-');

/** Messages that are not literals at the log call, by file; `…` is the variable part. */
const COMPOSED: Readonly<Record<string, string[]>> = {
  'src/delivery/attempt/prepare.ts': ['the stored content …'],
  'src/delivery/attempt/large.ts': ['a stored file …; it is not sent'],
  'src/delivery/record/results.ts': ['mail delivered', 'mail delayed', 'mail bounced', 'mail suppressed'],
  'src/inbound/report-handlers.ts': ['mail bounced late', 'mail delayed late', 'mail complained about'],
  'src/reputation/protection.ts': [
    'sending protection: warning ended',
    'sending protection: account warned',
    'sending protection: live mail held',
  ],
  'src/roles/blob-store.ts': ['POSTRIDER_BLOB_URL: …'],
  'src/smtp/server.ts': ['PROXY protocol header missing or invalid; connection of a trusted proxy closed'],
  'src/smtp/session-wire.ts': ['SMTP connection lost', 'TLS handshake failed'],
  'src/work/engine.ts': [
    'lease renewal failed',
    'claim of due work failed',
    'schedule repair failed',
    'periodic work failed',
    'parked work not resumed; the next sweep retries',
  ],
};

/** Returns the text in the parentheses of a call that ends before `from`. */
function argumentsAt(text: string, from: number): string {
  let depth = 1;
  let at = from;
  while (depth > 0) {
    if ('([{'.includes(text[at]!)) depth += 1;
    if (')]}'.includes(text[at]!)) depth -= 1;
    at += 1;
  }
  return text.slice(from, at - 1).trim();
}

test('log messages', () => {
  const composed = new Set<string>();
  const messages = sources.flatMap(({ path: file, text }) =>
    [...text.matchAll(/\blog(?:\??\.(?:debug|info|warn|error|fatal)|\[[^\]]*\])\(/g)].flatMap((match) => {
      const [, literal] = /'([^']*)',?$/.exec(argumentsAt(text, match.index + match[0].length)) ?? [];
      if (literal !== undefined) return [literal];
      composed.add(file);
      return COMPOSED[file] ?? [`a composed message in ${file}`];
    }),
  );
  assertListed(rowsOf('reference/logs.md'), messages);
  assert.deepEqual([...composed].sort(), Object.keys(COMPOSED).sort());
  for (const [file, all] of Object.entries(COMPOSED)) {
    const { text } = sources.find(({ path: name }) => name === file)!;
    for (const message of all) {
      const parts = file.endsWith('results.ts') ? ['`mail $'] : message.split('…');
      for (const part of parts) assert.ok(text.includes(part), `${file}: ${message}`);
    }
  }
});
