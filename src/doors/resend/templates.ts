/**
 * Implements Resend's /templates: stored templates with a draft and a published version. Sends use the published version. The alias of a
 * template is its name in Postrider's API. The name that this API returns, the default sender, and the reply addresses are stored with the
 * template.
 */
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

/** The fields that only this API has. They are stored with the template as JSON. */
interface Extra {
  name: string;
  alias: string | null;
  from: string | null;
  replyTo: string[] | null;
  publishedAt: string | null;
}

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
  name: Type.String({ minLength: 1, maxLength: 200 }),
  html: Type.String({ minLength: 1, maxLength: 2_000_000 }),
  ...content,
});
const changedTemplate = open({
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  html: Type.Optional(Type.String({ minLength: 1, maxLength: 2_000_000 })),
  ...content,
});
type Change = Static<typeof changedTemplate>;

function readExtra({ extra }: TemplateExtra): Extra | undefined {
  return extra === null ? undefined : (JSON.parse(extra) as Extra);
}

/** Returns the Postrider id for the UUID of a template; returns an alias unchanged. */
export function templateReference(identifier: string): string {
  return (isUuid(identifier) ? idOfUuid('tpl', identifier) : undefined) ?? identifier;
}

async function findExtra({ database }: ResendDoorDeps, context: EndpointContext, reference: string) {
  const [found] = await database.execute(findExtrasOperation, { ...ownerOf(context), references: [reference] });
  return found;
}

/** Returns the default sender and reply addresses of a template; undefined if the template does not exist. */
export async function sendersOf(
  deps: ResendDoorDeps,
  context: EndpointContext,
  reference: string,
): Promise<{ from?: string; replyTo?: string[] } | undefined> {
  const found = await findExtra(deps, context, reference);
  if (found === undefined) return undefined;
  const { from, replyTo } = readExtra(found) ?? {};
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
  return readExtra(record) ?? { name, alias: name, from: null, replyTo: null, publishedAt: updatedAt };
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
function postriderBody(change: Change, current: TemplateBody | undefined, extra: Extra): Record<string, unknown> {
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
    name: extra.alias ?? extra.name,
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
  };
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
  const created = await context.call('POST', '/templates', {
    query: DRAFT,
    body: postriderBody(change, undefined, extra),
  });
  if (!created.ok) return created;
  return storeExtra(deps, context, { templateId: created.body.templateId, extra });
}

async function change(deps: ResendDoorDeps, context: EndpointContext<Change>): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { template } = found.value;
  const extra = changedExtra(context.body, found.value.extra);
  const { templateId } = template;
  const replaced = await context.call('PUT', `/templates/${templateId}`, {
    query: DRAFT,
    body: postriderBody(context.body, template, extra),
  });
  return replaced.ok ? storeExtra(deps, context, { templateId, extra }) : replaced;
}

async function publish(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { template, extra } = found.value;
  const published = { ...extra, publishedAt: iso(deps.clock.now()) };
  const { templateId, version: publishedVersion } = template;
  return storeExtra(deps, context, { templateId, extra: published, publishedVersion });
}

/** Maximum number of names to try for a copy. */
const MAX_COPIES = 50;

async function duplicate(deps: ResendDoorDeps, context: EndpointContext): Promise<EndpointAnswer> {
  const found = await findTemplate(deps, context);
  if (!found.ok) return found;
  const { template, extra } = found.value;
  for (let number = 1; ; number += 1) {
    const name = `${extra.name} (Copy${number === 1 ? '' : ` ${number}`})`;
    const copy: Extra = { ...extra, name, alias: null, publishedAt: null };
    const created = await context.call('POST', '/templates', { query: DRAFT, body: postriderBody({}, template, copy) });
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
