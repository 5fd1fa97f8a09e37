/**
 * /templates: stored templates with a draft and a published version. A send uses the published one. The alias of a template is the name
 * that it has in our API; its name, default sender, and reply addresses are kept with it.
 */
import { type Static, Type } from 'typebox';
import type { Caller } from '../../accounts/accounts.ts';
import { requestedChanges } from '../../audit/audit.ts';
import { iso } from '../../base/clock.ts';
import { failure, ok, type Result, refuse } from '../../base/failure.ts';
import { idOfUuid, isUuid, uuidAt, uuidOf } from '../../base/uuid-id.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { describeTemplateOperation, findExtrasOperation, type TemplateExtra } from '../../templates/templates.ts';
import { keyOf } from './domains.ts';
import { type Asked, endpoint, NOT_FOUND, open, type ResendDoorDeps, type Said, said } from './endpoint.ts';
import { list, listBody } from './lists.ts';
import { fromLiquid, toLiquid } from './template-syntax.ts';

/** What is kept with a template, as JSON. */
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
  html: string | null;
  text: string | null;
  variables: { name: string; type: string; required: boolean; default?: unknown }[];
  version: number;
  createdAt: string;
  updatedAt: string;
}

/** A new version that sends do not use yet. */
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

const ownerOf = ({ caller }: Asked) => ({ accountId: caller.account.id, mode: caller.mode });

function readExtra({ extra }: TemplateExtra): Extra | undefined {
  return extra === null ? undefined : (JSON.parse(extra) as Extra);
}

/** Our id of a template, or its alias. */
function referenceOf(identifier: string): string {
  return (isUuid(identifier) ? idOfUuid('tpl', identifier) : undefined) ?? identifier;
}

async function findExtra({ database }: ResendDoorDeps, asked: Asked, reference: string) {
  const [found] = await database.execute(findExtrasOperation, { ...ownerOf(asked), references: [reference] });
  return found;
}

/** The sender and the reply addresses that a template has, for a send that gives none; undefined where there is no such template. */
export async function sendersOf(
  deps: ResendDoorDeps,
  asked: Asked,
  reference: string,
): Promise<{ from?: string; replyTo?: string[] } | undefined> {
  const found = await findExtra(deps, asked, reference);
  if (found === undefined) return undefined;
  const { from, replyTo } = readExtra(found) ?? {};
  return { ...(from && { from }), ...(replyTo && { replyTo }) };
}

interface Found {
  template: TemplateBody;
  record: TemplateExtra;
  extra: Extra;
}

async function findByReference(deps: ResendDoorDeps, asked: Asked, reference: string): Promise<Result<Found>> {
  const record = await findExtra(deps, asked, reference);
  if (record === undefined) return NO_TEMPLATE;
  const found = await asked.call('GET', `/templates/${record.id}`);
  if (!found.ok) return found;
  return ok({ template: found.body as TemplateBody, record, extra: extraOf(found.body, record) });
}

/** Of a template of our own API its name stands for name and alias, and each version is published when it is made. */
function extraOf({ name, updatedAt }: TemplateBody, record: TemplateExtra): Extra {
  return readExtra(record) ?? { name, alias: name, from: null, replyTo: null, publishedAt: updatedAt };
}

const findTemplate = (deps: ResendDoorDeps, asked: Asked): Promise<Result<Found>> =>
  findByReference(deps, asked, referenceOf(asked.request.params.id ?? ''));

function summary({ template, record, extra }: Found): Record<string, unknown> {
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

function whole(found: Found): Record<string, unknown> {
  const { template, record, extra } = found;
  const { html, text, subject, createdAt, updatedAt, version } = template;
  const variables = template.variables.map(({ name: key, type, default: value }) => ({
    ...{ key, type, fallback_value: value ?? null, created_at: createdAt, updated_at: updatedAt },
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

/** The body of our template: what the change gives, and what is there otherwise. */
function ownBody(change: Change, present: TemplateBody | undefined, extra: Extra): Record<string, unknown> {
  const part = (name: 'subject' | 'html' | 'text'): string | null => {
    const given = change[name];
    if (given === undefined) return present?.[name] ?? null;
    return given === null ? null : toLiquid(given, name === 'html' ? 'html' : 'text');
  };
  const variables = change.variables?.map(({ key: name, type = 'string', fallback_value: value }) => ({
    ...{ name, type, required: value === undefined || value === null },
    ...(value !== undefined && value !== null && { default: value }),
  }));
  return {
    ...{ name: extra.alias ?? extra.name, subject: part('subject'), html: part('html'), text: part('text') },
    variables: variables ?? present?.variables ?? [],
  };
}

function changedExtra(change: Change, present: Extra | undefined): Extra {
  const { name = present?.name ?? '', reply_to: replyTo } = change;
  const replies = replyTo === undefined ? (present?.replyTo ?? null) : [replyTo].flat();
  return {
    name,
    alias: change.alias === undefined ? (present?.alias ?? null) : change.alias,
    from: change.from === undefined ? (present?.from ?? null) : change.from,
    replyTo: replies,
    publishedAt: present?.publishedAt ?? null,
  };
}

async function describe(
  { database, clock, templatesChanged }: ResendDoorDeps,
  asked: Asked,
  wish: { templateId: string; extra: Extra; publishedVersion?: number },
): Promise<Said> {
  const { templateId, extra, publishedVersion } = wish;
  const outcome = await requestedChanges(database, asked.request, clock.now()).execute(describeTemplateOperation, {
    ...{ ...ownerOf(asked), templateId, extra: JSON.stringify(extra) },
    ...(publishedVersion !== undefined && { publishedVersion }),
  });
  templatesChanged(asked.caller.account.id);
  if (outcome === 'written') return said({ object: 'template', id: uuidOf(templateId) });
  if (outcome === 'not-found') return NO_TEMPLATE;
  return refuse(failure('FORBIDDEN', { message: 'A sandbox key may not change a live template; use a live key.' }));
}

/** Creates a template that is not published. */
async function create(deps: ResendDoorDeps, asked: Asked, change: Change): Promise<Said> {
  const extra = changedExtra(change, undefined);
  const made = await asked.call('POST', '/templates', { query: DRAFT, body: ownBody(change, undefined, extra) });
  if (!made.ok) return made;
  return describe(deps, asked, { templateId: made.body.templateId, extra });
}

async function change(deps: ResendDoorDeps, asked: Asked<Change>): Promise<Said> {
  const found = await findTemplate(deps, asked);
  if (!found.ok) return found;
  const { template } = found.value;
  const extra = changedExtra(asked.body, found.value.extra);
  const { templateId } = template;
  const replaced = await asked.call('PUT', `/templates/${templateId}`, {
    ...{ query: DRAFT, body: ownBody(asked.body, template, extra) },
  });
  return replaced.ok ? describe(deps, asked, { templateId, extra }) : replaced;
}

async function publish(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const found = await findTemplate(deps, asked);
  if (!found.ok) return found;
  const { template, extra } = found.value;
  const published = { ...extra, publishedAt: iso(deps.clock.now()) };
  const { templateId, version: publishedVersion } = template;
  return describe(deps, asked, { templateId, extra: published, publishedVersion });
}

const COPIES = 50;

async function duplicate(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const found = await findTemplate(deps, asked);
  if (!found.ok) return found;
  const { template, extra } = found.value;
  for (let number = 1; ; number += 1) {
    const name = `${extra.name} (Copy${number === 1 ? '' : ` ${number}`})`;
    const copy: Extra = { ...extra, name, alias: null, publishedAt: null };
    const made = await asked.call('POST', '/templates', { query: DRAFT, body: ownBody({}, template, copy) });
    if (made.ok) return describe(deps, asked, { templateId: made.body.templateId, extra: copy });
    if (made.failure.code !== 'CONFLICT' || number === COPIES) return made;
  }
}

/** The templates of one page of our list, with what is kept with them. */
async function listTemplates(deps: ResendDoorDeps, asked: Asked): Promise<Said> {
  const page = await list<TemplateBody>(asked, {
    path: '/templates',
    keyOf: (id) => keyOf(idOfUuid('tpl', id)),
    idOf: ({ templateId }) => uuidOf(templateId),
    show: (row) => row,
  });
  if (!page.ok) return page;
  const { has_more: hasMore, data } = page.body as { has_more: boolean; data: TemplateBody[] };
  const references = data.map(({ templateId }) => templateId);
  const records = await deps.database.execute(findExtrasOperation, { ...ownerOf(asked), references });
  const byId = new Map(records.map((record) => [record.id, record]));
  const shown = data.flatMap((template) => {
    const record = byId.get(template.templateId);
    return record === undefined ? [] : [summary({ template, record, extra: extraOf(template, record) })];
  });
  return listBody(shown, hasMore);
}

export function templateEndpoints(deps: ResendDoorDeps): RouteDefinition<Caller>[] {
  return [
    endpoint(deps, {
      ...{ method: 'POST', path: '/templates', summary: 'Create a draft of a template', status: 201 },
      body: newTemplate,
      maxBodyBytes: 8_000_000,
      handle: (asked) => create(deps, asked, asked.body),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/templates', summary: 'List templates, newest first' },
      handle: (asked) => listTemplates(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'GET', path: '/templates/:id', summary: 'Show a template, by its id or alias' },
      handle: async (asked) => {
        const found = await findTemplate(deps, asked);
        return found.ok ? said(whole(found.value)) : found;
      },
    }),
    endpoint(deps, {
      ...{ method: 'PATCH', path: '/templates/:id', summary: 'Change the draft of a template' },
      body: changedTemplate,
      maxBodyBytes: 8_000_000,
      handle: (asked) => change(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/templates/:id/publish', summary: 'Publish the draft of a template' },
      handle: (asked) => publish(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'POST', path: '/templates/:id/duplicate', summary: 'Copy a template', status: 201 },
      handle: (asked) => duplicate(deps, asked),
    }),
    endpoint(deps, {
      ...{ method: 'DELETE', path: '/templates/:id', summary: 'Delete a template' },
      handle: async (asked) => {
        const found = await findTemplate(deps, asked);
        if (!found.ok) return found;
        const { templateId } = found.value.template;
        const removed = await asked.call('DELETE', `/templates/${templateId}`);
        return removed.ok ? said({ object: 'template', id: uuidOf(templateId), deleted: true }) : removed;
      },
    }),
  ];
}
