/**
 * Implements `postrider import-from`: imports suppressions, domains, and templates that another service exported, over the HTTP API.
 * Without --yes it only prints what would change. The kind of a file is recognized by its content. All files are read before the first
 * change, and an invalid row stops the command. An address that is not valid is only listed: services record what applications tried to
 * send to. A file without any valid address also stops the command. The command can be repeated: it keeps existing entries, except that a
 * suppression with a stronger reason or a later expiry replaces the existing one.
 */
import { parseAddress, sameAddressKey } from '../mail/address.ts';
import { REASON_STRENGTH, type SuppressionReason } from '../suppressions/suppressions.ts';
import { type ApiClient, type ApiOptions, apiClient, apiTarget, RefusedCall, refusal } from './api-client.ts';
import { type CommandCall, CommandError, type CommandOutcome, table, UsageError } from './command.ts';
import { fileRows } from './import-files.ts';
import { type Choices, type ImportedRow, kindOf, type RowKind, SOURCES, type Source } from './import-sources.ts';
import { type ExportedTemplate, planTemplates, type TemplatePlan, templateRequestOf } from './import-templates.ts';

/** Addresses per request: far below the limits of the API, so that an import does not delay sending. */
const BATCH = 5_000;
const PROBLEMS_LISTED = 20;
const INVALID_ADDRESS = 'addresses that are not valid';
const ADDRESS_CHARACTERS_LISTED = 100;
const LIVE_ONLY_DOMAINS = 'domains, which a sandbox key cannot add (add --live, or use a live key)';

export interface ImportOptions extends ApiOptions, Choices {
  yes?: boolean;
  /** Whether templates replace existing ones with the same name. */
  replace?: boolean;
}

interface Entry {
  reason: SuppressionReason;
  /** ISO 8601; undefined if the entry does not expire. */
  expiresAt: string | undefined;
}

interface FileReport {
  file: string;
  kind: string;
  rows: number;
}

interface InvalidAddress {
  file: string;
  /** The line or the item of the file. */
  place: string;
  address: string;
}

/** The changes that the files request. */
interface WantedChanges {
  files: FileReport[];
  suppressions: Map<string, Entry>;
  domains: Set<string>;
  templates: Map<string, ExportedTemplate>;
  /** Number of rows that are not imported, by reason. */
  skipped: Map<string, number>;
  invalidAddresses: InvalidAddress[];
}

function mergeEntries(a: Entry, b: Entry): Entry {
  const winner = REASON_STRENGTH[b.reason] > REASON_STRENGTH[a.reason] ? b : a;
  const isEndless = a.expiresAt === undefined || b.expiresAt === undefined;
  const expiresAt = isEndless ? undefined : [a.expiresAt!, b.expiresAt!].sort().at(-1);
  return { reason: winner.reason, expiresAt };
}

interface RowPlace {
  file: string;
  place: string;
  nowMs: number;
}

/** Adds a row to the wanted changes; returns the problem of an invalid row, which starts with the name of the field. */
function addRow(wanted: WantedChanges, row: ImportedRow, { file, place, nowMs }: RowPlace): string | undefined {
  const skip = (reason: string): void => {
    wanted.skipped.set(reason, (wanted.skipped.get(reason) ?? 0) + 1);
  };
  if ('problem' in row) return `${row.field} ${row.problem}`;
  if ('skip' in row) {
    skip(row.skip);
    return undefined;
  }
  if ('domain' in row) {
    if (!/^[^\s@/]+\.[^\s@/]+$/.test(row.domain)) return `the domain "${row.domain}" is not a domain name`;
    wanted.domains.add(row.domain.toLowerCase());
    return undefined;
  }
  if ('template' in row) {
    const { name } = row.template;
    if (wanted.templates.has(name)) return `the name "${name}" is already used by another template in the files`;
    wanted.templates.set(name, row.template);
    return undefined;
  }
  if (row.suppress === '') return 'the address is empty';
  const address = parseAddress(row.suppress);
  if (!address.ok) {
    skip(INVALID_ADDRESS);
    wanted.invalidAddresses.push({ file, place, address: row.suppress });
    return undefined;
  }
  const { reason, expiresAt } = row;
  if (expiresAt !== undefined && Date.parse(expiresAt) <= nowMs) {
    skip('entries that have expired');
    return undefined;
  }
  const key = sameAddressKey(address.value);
  const known = wanted.suppressions.get(key);
  wanted.suppressions.set(key, known ? mergeEntries(known, { reason, expiresAt }) : { reason, expiresAt });
  return undefined;
}

function unknownKind(source: Source, place: string, fields: string[]): CommandError {
  const kinds = source.kinds.map(({ name }) => name).join(', ');
  const found = fields.length === 0 ? 'no fields' : `the fields ${fields.slice(0, 12).join(', ')}`;
  return new CommandError(
    'UNKNOWN_FORMAT',
    `${place} has ${found}, which match no ${source.title} export that can be imported (${kinds})`,
  );
}

/** Throws if the rows of this kind do not include their list, and --list does not name it. */
function checkListOption(kind: RowKind, file: string, { list }: Choices): void {
  if (!kind.lists || (list !== undefined && kind.lists.includes(list))) return;
  const options = kind.lists.map((name) => `--list ${name}`).join(' or ');
  throw new UsageError(`${file} contains ${kind.name}, whose fields are the same; add ${options}`);
}

const quoted = (address: string): string => JSON.stringify(address.slice(0, ADDRESS_CHARACTERS_LISTED));

function withoutAddresses({ file, place, address }: InvalidAddress, count: number): string {
  const rows = count === 1 ? 'the only address' : `each of ${count} addresses`;
  return `${file}: ${place}: ${rows} is not valid, for example ${quoted(address)}; check the columns, or omit the file`;
}

async function readFile(wanted: WantedChanges, source: Source, { file, choices, nowMs }: FileCall): Promise<string[]> {
  const problems: string[] = [];
  const report: FileReport = { file, kind: '', rows: 0 };
  wanted.files.push(report);
  const invalidBefore = wanted.invalidAddresses.length;
  let addresses = 0;
  for await (const { place, row } of fileRows(file)) {
    const kind = kindOf(source, row);
    if (!kind) throw unknownKind(source, `${file}: ${place}`, Object.keys(row));
    if (report.kind !== kind.name) {
      checkListOption(kind, file, choices);
      report.kind = kind.name;
    }
    report.rows += 1;
    const read = kind.read(row, choices);
    if ('suppress' in read) addresses += 1;
    const problem = addRow(wanted, read, { file, place, nowMs });
    if (problem !== undefined) problems.push(`${file}: ${place}: ${problem}`);
  }
  if (report.kind === '') report.kind = 'nothing';
  const [first, ...others] = wanted.invalidAddresses.slice(invalidBefore);
  if (first && others.length + 1 === addresses) problems.push(withoutAddresses(first, addresses));
  return problems;
}

interface FileCall {
  file: string;
  choices: Choices;
  nowMs: number;
}

async function readAll(source: Source, files: string[], choices: Choices, nowMs: number): Promise<WantedChanges> {
  const wanted: WantedChanges = {
    files: [],
    suppressions: new Map(),
    domains: new Set(),
    templates: new Map(),
    skipped: new Map(),
    invalidAddresses: [],
  };
  const problems: string[] = [];
  for (const file of files) problems.push(...(await readFile(wanted, source, { file, choices, nowMs })));
  if (problems.length === 0) return wanted;
  const more = problems.length > PROBLEMS_LISTED ? `\n  and ${problems.length - PROBLEMS_LISTED} more` : '';
  const listed = problems.slice(0, PROBLEMS_LISTED).map((one) => `\n  ${one}`);
  throw new CommandError(
    'INVALID_FILE',
    `nothing was imported, because ${problems.length === 1 ? 'a row is' : `${problems.length} rows are`} invalid:${listed.join('')}${more}`,
  );
}

/** Returns all items of a list of the API. */
async function* listAll<T>(api: ApiClient, path: string): AsyncGenerator<T> {
  let cursor = '';
  do {
    const answer = await api.call({ method: 'GET', path: `${path}?limit=100${cursor}` });
    if (answer.status !== 200) throw new RefusedCall(answer);
    yield* answer.body as unknown as T[];
    cursor = answer.nextCursor === undefined ? '' : `&cursor=${encodeURIComponent(answer.nextCursor)}`;
  } while (cursor !== '');
}

interface Plan {
  /** Addresses that are not on the list. */
  added: [string, Entry][];
  /** Addresses that are on the list with a weaker reason or an earlier expiry. */
  strengthened: [string, Entry][];
  present: number;
  newDomains: string[];
  /** New domains that the key cannot add, because it is a sandbox key. */
  liveOnlyDomains: string[];
  presentDomains: number;
  templates: TemplatePlan[];
}

async function planOf(api: ApiClient, wanted: WantedChanges, isReplacing: boolean): Promise<Plan> {
  const { suppressions, domains } = wanted;
  const plan: Plan = {
    added: [],
    strengthened: [],
    present: 0,
    newDomains: [],
    liveOnlyDomains: [],
    presentDomains: 0,
    templates: [],
  };
  const unlisted = new Map(suppressions);
  if (unlisted.size > 0) {
    for await (const { email, reason, expiresAt } of listAll<ListedSuppression>(api, '/suppressions')) {
      const entry = unlisted.get(email);
      if (!entry) continue;
      unlisted.delete(email);
      const isLonger = expiresAt !== null && (entry.expiresAt === undefined || entry.expiresAt > expiresAt);
      if (isLonger || REASON_STRENGTH[entry.reason] > REASON_STRENGTH[reason]) plan.strengthened.push([email, entry]);
      else plan.present += 1;
    }
  }
  plan.added = [...unlisted];
  const known = new Set<string>();
  if (domains.size > 0) for await (const { domain } of listAll<{ domain: string }>(api, '/domains')) known.add(domain);
  const newDomains = [...domains].filter((one) => !known.has(one));
  plan.presentDomains = domains.size - newDomains.length;
  if (api.isSandbox) plan.liveOnlyDomains = newDomains;
  else plan.newDomains = newDomains;
  if (wanted.templates.size === 0) return plan;
  plan.templates = planTemplates([...wanted.templates.values()], await templateIds(api), isReplacing);
  return plan;
}

/** Returns the ids of the account's templates by name. */
async function templateIds(api: ApiClient): Promise<Map<string, string>> {
  const ids = new Map<string, string>();
  for await (const { name, templateId } of listAll<{ name: string; templateId: string }>(api, '/templates')) {
    if (!ids.has(name)) ids.set(name, templateId);
  }
  return ids;
}

interface ListedSuppression {
  email: string;
  reason: SuppressionReason;
  expiresAt: string | null;
}

async function writeTemplates(api: ApiClient, plans: readonly TemplatePlan[]): Promise<void> {
  if (plans.length === 0) return;
  const ids = await templateIds(api);
  for (const plan of plans) {
    if (plan.action !== 'add' && plan.action !== 'replace') continue;
    const isNew = plan.action === 'add';
    const answer = await api.call({
      method: isNew ? 'POST' : 'PUT',
      path: `/templates${isNew ? '' : `/${plan.templateId}`}${plan.isDraft ? '?publish=false' : ''}`,
      body: templateRequestOf(plan, plan.layout === null ? undefined : ids.get(plan.layout)),
    });
    if (answer.status > 201) throw new RefusedCall(answer);
    ids.set(plan.name, (answer.body as { templateId: string }).templateId);
  }
}

async function applyPlan(api: ApiClient, { added, strengthened, newDomains, templates }: Plan): Promise<void> {
  const post = async (path: string, body: string, contentType?: string): Promise<void> => {
    const answer = await api.call({ method: 'POST', path, body, contentType });
    if (answer.status > 201) throw new RefusedCall(answer);
  };
  for (let i = 0; i < added.length; i += BATCH) {
    const lines = added.slice(i, i + BATCH).map(([email, { reason, expiresAt = '' }]) => {
      return `"${email.replaceAll('"', '""')}",${reason},${expiresAt}`;
    });
    await post('/suppressions/import', `email,reason,expiresAt\n${lines.join('\n')}\n`, 'text/csv');
  }
  for (const [email, { reason, expiresAt }] of strengthened) {
    await post('/suppressions', JSON.stringify({ email, reason, expiresAt }));
  }
  for (const domain of newDomains) await post('/domains', JSON.stringify({ domain }));
  await writeTemplates(api, templates);
}

const namesOf = (plans: readonly TemplatePlan[], ...actions: TemplatePlan['action'][]): string[] =>
  plans.filter(({ action }) => actions.includes(action)).map(({ name }) => name);

/** Returns the changes to templates, and the places in imported templates that a person must check. */
function templateOutcome(plans: readonly TemplatePlan[]) {
  const imported = plans.filter(({ action }) => action === 'add' || action === 'replace');
  const failed = plans.filter(({ action }) => action === 'refuse');
  return {
    added: namesOf(plans, 'add'),
    replaced: namesOf(plans, 'replace'),
    present: namesOf(plans, 'keep'),
    drafts: imported.filter(({ isDraft }) => isDraft).map(({ name }) => name),
    refused: failed.map(({ name, problem = '' }) => ({ name, problem })),
    checks: imported.flatMap(({ checks }) => checks),
  };
}

function templateLines(outcome: ReturnType<typeof templateOutcome>, will: string): [string, unknown][] {
  const { added, replaced, present, drafts, refused, checks } = outcome;
  const lines: [string, unknown][] = [['templates', `${added.length} ${will}added: ${added.join(', ') || '-'}`]];
  if (replaced.length > 0) lines.push(['', `${replaced.length} ${will}replaced: ${replaced.join(', ')}`]);
  if (present.length > 0) {
    lines.push([
      '',
      `${present.length} kept because a template with this name exists (add --replace to replace it): ${present.join(', ')}`,
    ]);
  }
  if (drafts.length > 0) lines.push(['', `${drafts.length} of them as drafts: ${drafts.join(', ')}`]);
  for (const { name, problem } of refused) lines.push(['not imported', `template ${name}: ${problem}`]);
  for (const { template, part, line, what, why, isConverted } of checks) {
    const place = line === null ? part : `${part}, line ${line}`;
    lines.push([isConverted ? 'check' : 'not converted', `${template}, ${place}: ${what}: ${why}`]);
  }
  return lines;
}

function outcomeOf(wanted: WantedChanges, plan: Plan, { isDone, isSandbox }: { isDone: boolean; isSandbox: boolean }) {
  const reasons: Record<string, number> = {};
  for (const [, { reason }] of plan.added) reasons[reason] = (reasons[reason] ?? 0) + 1;
  const skipped = [...wanted.skipped].map(([reason, rows]) => ({ reason, rows }));
  if (plan.liveOnlyDomains.length > 0) {
    const names = plan.liveOnlyDomains.join(', ');
    skipped.push({ reason: `${LIVE_ONLY_DOMAINS}: ${names}`, rows: plan.liveOnlyDomains.length });
  }
  const data = {
    dryRun: !isDone,
    mode: isSandbox ? 'sandbox' : 'live',
    files: wanted.files,
    suppressions: {
      added: plan.added.length,
      reasons,
      strengthened: plan.strengthened.length,
      present: plan.present,
    },
    domains: { added: plan.newDomains, present: plan.presentDomains },
    templates: templateOutcome(plan.templates),
    skipped,
    invalidAddresses: wanted.invalidAddresses.slice(0, PROBLEMS_LISTED),
  };
  const will = isDone ? '' : 'would be ';
  const details = Object.entries(reasons).map(([reason, count]) => `${count} ${reason}`);
  const lines: [string, unknown][] = wanted.files.map(({ file, kind, rows }) => [file, `${rows} rows: ${kind}`]);
  if (wanted.suppressions.size > 0) {
    const what = details.length === 0 ? '' : ` (${details.join(', ')})`;
    lines.push(['suppressions', `${plan.added.length} ${will}added${what}`]);
    lines.push(['', `${plan.strengthened.length} ${will}changed to a stronger reason or a later expiry`]);
    lines.push(['', `${plan.present} already on the ${data.mode} list`]);
  }
  if (wanted.domains.size > 0) {
    lines.push(['domains', `${plan.newDomains.length} ${will}added: ${plan.newDomains.join(', ') || '-'}`]);
    lines.push(['', `${plan.presentDomains} already in the account`]);
  }
  if (wanted.templates.size > 0) lines.push(...templateLines(data.templates, will));
  for (const { reason, rows } of data.skipped) lines.push(['not imported', `${rows} ${reason}`]);
  for (const { file, place, address } of data.invalidAddresses) {
    lines.push(['not valid', `${file}: ${place}: ${quoted(address)}`]);
  }
  const more = wanted.invalidAddresses.length - data.invalidAddresses.length;
  if (more > 0) lines.push(['', `and ${more} more`]);
  const hint = isDone ? '' : '\n\nNothing was changed. Add --yes to import.';
  return { data, text: table(lines) + hint };
}

/** Runs `postrider import-from SERVICE FILE…`. */
export async function importFrom(call: CommandCall<ImportOptions>): Promise<CommandOutcome> {
  const [name = '', ...files] = call.args;
  const source = Object.hasOwn(SOURCES, name) ? SOURCES[name] : undefined;
  if (!source) throw new UsageError(`unknown service ${name}; use one of: ${Object.keys(SOURCES).join(', ')}`);
  const { yes = false, replace = false, ...choices } = call.options;
  const api = apiClient(apiTarget(call));
  const wanted = await readAll(source, files, choices, call.clock.now());
  try {
    const plan = await planOf(api, wanted, replace);
    if (yes) await applyPlan(api, plan);
    return outcomeOf(wanted, plan, { isDone: yes, isSandbox: api.isSandbox });
  } catch (error) {
    if (error instanceof RefusedCall) return refusal(error.answer);
    throw error;
  }
}
