/**
 * Defines the routes below `/templates`: stored templates, their versions, and previews. Sandbox keys can also read live templates;
 * templates created with a sandbox key exist only in the sandbox. A template of another account is treated as missing. If a template does
 * not parse, the request to save it fails with the line and column of the error.
 */
import type { Static } from 'typebox';
import { type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, type Issue, invalid, ok, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import { timeSlice } from '../base/time-slice.ts';
import { type PageQuery, pageAnswer, pageFields, readPage } from '../http/paging.ts';
import { merge, whileOutdated } from '../http/patch.ts';
import { answer, defineRoute, type RouteAnswer, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import { closed, confirmationSchema } from '../http/validate.ts';
import { limitReached } from '../limits/limits.ts';
import {
  contentOf,
  MAX_SAMPLES_BYTES,
  MAX_TEMPLATE_BYTES,
  type RenderSourcesRequest,
  renderRequest,
  renderResponse,
  renderSourcesRequest,
  samplesRequest,
  type TemplateChange,
  type TemplateRequest,
  templateChange,
  templateRequest,
  templateSchema,
  versionSchema,
  writeQuery,
} from '../templates/bodies.ts';
import { createPreviews, furtherContentIssues, type PreviewDeps, type Viewer } from '../templates/previews.ts';
import { conflict, noSuchTemplate, REFUSALS } from '../templates/refusals.ts';
import {
  createTemplateOperation,
  findTemplateOperation,
  listTemplatesOperation,
  listVersionsOperation,
  type Rows,
  removeTemplateOperation,
  replaceTemplateOperation,
  restoreTemplateOperation,
  storeSamplesOperation,
  type TemplateKey,
  type WriteResult,
} from '../templates/store.ts';
import { inLayout, type Template, type TemplateContent, templateBody, versionBody } from '../templates/template.ts';
import { emptyIssues, nameIssues, validateContent, validateSources, withGeneratedHtml } from '../templates/validate.ts';

export interface TemplateRouteDeps extends PreviewDeps {
  clock: Clock;
}

type Request<B = undefined, Q = unknown> = RouteRequest<Caller, B, Q>;
type WriteRequest<B = TemplateRequest> = Request<B, Static<typeof writeQuery>>;

const noSuchVersion = refuse(failure('NOT_FOUND', { message: 'No template has this id and version.' }));

function viewerOf(request: Request<unknown>): Viewer {
  return { ...ownerOf(request), variables: request.caller.account.settings.variables };
}

function keyOf(request: Request<unknown>): TemplateKey {
  return { ...ownerOf(request), templateId: request.params.id ?? '' };
}

/** Returns all routes below /templates. */
export function templateRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  return [...readRoutes(deps), ...writeRoutes(deps), sampleRoute(deps), ...versionRoutes(deps), ...previewRoutes(deps)];
}

/** Returns a page of rows. A page that is shorter than its limit, because its rows are large, still links to the next one. */
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
      method: 'GET',
      path: '/templates',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'listTemplates',
      summary: 'List templates, newest first',
      description:
        'A page of large templates may be shorter than its limit. The Link header is present if there are more templates.',
      query: closed(pageFields),
      response: { status: 200, schema: Type.Array(templateSchema) },
      async handle(request: Request<undefined, PageQuery>) {
        const page = readPage(request.query, ['tpl_']);
        if (!page.ok) return page;
        const { after, limit } = page.value;
        const before = after === undefined ? null : String(after[0]);
        const requested = { ...ownerOf(request), before, limit };
        const list = await database.execute(listTemplatesOperation, requested);
        return listAnswer(request, list, { after, keyOf: (row) => row.id, show: templateBody });
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/templates/:id',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'getTemplate',
      summary: 'Get the current version of a template',
      description: 'Finds the template by its ID; POST /send also accepts its name.',
      refusals: ['NOT_FOUND'],
      response: { status: 200, schema: templateSchema },
      async handle(request: Request) {
        const found = await database.execute(findTemplateOperation, keyOf(request));
        return found ? answer(templateBody(found)) : noSuchTemplate;
      },
    }),
  ];
}

/** Checks that a template is within the limits together with its layout, if it has one. */
async function validateInLayout(deps: TemplateRouteDeps, owner: ReturnType<typeof ownerOf>, content: TemplateContent) {
  if (content.layoutId === null) return ok(undefined);
  const layout = await deps.database.execute(findTemplateOperation, { ...owner, templateId: content.layoutId });
  // A missing layout is refused when the template is written.
  if (!layout) return ok(undefined);
  const within = inLayout(content, layout);
  return within.ok ? validateSources(within.value, 'within this layout') : within;
}

function writtenAnswer(deps: TemplateRouteDeps, accountId: string, written: WriteResult): RouteAnswer {
  if ('limit' in written) return refuse(limitReached(written));
  if ('refused' in written) return refuse(REFUSALS[written.refused]);
  deps.templates.changed(accountId);
  return answer(templateBody(written.template));
}

/** Returns the issues of a template's valid fields when other fields violate the schema. */
function furtherIssues(fields: Partial<TemplateRequest>, malformed: ReadonlySet<string>): Issue[] {
  return [
    ...(fields.name === undefined ? [] : nameIssues(fields.name)),
    ...(malformed.has('text') || malformed.has('mjml')
      ? []
      : emptyIssues({ mjml: fields.mjml ?? null, html: fields.html ?? null, text: fields.text ?? null })),
    ...furtherContentIssues(fields),
  ];
}

/** Returns the issues of a change's valid fields. The stored values of omitted fields are unknown here. */
function furtherChangeIssues({ name, ...parts }: Partial<TemplateChange>): Issue[] {
  return [...(name === undefined ? [] : nameIssues(name)), ...furtherContentIssues(parts)];
}

const GENERATED = 'is generated from the mjml of this template. Change mjml, or set it to "" to write html by hand';

/** Returns the stored fields of a template in the form of a PUT body. */
function storedFields({ name, type, subject, mjml, html, text, layoutId, variables }: Template): TemplateRequest {
  return { name, type, subject, mjml, html, text, layoutTemplateId: layoutId, variables };
}

function writeRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  const write = async (
    request: WriteRequest<unknown>,
    options: { body: TemplateRequest; templateId: string; operation: typeof createTemplateOperation; basis?: number },
  ): Promise<RouteAnswer | 'outdated'> => {
    const owner = ownerOf(request);
    await timeSlice();
    const { body, operation, ...target } = options;
    const given = contentOf(body);
    const valid = validateContent(given, body);
    if (!valid.ok) return valid;
    const generated = await withGeneratedHtml(given, owner.accountId);
    if (!generated.ok) return generated;
    const content = generated.value;
    const within = await validateInLayout(deps, owner, content);
    if (!within.ok) return within;
    const isDraft = request.query.publish === false;
    const input = { ...owner, ...target, name: body.name, content, isDraft, nowMs: clock.now() };
    const written = await requestedChanges(database, request, clock.now()).execute(operation, input);
    if ('refused' in written && written.refused === 'outdated') return 'outdated';
    return writtenAnswer(deps, owner.accountId, written);
  };
  const shared = {
    tag: 'templates',
    access: { auth: 'key' },
    query: writeQuery,
  } as const;
  return [
    defineRoute({
      ...shared,
      method: 'POST',
      path: '/templates',
      body: { schema: templateRequest, maxBytes: MAX_TEMPLATE_BYTES, furtherIssues },
      operationId: 'createTemplate',
      summary: 'Create a template',
      description: 'The content uses the Liquid language; errors are reported with their line and column.',
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND', 'CONFLICT', 'LIMIT_REACHED'],
      response: { status: 201, schema: templateSchema },
      handle: (request: WriteRequest) =>
        whileOutdated(() =>
          write(request, {
            body: request.body,
            templateId: newId('tpl', clock.now()),
            operation: createTemplateOperation,
          }),
        ),
    }),
    defineRoute({
      ...shared,
      method: 'PUT',
      path: '/templates/:id',
      body: { schema: templateRequest, maxBytes: MAX_TEMPLATE_BYTES, furtherIssues },
      operationId: 'replaceTemplate',
      summary: 'Replace a template, as a new version',
      description: 'Replaces the complete template. New sends use the new version; accepted messages do not change.',
      refusals: ['TEMPLATE_INVALID', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: templateSchema },
      handle: (request: WriteRequest) =>
        whileOutdated(() =>
          write(request, {
            body: request.body,
            templateId: keyOf(request).templateId,
            operation: replaceTemplateOperation,
          }),
        ),
    }),
    defineRoute({
      ...shared,
      method: 'PATCH',
      path: '/templates/:id',
      body: { schema: templateChange, maxBytes: MAX_TEMPLATE_BYTES, furtherIssues: furtherChangeIssues },
      operationId: 'updateTemplate',
      summary: 'Change fields of a template, as a new version',
      description:
        'Changes the fields in the request; omitted fields and null leave the stored value. "" removes mjml, html, or text; to remove layoutTemplateId, replace the template with PUT. If nothing changes, there is no new version.',
      refusals: ['TEMPLATE_INVALID', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT'],
      response: { status: 200, schema: templateSchema },
      handle: (request: WriteRequest<TemplateChange>) =>
        whileOutdated(async () => {
          const key = keyOf(request);
          const current = await database.execute(findTemplateOperation, key);
          if (!current) return noSuchTemplate;
          if (current.mjml !== null && typeof request.body.html === 'string' && typeof request.body.mjml !== 'string')
            return refuse(invalid([{ field: 'html', message: GENERATED }]));
          const body = merge<TemplateRequest>(storedFields(current), request.body);
          const { templateId } = key;
          return write(request, { body, templateId, operation: replaceTemplateOperation, basis: current.version });
        }),
    }),
    defineRoute({
      method: 'DELETE',
      path: '/templates/:id',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'deleteTemplate',
      summary: 'Delete a template and all its versions',
      description:
        'Accepted messages, including scheduled ones, do not change: they were composed when they were accepted.',
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

/** Returns an issue for each sample whose name another one has. */
function sampleIssues({ samples = [] }: Partial<Static<typeof samplesRequest>>): Issue[] {
  const names = samples.map((one) => one?.name);
  return names.flatMap((name, index) =>
    name !== undefined && names.indexOf(name) < index
      ? [{ field: `samples[${index}].name`, message: 'is the name of another sample; choose a different one' }]
      : [],
  );
}

function sampleRoute({ database, clock }: TemplateRouteDeps): RouteDefinition<Caller> {
  return defineRoute({
    method: 'PUT',
    path: '/templates/:id/samples',
    tag: 'templates',
    access: { auth: 'key' },
    operationId: 'replaceTemplateSamples',
    summary: 'Replace the samples of a template',
    description:
      'Samples are named sets of variable values for previews and test emails. They are shared by the users of the account, and replacing them creates no version.',
    body: { schema: samplesRequest, maxBytes: MAX_SAMPLES_BYTES, furtherIssues: sampleIssues },
    refusals: ['FORBIDDEN', 'NOT_FOUND'],
    response: { status: 200, schema: templateSchema },
    async handle(request: Request<Static<typeof samplesRequest>>) {
      const issues = sampleIssues(request.body);
      if (issues.length > 0) return refuse(invalid(issues));
      const stored = { ...keyOf(request), samples: request.body.samples };
      const written = await requestedChanges(database, request, clock.now()).execute(storeSamplesOperation, stored);
      if ('limit' in written) return refuse(limitReached(written));
      return 'refused' in written ? refuse(REFUSALS[written.refused]) : answer(templateBody(written.template));
    },
  });
}

function versionRoutes(deps: TemplateRouteDeps): RouteDefinition<Caller>[] {
  const { database, clock } = deps;
  return [
    defineRoute({
      method: 'GET',
      path: '/templates/:id/versions',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'listTemplateVersions',
      summary: 'List the versions of a template, newest first',
      description: 'Every PUT, every PATCH that changes something, and every restore creates a version.',
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
      method: 'POST',
      path: '/templates/:id/versions/:version/restore',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'restoreTemplateVersion',
      summary: 'Restore a version, as a new version',
      description: 'The template keeps its current name.',
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
  const previews = createPreviews(deps);
  return [
    defineRoute({
      method: 'POST',
      path: '/templates/:id/render',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'renderTemplate',
      summary: 'Preview a template',
      description: 'Variables without a value render as empty text. missingVariables lists those that need one.',
      body: { schema: renderRequest, optional: true, maxBytes: MAX_TEMPLATE_BYTES },
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND'],
      response: { status: 200, schema: renderResponse },
      async handle(request: Request<Static<typeof renderRequest>>) {
        const { templateVariables = {} } = request.body;
        const rendered = await previews.ofStored(viewerOf(request), keyOf(request).templateId, templateVariables);
        return rendered.ok ? answer(rendered.value.preview) : rendered;
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/templates/render',
      tag: 'templates',
      access: { auth: 'key' },
      operationId: 'renderTemplateSources',
      summary: 'Preview an unsaved template',
      description: 'Variables without a value render as empty text. missingVariables lists those that need one.',
      body: { schema: renderSourcesRequest, maxBytes: MAX_TEMPLATE_BYTES, furtherIssues: furtherContentIssues },
      refusals: ['TEMPLATE_INVALID', 'NOT_FOUND'],
      response: { status: 200, schema: renderResponse },
      async handle(request: Request<RenderSourcesRequest>) {
        const { templateVariables = {} } = request.body;
        const rendered = await previews.ofUnsaved(viewerOf(request), request.body, templateVariables);
        return rendered.ok ? answer(rendered.value) : rendered;
      },
    }),
  ];
}
