/**
 * `/templates`: stored templates, their versions, and previews. Live ones are read in both modes; those made with a sandbox key
 * exist there only. What is another's answers as if it did not exist. What does not parse is refused when it is saved, with line and column, and never stored.
 */

import { type Static, Type } from 'typebox';
import type { Caller } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, type Issue, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { timeSlice, yieldToEventLoop } from '../base/time-slice.ts';
import { pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { closed, confirmationSchema } from '../http/validate.ts';
import { limitReached } from '../limits/limits.ts';
import type { Database } from '../storage/database.ts';
import {
  contentOf,
  declarationsLeft,
  MAX_TEMPLATE_BYTES,
  type RenderSourcesRequest,
  renderRequest,
  renderResponse,
  renderSourcesRequest,
  type TemplateRequest,
  templateRequest,
  templateSchema,
  versionSchema,
  writeQuery,
} from './bodies.ts';
import type { Rendered, ToRender } from './render.ts';
import type { TemplateSource } from './source.ts';
import {
  createTemplateOperation,
  findTemplateOperation,
  listTemplatesOperation,
  listVersionsOperation,
  type Rows,
  removeTemplateOperation,
  replaceTemplateOperation,
  restoreTemplateOperation,
  type TemplateKey,
  type TemplateRefusal,
  type Written,
} from './store.ts';
import {
  hasSlot,
  inLayout,
  isTemplateId,
  type Template,
  type TemplateContent,
  templateBody,
  versionBody,
} from './template.ts';
import { contentIssues, emptyIssues, nameIssues, preview, validateContent, validateSources } from './validate.ts';

export interface TemplateRouteDeps {
  database: Database;
  clock: Clock;
  /** The one that sends use, so that they feel changes at once. */
  templates: TemplateSource;
  render(mail: ToRender): Result<Rendered>;
  /** Where the unsubscribe link of a preview leads; asked at each preview. */
  previewUnsubscribeUrl(): string;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;
type PageQuery = { limit?: number; cursor?: string };
type WriteRequest = Request<TemplateRequest, Static<typeof writeQuery>>;

const noSuchTemplate = refuse(failure('NOT_FOUND', { message: 'No template has this id.' }));
const noSuchVersion = refuse(failure('NOT_FOUND', { message: 'No template has this id and version.' }));

const conflict = (field: string, message: string): Failure =>
  failure('CONFLICT', { message, details: [{ field, message }] });

const REFUSALS: Record<TemplateRefusal, Failure> = {
  'not-found': noSuchTemplate.failure,
  'is-live': failure('FORBIDDEN', {
    message:
      'A sandbox key may not change a live template; make one of the same name with POST /templates, which stands before it in the sandbox, or use a live key of scope full.',
  }),
  'name-taken': conflict('name', 'Another template of this account has this name; names are unique.'),
  'layout-unknown': failure('NOT_FOUND', {
    message: 'No template of this account has this layoutTemplateId.',
    details: [{ field: 'layoutTemplateId', message: 'is not the id of a template of this account' }],
  }),
  'layout-without-slot': conflict('layoutTemplateId', 'The html of that template has no {{ content }} to be filled.'),
  'layout-has-layout': conflict('layoutTemplateId', 'A template that has a layout itself cannot be one.'),
  'is-layout': conflict('layoutTemplateId', 'Other templates use this one as their layout, so it cannot have one.'),
  'slot-needed': conflict('html', 'Other templates use this one as their layout; its html needs {{ content }}.'),
  'in-use': conflict('templateId', 'Other templates use this one as their layout; change or delete them first.'),
};

/** Whose templates, as which mode sees them. */
function ownerOf({ caller }: Request<unknown>): Omit<TemplateKey, 'templateId'> {
  return { accountId: caller.account.id, mode: caller.mode };
}

function keyOf(request: Request<unknown>): TemplateKey {
  return { ...ownerOf(request), templateId: request.params.id ?? '' };
}

/** All calls below /templates. */
export function templateRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...writeRoutes(deps), ...versionRoutes(deps), ...previewRoutes(deps)];
}

/** A page that ended before its limit, because its rows are large, still has one behind it. */
function listAnswer<T>(
  request: Request<unknown>,
  list: Rows<T>,
  as: { after: readonly (string | number)[] | undefined; keyOf(row: T): string | number; show(row: T): unknown },
): RouteAnswer {
  const page = { limit: list.rows.length, after: as.after };
  const rows = list.more ? [...list.rows, list.rows[0] as T] : list.rows;
  return pageAnswer(request, { page, rows, keyOf: (row) => [as.keyOf(row)], show: as.show });
}

function readRoutes({ database }: TemplateRouteDeps): RouteDefinition<Caller>[] {
  return [
    defineRoute({
      ...{ method: 'GET', path: '/templates', tag: 'templates', auth: 'key' },
      operationId: 'listTemplates',
      summary: 'List templates, newest first',
      description: 'A page of large templates may be shorter than its limit; Link tells whether there is more.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(templateSchema) },
      async handle(request: Request<undefined, PageQuery>) {
        const page = readPage(request.query, ['tpl_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const before = after === undefined ? null : String(after[0]);
        const asked = { ...ownerOf(request), before, limit };
        const list = await database.execute(listTemplatesOperation, asked);
        return listAnswer(request, list, { after, keyOf: (row) => row.id, show: templateBody });
      },
    }),
    defineRoute({
      ...{ method: 'GET', path: '/templates/:id', tag: 'templates', auth: 'key' },
      operationId: 'getTemplate',
      summary: 'Get the current version of a template',
      description: 'By its id; a send may also use its name.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: templateSchema },
      async handle(request: Request) {
        const found = await database.execute(findTemplateOperation, keyOf(request));
        return found ? answer(templateBody(found)) : noSuchTemplate;
      },
    }),
  ];
}

/** Whether a template with its layout is still within the limits; nothing when it has none. */
async function validateWithin(deps: TemplateRouteDeps, owner: ReturnType<typeof ownerOf>, content: TemplateContent) {
  if (content.layoutId === null) return ok(undefined);
  const layout = await deps.database.execute(findTemplateOperation, { ...owner, templateId: content.layoutId });
  // One that is not there is refused where the template is written.
  if (!layout) return ok(undefined);
  const within = inLayout(content, layout);
  return within.ok ? validateSources(within.value, 'within this layout') : within;
}

function writtenAnswer(deps: TemplateRouteDeps, accountId: string, written: Written): RouteAnswer {
  if ('limit' in written) return refuse(limitReached(written));
  if ('refused' in written) return refuse(REFUSALS[written.refused]);
  deps.templates.changed(accountId);
  return answer(templateBody(written.template));
}

/** Issues of a template's fields that fit the schema where others do not. */
function furtherIssues(fields: Partial<TemplateRequest>, malformed: ReadonlySet<string>): Issue[] {
  return [
    ...(fields.name === undefined ? [] : nameIssues(fields.name)),
    ...(malformed.has('text') ? [] : emptyIssues({ html: fields.html ?? null, text: fields.text ?? null })),
    ...furtherContentIssues(fields),
  ];
}

function furtherContentIssues({ variables = [], ...parts }: RenderSourcesRequest): Issue[] {
  return contentIssues({ ...contentOf(parts), variables: declarationsLeft(variables) });
}

function writeRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const write = async (
    request: WriteRequest,
    wish: { templateId: string; operation: typeof createTemplateOperation },
  ): Promise<RouteAnswer> => {
    const owner = ownerOf(request);
    await timeSlice();
    const content = contentOf(request.body);
    const valid = validateContent(content, request.body);
    if (!valid.ok) return valid;
    const within = await validateWithin(deps, owner, content);
    if (!within.ok) return within;
    const { templateId } = wish;
    const isDraft = request.query.publish === false;
    const made = { ...owner, templateId, name: request.body.name, content, isDraft, nowMs: clock.now() };
    return writtenAnswer(
      deps,
      owner.accountId,
      await requestedChanges(database, request, clock.now()).execute(wish.operation, made),
    );
  };
  const shared = {
    tag: 'templates',
    auth: 'key',
    body: templateRequest,
    query: writeQuery,
    maxBodyBytes: MAX_TEMPLATE_BYTES,
    furtherIssues,
  } as const;
  return [
    defineRoute({
      ...{ ...shared, method: 'POST', path: '/templates' },
      operationId: 'createTemplate',
      summary: 'Create a template',
      description: 'Content in the Liquid language; a mistake is answered with its line and column.',
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND', 'CONFLICT', 'LIMIT_REACHED'],
      response: { status: 201, schema: templateSchema },
      handle: (request: WriteRequest) =>
        write(request, { templateId: newId('tpl', clock.now()), operation: createTemplateOperation }),
    }),
    defineRoute({
      ...{ ...shared, method: 'PUT', path: '/templates/:id' },
      operationId: 'replaceTemplate',
      summary: 'Replace a template, as a new version',
      description: 'Replaces the whole. Sends from now on use the new version; accepted mail stays as it is.',
      refusals: ['TEMPLATE_INVALID', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: templateSchema },
      handle: (request: WriteRequest) =>
        write(request, { templateId: keyOf(request).templateId, operation: replaceTemplateOperation }),
    }),
    defineRoute({
      ...{ method: 'DELETE', path: '/templates/:id', tag: 'templates', auth: 'key' },
      operationId: 'deleteTemplate',
      summary: 'Delete a template and all its versions',
      description: 'Mail that was accepted, scheduled mail too, is not touched: it was composed when it was accepted.',
      refusals: ['FORBIDDEN', 'NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: confirmationSchema },
      async handle(request: Request) {
        const key = keyOf(request);
        const outcome = await requestedChanges(database, request, clock.now()).execute(removeTemplateOperation, key);
        if (outcome !== 'removed') return refuse(REFUSALS[outcome]);
        deps.templates.changed(key.accountId);
        return answer({ message: 'The template and its versions were deleted.' });
      },
    }),
  ];
}

function versionRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  return [
    defineRoute({
      ...{ method: 'GET', path: '/templates/:id/versions', tag: 'templates', auth: 'key' },
      operationId: 'listTemplateVersions',
      summary: 'List the versions of a template, newest first',
      description: 'Every PUT and every restore made one.',
      refusals: ['NOT_FOUND'],
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(versionSchema) },
      async handle(request: Request<undefined, PageQuery>) {
        const page = readPage(request.query, ['number']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const before = after === undefined ? null : Math.trunc(Number(after[0]));
        const list = await database.execute(listVersionsOperation, { ...keyOf(request), before, limit });
        if (!list) return noSuchTemplate;
        return listAnswer(request, list, { after, keyOf: (row) => row.version, show: versionBody });
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/templates/:id/versions/:version/restore', tag: 'templates', auth: 'key' },
      operationId: 'restoreTemplateVersion',
      summary: 'Restore a version, as a new version',
      description: 'The template keeps the name it has.',
      refusals: ['FORBIDDEN', 'NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: templateSchema },
      async handle(request: Request) {
        const version = Number(/^[1-9]\d{0,8}$/.exec(request.params.version ?? '')?.[0]);
        if (Number.isNaN(version)) return noSuchVersion;
        const key = keyOf(request);
        const written = await requestedChanges(database, request, clock.now()).execute(restoreTemplateOperation, {
          ...key,
          version,
          nowMs: clock.now(),
        });
        if ('refused' in written && written.refused === 'not-found') return noSuchVersion;
        if ('refused' in written && written.refused === 'layout-unknown') {
          return refuse(conflict('layoutTemplateId', 'The layout of this version was deleted.'));
        }
        return writtenAnswer(deps, key.accountId, written);
      },
    }),
  ];
}

function previewRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  const { database, templates, render, previewUnsubscribeUrl } = deps;
  const depsFor = (caller: Caller) => ({
    ...{ render, unsubscribeUrl: previewUnsubscribeUrl() },
    ownVariables: caller.account.settings.variables,
  });
  return [
    defineRoute({
      ...{ method: 'POST', path: '/templates/:id/render', tag: 'templates', auth: 'key' },
      operationId: 'renderTemplate',
      summary: 'Preview a template',
      description: 'Variables without a value are left empty and listed.',
      body: renderRequest,
      bodyOptional: true,
      maxBodyBytes: MAX_TEMPLATE_BYTES,
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND'],
      response: { status: 200, schema: renderResponse },
      async handle(request: Request<Static<typeof renderRequest>>) {
        const { templateId } = keyOf(request);
        const found = isTemplateId(templateId) ? await templates.findPresent(ownerOf(request), templateId) : undefined;
        if (!found) return noSuchTemplate;
        if ('unusable' in found) return refuse(found.unusable);
        await timeSlice();
        const shown = preview(found, request.body.templateVariables ?? {}, depsFor(request.caller));
        return shown.ok ? answer(shown.value) : shown;
      },
    }),
    defineRoute({
      ...{ method: 'POST', path: '/templates/render', tag: 'templates', auth: 'key' },
      operationId: 'renderTemplateSources',
      summary: 'Preview an unsaved template',
      description: 'Variables without a value are left empty and listed.',
      body: renderSourcesRequest,
      furtherIssues: furtherContentIssues,
      maxBodyBytes: MAX_TEMPLATE_BYTES,
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND'],
      response: { status: 200, schema: renderResponse },
      async handle(request: Request<RenderSourcesRequest>) {
        await timeSlice();
        const content = contentOf(request.body);
        const valid = validateContent(content);
        if (!valid.ok) return valid;
        const { layoutId } = content;
        let layout: Template | undefined;
        if (layoutId !== null) {
          const key = { ...ownerOf(request), templateId: layoutId };
          layout = await database.execute(findTemplateOperation, key);
          if (!layout) return refuse(REFUSALS['layout-unknown']);
          if (layout.layoutId !== null) return refuse(REFUSALS['layout-has-layout']);
          if (!hasSlot(layout.html)) return refuse(REFUSALS['layout-without-slot']);
        }
        await yieldToEventLoop();
        const sources = layout === undefined ? ok(content) : inLayout(content, layout);
        if (!sources.ok) return sources;
        const toPreview = { ...sources.value, declared: content.variables };
        const shown = preview(toPreview, request.body.templateVariables ?? {}, depsFor(request.caller));
        return shown.ok ? answer(shown.value) : shown;
      },
    }),
  ];
}
