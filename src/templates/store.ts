/**
 * Database operations on templates and their versions. Each change first locks the account's row, so the conditions that it checks (the
 * name is free, the layout exists) still hold when it is written. Versions are never changed after they are written.
 */

import { change } from '../audit/audit.ts';
import { parseExactJson } from '../base/exact-json.ts';
import type { Mode } from '../base/mode.ts';
import { checkLimit, type LimitReached } from '../limits/limits.ts';
import { operation, type SqlValue, type Transaction } from '../storage/operation.ts';
import { isSameRow } from '../storage/rows.ts';
import {
  type DeclaredVariable,
  hasSlot,
  isTemplateId,
  type Template,
  type TemplateContent,
  type TemplateSample,
  type TemplateVersion,
} from './template.ts';

/** Maximum number of characters of mjml, html, text, and samples in one page of a list; a larger page gets fewer entries. */
const PAGE_LENGTH = 8_000_000;

export interface TemplateKey {
  accountId: string;
  /** Mode of the calling key. A sandbox key sees templates of both modes and changes sandbox ones; a live key has only live ones. */
  mode: Mode;
  templateId: string;
}

interface VersionRow extends Omit<TemplateVersion, 'variables'> {
  variables: string;
}

interface CurrentRow extends VersionRow, Pick<Template, 'mode' | 'publishedVersion' | 'createdAt' | 'updatedAt'> {
  samples: string | null;
}

const VERSION_COLUMNS = `v.template_id AS "id", v.name, v.version, v.type, v.subject, v.mjml, v.html, v.text, v.layout_id AS "layoutId",
   v.variables, v.created_at AS "versionAt"`;
const CURRENT_VERSION = `${VERSION_COLUMNS}, t.mode, t.published_version AS "publishedVersion", t.samples, t.created_at AS "createdAt", t.updated_at AS "updatedAt"
   FROM template t JOIN template_version v ON v.template_id = t.id AND v.version = t.version`;

function readVariables<T extends { variables: string }>(row: T): Omit<T, 'variables'> & Pick<Template, 'variables'> {
  return { ...row, variables: parseExactJson(row.variables) as DeclaredVariable[] };
}

/** Finds a template that a key of this mode can see. */
export async function findTemplate(
  tx: Transaction,
  { accountId, mode, templateId }: TemplateKey,
): Promise<Template | undefined> {
  const row = await tx.get<CurrentRow>(
    `SELECT ${CURRENT_VERSION} WHERE t.id = ? AND t.account_id = ? AND t.mode IN ('live', ?)`,
    templateId,
    accountId,
    mode,
  );
  return row && { ...readVariables(row), samples: parseExactJson(row.samples ?? '[]') as TemplateSample[] };
}

/** Finds a template by id; undefined if the account has none. */
export const findTemplateOperation = operation('templates.find', 'read', (tx, key: TemplateKey) =>
  findTemplate(tx, key),
);

export interface Rows<T> {
  rows: T[];
  /** Whether there are more rows. */
  more: boolean;
}

/** Returns the first `limit` rows, or fewer if they exceed PAGE_LENGTH together, but at least one. */
function rowsThatFit<T extends { length: number }>(found: T[], limit: number): Rows<T> {
  const rows: T[] = [];
  let length = 0;
  for (const row of found.slice(0, limit)) {
    length += row.length;
    if (rows.length > 0 && length > PAGE_LENGTH) break;
    rows.push(row);
  }
  return { rows, more: found.length > rows.length };
}

const LENGTH = 'coalesce(length(v.mjml), 0) + coalesce(length(v.html), 0) + coalesce(length(v.text), 0)';

/** Lists templates, newest first; `before` is the last id of the previous page. */
export const listTemplatesOperation = operation(
  'templates.list',
  'read',
  async (
    tx,
    page: { accountId: string; mode: Mode; before: string | null; limit: number },
  ): Promise<Rows<Template>> => {
    const found = await tx.all<{ id: string; length: number }>(
      `SELECT t.id, ${LENGTH} + coalesce(length(t.samples), 0) AS "length" FROM template t JOIN template_version v ON v.template_id = t.id AND v.version = t.version
       WHERE t.account_id = ? AND t.mode IN ('live', ?) AND t.id < ? ORDER BY t.id DESC LIMIT ?`,
      page.accountId,
      page.mode,
      page.before ?? 'tpl_~',
      page.limit + 1,
    );
    const { rows, more } = rowsThatFit(found, page.limit);
    const templates: Template[] = [];
    for (const { id } of rows) {
      templates.push((await findTemplate(tx, { ...page, templateId: id })) as Template);
    }
    return { rows: templates, more };
  },
);

async function findVersion(tx: Transaction, id: string, version: number): Promise<TemplateVersion | undefined> {
  const row = await tx.get<VersionRow>(
    `SELECT ${VERSION_COLUMNS} FROM template_version v WHERE v.template_id = ? AND v.version = ?`,
    id,
    version,
  );
  return row && readVariables(row);
}

/** Lists the versions of a template, newest first; undefined if the account has no such template. */
export const listVersionsOperation = operation(
  'templates.versions',
  'read',
  async (
    tx,
    page: TemplateKey & { before: number | null; limit: number },
  ): Promise<Rows<TemplateVersion> | undefined> => {
    if (!(await findTemplate(tx, page))) return undefined;
    const found = await tx.all<{ version: number; length: number }>(
      `SELECT v.version, ${LENGTH} AS "length" FROM template_version v WHERE v.template_id = ? AND v.version < CAST(? AS BIGINT)
       ORDER BY v.version DESC LIMIT ?`,
      page.templateId,
      page.before ?? 2_147_483_647,
      page.limit + 1,
    );
    const { rows, more } = rowsThatFit(found, page.limit);
    const versions: TemplateVersion[] = [];
    for (const { version } of rows) versions.push((await findVersion(tx, page.templateId, version)) as TemplateVersion);
    return { rows: versions, more };
  },
);

/** Why a template was not written. */
export type TemplateRefusal =
  | 'not-found'
  | 'is-live'
  | 'name-taken'
  | 'layout-unknown'
  | 'layout-without-slot'
  | 'layout-has-layout'
  | 'is-layout'
  | 'slot-needed'
  | 'in-use'
  | 'outdated';

export type WriteResult = { template: Template; isUnchanged?: boolean } | { refused: TemplateRefusal } | LimitReached;

/** Locks the account's row until the transaction ends, so that changes of its templates run one after the other. */
export async function lockAccount(tx: Transaction, accountId: string): Promise<void> {
  await tx.run('UPDATE account SET name = name WHERE id = ?', accountId);
}

async function isNameTaken(
  tx: Transaction,
  { accountId, mode, templateId }: TemplateKey,
  name: string,
): Promise<boolean> {
  const other = await tx.get<{ id: string }>(
    'SELECT id FROM template WHERE account_id = ? AND name = ? AND mode = ?',
    accountId,
    name,
    mode,
  );
  return other !== undefined && other.id !== templateId;
}

/**
 * Returns whether other templates of its mode use this template as their layout. Sandbox templates do not prevent changes to a live layout.
 */
async function isUsedAsLayout(tx: Transaction, { templateId, mode }: TemplateKey): Promise<boolean> {
  const user = await tx.get(
    'SELECT 1 AS found FROM template WHERE layout_id = ? AND mode = ? LIMIT 1',
    templateId,
    mode,
  );
  return user !== undefined;
}

/** Returns the template that a key wants to change, or why the key cannot change it. */
async function findToChange(tx: Transaction, key: TemplateKey): Promise<Template | 'not-found' | 'is-live'> {
  const found = await findTemplate(tx, key);
  if (found === undefined) return 'not-found';
  return found.mode === key.mode ? found : 'is-live';
}

/** Returns why this content cannot use its layout, or cannot be a layout that others use. */
async function checkLayout(
  tx: Transaction,
  key: TemplateKey,
  content: TemplateContent,
): Promise<TemplateRefusal | undefined> {
  if (await isUsedAsLayout(tx, key)) {
    if (content.layoutId !== null) return 'is-layout';
    if (!hasSlot(content.html)) return 'slot-needed';
  }
  if (content.layoutId === null) return undefined;
  if (content.layoutId === key.templateId) return 'layout-has-layout';
  const layout = await findTemplate(tx, { ...key, templateId: content.layoutId });
  if (!layout) return 'layout-unknown';
  if (layout.layoutId !== null) return 'layout-has-layout';
  return hasSlot(layout.html) ? undefined : 'layout-without-slot';
}

async function insertVersion(
  tx: Transaction,
  row: { id: string; version: number; name: string; content: TemplateContent; nowMs: number },
): Promise<void> {
  const { content } = row;
  const values: SqlValue[] = [row.id, row.version, row.name, content.type, content.subject, content.html, content.text];
  await tx.run(
    `INSERT INTO template_version (template_id, version, name, type, subject, html, text, mjml, layout_id, variables, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...values,
    content.mjml,
    content.layoutId,
    JSON.stringify(content.variables),
    row.nowMs,
  );
}

export interface TemplateToWrite extends TemplateKey {
  name: string;
  content: TemplateContent;
  /** The version is not used by sends until it is published. */
  isDraft?: boolean;
  /**
   * The version that the content was derived from. If it is no longer the current one, the result is 'outdated'. Unchanged content adds no
   * version.
   */
  basis?: number;
  nowMs: number;
}

/** Columns that the audit log records. The content is not recorded, because it is stored in the versions. */
const TEMPLATE_TRAIL = { table: 'template', shows: ['name', 'version', 'layout_id', 'published_version'] };

export const createTemplateOperation = change(
  'templates.create',
  async (tx, toWrite: TemplateToWrite): Promise<WriteResult> => {
    const { accountId, nowMs } = toWrite;
    await lockAccount(tx, accountId);
    if (await isNameTaken(tx, toWrite, toWrite.name)) return { refused: 'name-taken' };
    const reached = await checkLimit(tx, { accountId, limit: 'templates', nowMs });
    if (reached) return reached;
    const refused = await checkLayout(tx, toWrite, toWrite.content);
    if (refused) return { refused };
    await tx.run(
      `INSERT INTO template (id, account_id, mode, name, version, layout_id, created_at, updated_at, published_version)
       VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?)`,
      toWrite.templateId,
      toWrite.accountId,
      toWrite.mode,
      toWrite.name,
      toWrite.content.layoutId,
      toWrite.nowMs,
      toWrite.nowMs,
      toWrite.isDraft === true ? 0 : null,
    );
    const { templateId: id, name, content } = toWrite;
    await insertVersion(tx, { id, version: 1, name, content, nowMs });
    return { template: (await findTemplate(tx, toWrite)) as Template };
  },
  { ...TEMPLATE_TRAIL, action: 'template.create', where: ({ templateId }) => ({ id: templateId }) },
);

async function addVersion(tx: Transaction, toWrite: TemplateToWrite): Promise<WriteResult> {
  if (await isNameTaken(tx, toWrite, toWrite.name)) return { refused: 'name-taken' };
  const refused = await checkLayout(tx, toWrite, toWrite.content);
  if (refused) return { refused };
  const { templateId: id, accountId, name, content, nowMs, isDraft = false } = toWrite;
  const published = isDraft
    ? 'coalesce(published_version, version)'
    : 'CASE WHEN published_version IS NULL THEN NULL ELSE version + 1 END';
  const row = (await tx.get<{ version: number }>(
    `UPDATE template SET name = ?, version = version + 1, published_version = ${published}, layout_id = ?,
       updated_at = CASE WHEN updated_at < ? THEN ? ELSE updated_at END
     WHERE id = ? AND account_id = ? RETURNING version`,
    name,
    content.layoutId,
    nowMs,
    nowMs,
    id,
    accountId,
  )) as { version: number };
  await insertVersion(tx, { id, version: row.version, name, content, nowMs });
  return { template: (await findTemplate(tx, toWrite)) as Template };
}

function isUnchanged({ name, ...current }: Template, toWrite: TemplateToWrite): boolean {
  const { type, subject, mjml, html, text, layoutId, variables } = current;
  const content: TemplateContent = { type, subject, mjml, html, text, layoutId, variables };
  return name === toWrite.name && isSameRow(content, toWrite.content);
}

/** Replaces the content of a template; the previous content is kept as a version. */
export const replaceTemplateOperation = change(
  'templates.replace',
  async (tx, toWrite: TemplateToWrite): Promise<WriteResult> => {
    await lockAccount(tx, toWrite.accountId);
    const current = await findToChange(tx, toWrite);
    if (typeof current === 'string') return { refused: current };
    if (toWrite.basis !== undefined) {
      if (toWrite.basis !== current.version) return { refused: 'outdated' };
      if (isUnchanged(current, toWrite)) return { template: current };
    }
    return addVersion(tx, toWrite);
  },
  { ...TEMPLATE_TRAIL, action: 'template.replace', where: ({ templateId }) => ({ id: templateId }) },
);

/** Replaces the samples of a template. This creates no version. */
export const storeSamplesOperation = change(
  'templates.storeSamples',
  async (tx, { samples, ...key }: TemplateKey & { samples: readonly TemplateSample[] }): Promise<WriteResult> => {
    await lockAccount(tx, key.accountId);
    const current = await findToChange(tx, key);
    if (typeof current === 'string') return { refused: current };
    const text = samples.length === 0 ? null : JSON.stringify(samples);
    const stored = current.samples.length === 0 ? null : JSON.stringify(current.samples);
    if (text === stored) return { template: current, isUnchanged: true };
    await tx.run(
      'UPDATE template SET samples = ? WHERE id = ? AND account_id = ?',
      text,
      key.templateId,
      key.accountId,
    );
    return { template: (await findTemplate(tx, key)) as Template };
  },
  {
    action: 'template.replace-samples',
    resourceId: ({ templateId }) => templateId,
    // The samples and their names may name a recipient, and erasures do not reach the audit log.
    did: ({ samples }, written) =>
      'template' in written && written.isUnchanged !== true ? { samples: samples.length } : undefined,
  },
);

/** Creates a new version with the content of an earlier one; the template keeps its current name. */
export const restoreTemplateOperation = change(
  'templates.restore',
  async (tx, request: TemplateKey & { version: number; nowMs: number }): Promise<WriteResult> => {
    await lockAccount(tx, request.accountId);
    const current = await findToChange(tx, request);
    if (typeof current === 'string') return { refused: current };
    const earlier = await findVersion(tx, request.templateId, request.version);
    if (!earlier) return { refused: 'not-found' };
    return addVersion(tx, { ...request, name: current.name, content: earlier });
  },
  { ...TEMPLATE_TRAIL, action: 'template.restore-version', where: ({ templateId }) => ({ id: templateId }) },
);

/** Deletes a template with all its versions, unless other templates use it as their layout. */
export const removeTemplateOperation = change(
  'templates.remove',
  async (tx, key: TemplateKey): Promise<'removed' | TemplateRefusal> => {
    await lockAccount(tx, key.accountId);
    const current = await findToChange(tx, key);
    if (typeof current === 'string') return current;
    if (await isUsedAsLayout(tx, key)) return 'in-use';
    await tx.run('DELETE FROM template_share WHERE template_id = ?', key.templateId);
    await tx.run('DELETE FROM template_version WHERE template_id = ?', key.templateId);
    await tx.run('DELETE FROM template WHERE id = ? AND account_id = ?', key.templateId, key.accountId);
    return 'removed';
  },
  { ...TEMPLATE_TRAIL, action: 'template.delete', where: ({ templateId }) => ({ id: templateId }) },
);

/** The versions that a send by this id or name uses now. In the sandbox, a sandbox template takes precedence over a live one. */
export interface TemplateHead {
  id: string;
  version: number;
  layoutId: string | null;
  layoutVersion: number | null;
}

export interface HeadRequest {
  accountId: string;
  mode: Mode;
  /** An id or a name. */
  reference: string;
  /** Whether to use the latest version, published or not. */
  useLatest?: boolean;
}

export const templateHeadOperation = operation('templates.head', 'read', (tx, requested: HeadRequest) =>
  tx.get<TemplateHead>(
    `SELECT t.id, ${requested.useLatest === true ? 't.version' : 'coalesce(t.published_version, t.version)'} AS version, t.layout_id AS "layoutId",
         coalesce(l.published_version, l.version) AS "layoutVersion"
       FROM template t LEFT JOIN template l ON l.id = t.layout_id AND l.account_id = t.account_id
         AND l.mode IN ('live', t.mode)
       WHERE t.account_id = ? AND ${isTemplateId(requested.reference) ? 't.id' : 't.name'} = ? AND t.mode IN ('live', ?)
         ${requested.useLatest === true ? '' : 'AND coalesce(t.published_version, t.version) > 0'}
       ORDER BY t.mode DESC LIMIT 1`,
    requested.accountId,
    requested.reference,
    requested.mode,
  ),
);

/** Returns the versions of a head; undefined if one has been deleted in the meantime. */
export const headVersionsOperation = operation('templates.headVersions', 'read', async (tx, head: TemplateHead) => {
  const own = await findVersion(tx, head.id, head.version);
  if (!own || head.layoutId === null || head.layoutVersion === null) return own && { own, layout: null };
  const layout = await findVersion(tx, head.layoutId, head.layoutVersion);
  return layout && { own, layout };
});

/** The data that an interface of another service (such as Resend) stores with a template, and the published version. */
export interface TemplateExtra {
  id: string;
  version: number;
  /** Null if each version is published when it is created; 0 if no version is published. */
  publishedVersion: number | null;
  /** JSON; null for a template that was created with Postrider's own API. */
  extra: string | null;
}

const EXTRA = 'id, version, published_version AS "publishedVersion", extra';

/** Finds templates by ids or names. Returns them in the order of the references and omits those that the account does not have. */
export const findExtrasOperation = operation(
  'templates.extras',
  'read',
  async (tx, requested: { accountId: string; mode: Mode; references: string[] }): Promise<TemplateExtra[]> => {
    const found: TemplateExtra[] = [];
    for (const reference of requested.references) {
      const row = await tx.get<TemplateExtra>(
        `SELECT ${EXTRA} FROM template WHERE account_id = ? AND ${isTemplateId(reference) ? 'id' : 'name'} = ?
           AND mode IN ('live', ?) ORDER BY mode DESC LIMIT 1`,
        requested.accountId,
        reference,
        requested.mode,
      );
      if (row) found.push(row);
    }
    return found;
  },
);

export interface ExtraToWrite extends TemplateKey {
  extra: string;
  /** Undefined leaves it unchanged. */
  publishedVersion?: number;
}

/** Stores the data of another service's interface with a template, and publishes a version if one is given. */
export const storeExtraOperation = change(
  'templates.describe',
  async (tx, { extra, publishedVersion, ...key }: ExtraToWrite): Promise<'written' | 'not-found' | 'is-live'> => {
    await lockAccount(tx, key.accountId);
    const current = await findToChange(tx, key);
    if (typeof current === 'string') return current;
    await tx.run(
      'UPDATE template SET extra = ?, published_version = coalesce(?, published_version) WHERE id = ?',
      extra,
      publishedVersion ?? null,
      key.templateId,
    );
    return 'written';
  },
  { ...TEMPLATE_TRAIL, action: 'template.publish', where: ({ templateId }) => ({ id: templateId }) },
);
