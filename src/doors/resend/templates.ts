/**
 * Implements Resend's /templates: stored templates with a draft and a published version. Sends use the published version. The alias of a
 * template is its name in Postrider's API. A template without an alias has the name of this API there, or one that starts with it if that
 * name is taken or becomes the alias of another template. The name in this API, the default sender, and the reply addresses are stored with
 * the template.
 */
import { randomBytes } from 'node:crypto';
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../../accounts/accounts.ts';
import { requestedChanges } from '../../audit/audit.ts';
import { iso } from '../../base/clock.ts';
import { failure, ok, type Result, refuse } from '../../base/failure.ts';
import { idOfUuid, isUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import {
  findExtrasOperation,
  fromLiquid,
  storeExtraOperation,
  type TemplateExtra,
  toLiquid,
} from '../../templates/templates.ts';
import {
  type EndpointAnswer,
  type EndpointContext,
  endpoint,
  NOT_FOUND,
  open,
  type ResendDoorDeps,
  success,
} from './endpoint.ts';
import { keyOf, list, listBody } from './lists.ts';

/** The default sender and reply addresses of emails with a template. */
interface Senders {
  from: string | null;
  replyTo: string[] | null;
}

/** The fields that only this API has. They are stored with the template as JSON. The senders are those of the draft. */
interface Extra extends Senders {
  name: string;
  alias: string | null;
  publishedAt: string | null;
  /** The senders of the published version; null before the first. */
  published: Senders | null;
}

/** As stored; `published` is absent in templates that were stored before it existed, which used the senders of the draft. */
type StoredExtra = Omit<Extra, 'published'> & { published?: Senders | null };

interface TemplateBody {
  templateId: string;
  name: string;
  subject: string | null;
  mjml?: string;
  html: string | null;
  text: string | null;
  variables: { name: string; type: string; required: boolean; default?: unknown }[];
  version: number;
  createdAt: string;
  updatedAt: string;
}

/** Query that saves a version which sends do not use yet. */
const DRAFT = { publish: false };

const MAX_NAME_LENGTH = 200;

const NO_TEMPLATE = NOT_FOUND('Template');

const nullableText = (maxLength: number) =>
  Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength }));
const variable = open({
  key: Type.String({ minLength: 1, maxLength: 200 }),
  type: Type.Optional(Type.Union([Type.Literal('string'), Type.Literal('number')])),
  fallback_value: Type.Optional(Type.Unsafe<string | number | null>({ type: ['string', 'number', 'null'] })),
});
const addresses = Type.Union([
  Type.String({ maxLength: 1_000 }),
  Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 50 }),
]);
const content = {
  alias: nullableText(200),
  subject: nullableText(100_000),
  text: nullableText(2_000_000),
  from: nullableText(1_000),
  reply_to: Type.Optional(addresses),
  variables: Type.Optional(Type.Array(variable, { maxItems: 50 })),
};
const newTemplate = open({
  name: Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH }),
  html: Type.String({ minLength: 1, maxLength: 2_000_000 }),
  ...content,
});
const changedTemplate = open({
  name: Type.Optional(Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH })),
  html: Type.Optional(Type.String({ minLength: 1, maxLength: 2_000_000 })),
  ...content,
});
type Change = Static<typeof changedTemplate>;

function sendersIn({ from, replyTo }: Senders): Senders {
  return { from, replyTo };
}

function readExtra({ extra }: TemplateExtra): Extra | undefined {
  if (extra === null) return undefined;
  const stored = JSON.parse(extra) as StoredExtra;
  const earlier = stored.publishedAt === null ? null : sendersIn(stored);
  return { ...stored, published: stored.published === undefined ? earlier : stored.published };
}

/** Returns the Postrider id for the UUID of a template; returns an alias unchanged. */
export function templateReference(identifier: string): string {
  return (isUuid(identifier) ? idOfUuid('tpl', identifier) : undefined) ?? identifier;
}

async function findExtra({ database }: ResendDoorDeps, context: EndpointContext, reference: string) {
  const [found] = await database.execute(findExtrasOperation, { ...ownerOf(context), references: [reference] });
  return found;
}

/** Returns the published default sender and reply addresses of a template; undefined if the template does not exist. */
export async function sendersOf(
  deps: ResendDoorDeps,
  context: EndpointContext,
  reference: string,
): Promise<{ from?: string; replyTo?: string[] } | undefined> {
  const found = await findExtra(deps, context, reference);
  if (found === undefined) return undefined;
  const extra = readExtra(found);
  // The send refuses a template without a published version, and names the template, not a missing sender.
  const { from, replyTo } = extra?.published ?? extra ?? {};
  return { ...(from && { from }), ...(replyTo && { replyTo }) };
}

interface FoundTemplate {
  template: TemplateBody;
  record: TemplateExtra;
  extra: Extra;
}

async function findByReference(
  deps: ResendDoorDeps,
  context: EndpointContext,
  reference: string,
): Promise<Result<FoundTemplate>> {
  const record = await findExtra(deps, context, reference);
  if (record === undefined) return NO_TEMPLATE;
  const found = await context.call('GET', `/templates/${record.id}`);
  if (!found.ok) return found;
  return ok({ template: found.body as TemplateBody, record, extra: extraOf(found.body, record) });
}

/** Returns the fields of this API. For a template of Postrider's API, the alias is its name, and every version is published. */
function extraOf({ name, updatedAt }: TemplateBody, record: TemplateExtra): Extra {
  const senders: Senders = { from: null, replyTo: null };
  return readExtra(record) ?? { name, alias: name, ...senders, publishedAt: updatedAt, published: senders };
}

const findTemplate = (deps: ResendDoorDeps, context: EndpointContext): Promise<Result<FoundTemplate>> =>
  findByReference(deps, context, templateReference(context.request.params.id ?? ''));

function summary({ template, record, extra }: FoundTemplate): Record<string, unknown> {
  return {
    id: uuidOf(template.templateId),
    name: extra.name,
    status: record.publishedVersion === 0 ? 'draft' : 'published',
    published_at: extra.publishedAt,
    created_at: template.createdAt,
    updated_at: template.updatedAt,
    alias: extra.alias,
  };
}

function fullBody(found: FoundTemplate): Record<string, unknown> {
  const { template, record, extra } = found;
  const { html, text, subject, createdAt, updatedAt, version } = template;
  const variables = template.variables.map(({ name: key, type, default: value }) => ({
    key,
    type,
    fallback_value: value ?? null,
    created_at: createdAt,
    updated_at: updatedAt,
  }));
  return {
    object: 'template',
    ...summary(found),
    from: extra.from,
    subject: subject === null ? null : fromLiquid(subject, 'text'),
    reply_to: extra.replyTo,
    html: html === null ? '' : fromLiquid(html, 'html'),
    text: text === null ? null : fromLiquid(text, 'text'),
    variables,
    has_unpublished_versions: record.publishedVersion !== null && record.publishedVersion < version,
    current_version_id: uuidAt(Date.parse(createdAt), Buffer.from(`${version}`)),
  };
}

/** Returns the body for Postrider's API: the changed parts, and the stored values of the others. */
function postriderBody(change: Change, found: FoundTemplate | undefined, extra: Extra): Record<string, unknown> {
  const current = found?.template;
  const part = (name: 'subject' | 'html' | 'text'): string | null => {
    const given = change[name];
    if (given === undefined) return current?.[name] ?? null;
    return given === null ? null : toLiquid(given, name === 'html' ? 'html' : 'text');
  };
  const variables = change.variables?.map(({ key: name, type = 'string', fallback_value: value }) => ({
    name,
    type,
    required: value === undefined || value === null,
    ...(value !== undefined && value !== null && { default: value }),
  }));
  return {
    name: postriderName(extra, found),
    subject: part('subject'),
    // Templates of Postrider can be written in MJML, from which the html is generated.
    ...(change.html === undefined && current?.mjml !== undefined && { mjml: current.mjml }),
    html: part('html'),
    text: part('text'),
    variables: variables ?? current?.variables ?? [],
  };
}

function changedExtra(change: Change, current: Extra | undefined): Extra {
  const { name = current?.name ?? '', reply_to: replyTo } = change;
  const replies = replyTo === undefined ? (current?.replyTo ?? null) : [replyTo].flat();
  return {
    name,
    alias: change.alias === undefined ? (current?.alias ?? null) : change.alias,
    from: change.from === undefined ? (current?.from ?? null) : change.from,
    replyTo: replies,
    publishedAt: current?.publishedAt ?? null,
    published: current?.published ?? null,
  };
}

/**
 * Returns the name in Postrider's API for a draft. Templates of this API can have the same name, but a name can only change with the name
 * or the alias.
 */
function postriderName(extra: Extra, current: FoundTemplate | undefined): string {
  if (extra.alias !== null) return extra.alias;
  const isKept = current !== undefined && current.extra.alias === null && current.extra.name === extra.name;
  return isKept ? current.template.name : extra.name;
}

/** Returns a name in Postrider's API for a template whose own name is taken. */
function suffixedName(name: string): string {
  return `${name.slice(0, MAX_NAME_LENGTH - 9).toWellFormed()} ${randomBytes(4).toString('hex')}`;
}

interface Draft {
  /** Undefined for a new template. */
  templateId?: string;
  extra: Extra;
  body: Record<string, unknown>;
}

/**
 * Saves a draft. If the name of a template without an alias is taken, the template gets another name in Postrider's API. If a template
 * without an alias has the name that is now wanted as an alias, that template gets another name.
 */
async function saveDraft(
  deps: ResendDoorDeps,
  context: EndpointContext,
  { templateId, extra, body }: Draft,
): ReturnType<EndpointContext['call']> {
  const { call } = context;
  const save = (name: unknown) =>
    templateId === undefined
      ? call('POST', '/templates', { query: DRAFT, body: { ...body, name } })
      : call('PUT', `/templates/${templateId}`, { query: DRAFT, body: { ...body, name } });
  const saved = await save(body.name);
  if (saved.ok || saved.failure.code !== 'CONFLICT') return saved;
  if (extra.alias === null) return save(suffixedName(extra.name));
  return (await freeAlias(deps, context, { alias: extra.alias, templateId })) ? save(body.name) : saved;
}

/**
 * Renames the template that has this alias as its name in Postrider's API, if it is another template without an alias. Returns whether the
 * alias is free now.
 */
async function freeAlias(
  deps: ResendDoorDeps,
  context: EndpointContext,
  { alias, templateId }: { alias: string; templateId: string | undefined },
): Promise<boolean> {
  const holder = await findExtra(deps, context, alias);
  const extra = holder && readExtra(holder);
  if (holder === undefined || extra === undefined || extra.alias !== null || holder.id === templateId) return false;
  const body = { name: suffixedName(extra.name) };
  const renamed = await context.call('PATCH', `/templates/${holder.id}`, { query: DRAFT, body });
  if (!renamed.ok) return false;
  if (holder.publishedVersion !== holder.version) return true;
  // The published content is unchanged, so the version with the other name is published too.
  const publishedVersion = (renamed.body as TemplateBody).version;
  return (await storeExtra(deps, context, { templateId: holder.id, extra, publishedVersion })).ok;
}

async function storeExtra(
  { database, clock, templatesChanged }: ResendDoorDeps,
  context: EndpointContext,
  wanted: { templateId: string; extra: Extra; publishedVersion?: number },
): Promise<EndpointAnswer> {
  const { templateId, extra, publishedVersion } = wanted;
  const outcome = await requestedChanges(database, context.request, clock.now()).execute(storeExtraOperation, {
    ...ownerOf(context),
    templateId,
    extra: JSON.stringify(extra),
    ...(publishedVersion !== undefined && { publishedVersion }),
  });
  templatesChanged(context.caller.account.id);
  if (outcome === 'written') return success({ object: 'template', id: uuidOf(templateId) });
  if (outcome === 'not-found') return NO_TEMPLATE;
  return refuse(failure('FORBIDDEN', { message: 'A sandbox key cannot change a live template. Use a live key.' }));
}

/** Creates a template without a published version. */
async function create(deps: ResendDoorDeps, context: EndpointContext, change: Change): Promise<EndpointAnswer> {
  const extra = changedExtra(change, undefined);
  const created = await saveDraft(deps, context, { extra, body: postriderBody(change, undefined, extra) });
  if (!created.ok) return created;
  return storeExtra(deps, context, { templateId: created.body.templateId, extra });
}

async function change(deps: ResendDoorDeps, context: EndpointContext<Change>): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { template } = found.value;
  const extra = changedExtra(context.body, found.value.extra);
  const { templateId } = template;
  const body = postriderBody(context.body, found.value, extra);
  const replaced = await saveDraft(deps, context, { templateId, extra, body });
  return replaced.ok ? storeExtra(deps, context, { templateId, extra }) : replaced;
}

async function publish(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { template, extra } = found.value;
  const published: Extra = { ...extra, publishedAt: iso(deps.clock.now()), published: sendersIn(extra) };
  const { templateId, version: publishedVersion } = template;
  return storeExtra(deps, context, { templateId, extra: published, publishedVersion });
}

/** Maximum number of names to try for a copy. */
const MAX_COPIES = 50;

async function duplicate(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { extra } = found.value;
  for (let number = 1; ; number += 1) {
    const name = `${extra.name} (Copy${number === 1 ? '' : ` ${number}`})`;
    const copy: Extra = { ...extra, name, alias: null, publishedAt: null, published: null };
    const body = postriderBody({}, found.value, copy);
    const created = await context.call('POST', '/templates', { query: DRAFT, body });
    if (created.ok) return storeExtra(deps, context, { templateId: created.body.templateId, extra: copy });
    if (created.failure.code !== 'CONFLICT' || number === MAX_COPIES) return created;
  }
}

/** Returns one page of templates with the fields of this API. */
async function listTemplates(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const page = await list<TemplateBody>(context, {
    path: '/templates',
    keyOf: (id) => keyOf(idOfUuid('tpl', id)),
    idOf: ({ templateId }) => uuidOf(templateId),
    show: (row) => row,
  });
  if (!page.ok) return page;
  const { has_more: hasMore, data } = page.body as { has_more: boolean; data: TemplateBody[] };
  const references = data.map(({ templateId }) => templateId);
  const records = await deps.database.execute(findExtrasOperation, { ...ownerOf(context), references });
  const byId = new Map(records.map((record) => [record.id, record]));
  const summaries = data.flatMap((template) => {
    const record = byId.get(template.templateId);
    return record === undefined ? [] : [summary({ template, record, extra: extraOf(template, record) })];
  });
  return listBody(summaries, hasMore);
}

export function templateEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      method: 'POST',
      path: '/templates',
      summary: 'Create a template as a draft',
      status: 201,
      body: newTemplate,
      maxBodyBytes: 8_000_000,
      handle: (context) => create(deps, context, context.body),
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/templates',
      summary: 'List templates, newest first',
      handle: (context) => listTemplates(deps, context),
    }),
    endpoint(deps, {
      method: 'GET',
      path: '/templates/:id',
      summary: 'Get a template by its id or alias',
      handle: async (context) => {
        const found = await findTemplate(deps, context);
        return found.ok ? success(fullBody(found.value)) : found;
      },
    }),
    endpoint(deps, {
      method: 'PATCH',
      path: '/templates/:id',
      summary: 'Change the draft of a template',
      body: changedTemplate,
      maxBodyBytes: 8_000_000,
      handle: (context) => change(deps, context),
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/templates/:id/publish',
      summary: 'Publish the draft of a template',
      handle: (context) => publish(deps, context),
    }),
    endpoint(deps, {
      method: 'POST',
      path: '/templates/:id/duplicate',
      summary: 'Copy a template',
      status: 201,
      handle: (context) => duplicate(deps, context),
    }),
    endpoint(deps, {
      method: 'DELETE',
      path: '/templates/:id',
      summary: 'Delete a template',
      handle: async (context) => {
        const found = await findTemplate(deps, context);
        if (!found.ok) return found;
        const { templateId } = found.value.template;
        const removed = await context.call('DELETE', `/templates/${templateId}`);
        return removed.ok ? success({ object: 'template', id: uuidOf(templateId), deleted: true }) : removed;
      },
    }),
  ];
}
