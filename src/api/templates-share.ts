/**
 * Links that show a rendered template to anyone who has them: creating, listing, and revoking links, and reading the preview with one. A
 * link shows the snapshot that was rendered when it was created, never the variables, the source, or later versions. A link is answered as
 * nonexistent if it was revoked, has expired, or is forged, or if its template was deleted or its account is suspended. Each request reads
 * the link's row, so revoking takes effect immediately on all nodes.
 */
import type { Static } from 'typebox';
import { accountOperation, type Caller, ownerOf } from '../accounts/accounts.ts';
import { requestedChanges } from '../audit/audit.ts';
import { type Clock, iso } from '../base/clock.ts';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { createSealedTokens, type SealedTokens } from '../base/sealed-token.ts';
import { answer, defineRoute, type RouteDefinition, type RouteRequest } from '../http/route.ts';
import { Type } from '../http/schema-type.ts';
import {
  expiresInSeconds,
  manageShareRoutes,
  NO_LINK,
  newShareTimes,
  READ_WITH_LINK,
  shareIdShape,
  shareLinkSchema,
  shareShape,
  shareTimesBody,
  shareTokenOf,
} from '../http/share-links.ts';
import { closed, named, oneOf } from '../http/validate.ts';
import { MAX_TEMPLATE_BYTES, renderedPart, sources, templateVariables } from '../templates/bodies.ts';
import { createPreviews, furtherContentIssues, type PreviewDeps } from '../templates/previews.ts';
import { noSuchTemplate } from '../templates/refusals.ts';
import {
  createTemplateShareOperation,
  findTemplateShareOperation,
  listTemplateSharesOperation,
  revokeTemplateShareOperation,
  type SharedSnapshot,
  type TemplateShareRow,
} from '../templates/share-store.ts';
import { findTemplateOperation } from '../templates/store.ts';

export interface TemplateShareDeps extends PreviewDeps {
  clock: Clock;
  /** The key that signs links, and their address, which is read at each use. */
  linkBase: { readonly secretKey: Uint8Array; readonly baseUrl: string };
}

/** Maximum number of valid links of a template. */
const MOST_SHARES = 20;
/** Maximum html and text of a snapshot together. */
const MOST_SNAPSHOT_BYTES = 1_000_000;

const shareBody = named('ShareTemplateRequest', {
  expiresInSeconds,
  version: Type.Optional(
    oneOf(['latest', 'published'], {
      description: '`latest` by default, published or not. `published` is the version that sends use.',
    }),
  ),
  content: Type.Optional(
    closed(sources, {
      description: 'Content that is not saved, to show it instead of a version. It does not change the template.',
    }),
  ),
  templateVariables,
});
type ShareBody = Static<typeof shareBody>;

const versionShape = Type.Unsafe<number | null>({
  type: ['integer', 'null'],
  description: 'null: content that was not saved as a version.',
});
const shareSchema = named('TemplateShare', {
  shareId: shareIdShape,
  templateId: Type.String(),
  name: Type.String({ description: 'Name of the template when the link was created.' }),
  version: versionShape,
  ...shareShape,
});
const sharedSchema = named('SharedTemplate', {
  name: Type.String({ description: 'Name of the template when the link was created.' }),
  version: versionShape,
  subject: renderedPart,
  html: renderedPart,
  text: renderedPart,
  createdAt: Type.String({ format: 'date-time', description: 'Time at which the preview was rendered.' }),
  validUntil: Type.String({ format: 'date-time', description: 'Time at which the link expires.' }),
});

const TOO_MANY = refuse(
  failure('LIMIT_REACHED', {
    message: `This template already has ${MOST_SHARES} valid links. Revoke one with DELETE /template-shares/{id}, or wait until one expires.`,
  }),
);
const VERSION_OR_CONTENT = refuse(
  invalid([{ field: 'version', message: 'cannot be combined with content; remove one of them' }]),
);

type Sealed = readonly [accountId: string, mode: Mode, shareId: string, expiresAtMs: number];

/** Returns the routes of links to templates. */
export function templateShareRoutes(deps: TemplateShareDeps): RouteDefinition<Caller>[] {
  const tokens = createSealedTokens<Sealed>(deps.linkBase.secretKey, 'postrider template share links');
  return [createRoute(deps, tokens), ...manageRoutes(deps), readRoute(deps, tokens)];
}

function shareBodyOf(row: TemplateShareRow): Static<typeof shareSchema> {
  const { id, templateId, name, version } = row;
  return { shareId: id, templateId, name, version, ...shareTimesBody(row) };
}

/** Returns a preview as it is stored, if it is not too large. */
function snapshotOf({ subject, html, text }: SharedSnapshot): Result<SharedSnapshot> {
  const bytes = Buffer.byteLength(html ?? '') + Buffer.byteLength(text ?? '');
  if (bytes <= MOST_SNAPSHOT_BYTES) return ok({ subject, html, text });
  const message = `has ${bytes} bytes after rendering, including text; a shared preview can have at most ${MOST_SNAPSHOT_BYTES}`;
  return refuse(invalid([{ field: 'html', message }]));
}

/** Names the fields of a refused content as the caller wrote them. */
function inContent(issues: readonly Issue[]): Issue[] {
  return issues.map((one) =>
    one.field.startsWith('templateVariables') ? one : { ...one, field: `content.${one.field}` },
  );
}

function createRoute(deps: TemplateShareDeps, tokens: SealedTokens<Sealed>): RouteDefinition<Caller> {
  const { database, clock, linkBase } = deps;
  const previews = createPreviews(deps);
  /** Returns what the link shows, with its version. */
  const render = async ({ caller, params, body }: RouteRequest<Caller, ShareBody>) => {
    const viewer = { ...ownerOf({ caller }), variables: caller.account.settings.variables };
    const { content, templateVariables: values = {} } = body;
    if (content === undefined) return previews.ofStored(viewer, params.id ?? '', values, body.version);
    const preview = await previews.ofUnsaved(viewer, content, values);
    if (preview.ok) return ok({ version: null, preview: preview.value });
    const { failure: refused } = preview;
    return refuse({ ...refused, details: inContent(refused.details) });
  };
  return defineRoute({
    method: 'POST',
    path: '/templates/:id/share',
    tag: 'templates',
    access: { auth: 'key' },
    body: {
      schema: shareBody,
      optional: true,
      maxBytes: MAX_TEMPLATE_BYTES,
      furtherIssues: ({ content }) => (content === undefined ? [] : inContent(furtherContentIssues(content))),
    },
    operationId: 'shareTemplate',
    summary: 'Create a link that shows a preview of a template',
    description: `Renders the template like POST /templates/{id}/render and stores the result. Anyone who has the link can view it without logging in: name, version, subject, html, and text, without the source and the variables. Later changes of the template do not appear. A template has up to ${MOST_SHARES} valid links. Deleting the template deletes them.`,
    refusals: ['TEMPLATE_INVALID', 'NOT_FOUND', 'LIMIT_REACHED'],
    response: { status: 201, schema: shareLinkSchema },
    async handle(request: RouteRequest<Caller, ShareBody>) {
      const { account, mode, actor } = request.caller;
      const key = { accountId: account.id, mode, templateId: request.params.id ?? '' };
      if (request.body.content !== undefined && request.body.version !== undefined) return VERSION_OR_CONTENT;
      const template = await database.execute(findTemplateOperation, key);
      if (!template) return noSuchTemplate;
      const rendered = await render(request);
      if (!rendered.ok) return rendered;
      const snapshot = snapshotOf(rendered.value.preview);
      if (!snapshot.ok) return snapshot;
      const nowMs = clock.now();
      const shareId = newId('shr', nowMs);
      const times = newShareTimes(actor, nowMs, request.body.expiresInSeconds);
      const { version } = rendered.value;
      const share = { ...key, id: shareId, name: template.name, version, ...snapshot.value, ...times };
      const outcome = await requestedChanges(database, request, nowMs).execute(createTemplateShareOperation, {
        share,
        most: MOST_SHARES,
      });
      if (outcome === 'not-found') return noSuchTemplate;
      if (outcome === 'limit') return TOO_MANY;
      const token = tokens.seal([account.id, mode, shareId, times.expiresAt]);
      return answer({ shareId, url: `${linkBase.baseUrl}/preview#token=${token}`, expiresAt: iso(times.expiresAt) });
    },
  });
}

function manageRoutes({ database, clock }: TemplateShareDeps): RouteDefinition<Caller>[] {
  return manageShareRoutes<Caller, TemplateShareRow>({
    tag: 'templates',
    schema: shareSchema,
    show: shareBodyOf,
    listOfItem: {
      path: '/templates/:id/shares',
      operationId: 'listTemplateShares',
      summary: 'List the valid links to a template, newest first',
    },
    list: {
      path: '/template-shares',
      operationId: 'listAllTemplateShares',
      summary: 'List the valid links to all templates, newest first',
    },
    revoke: {
      path: '/template-shares/:id',
      operationId: 'revokeTemplateShare',
      summary: 'Revoke a link to a template',
      description: 'The link stops working immediately, on all nodes, and its preview is deleted.',
    },
    async missingItem(request, templateId) {
      const found = await database.execute(findTemplateOperation, { ...ownerOf(request), templateId });
      return found === undefined ? noSuchTemplate : undefined;
    },
    read: (request, { itemId: templateId, ...page }) =>
      database.execute(listTemplateSharesOperation, { ...ownerOf(request), ...page, templateId, nowMs: clock.now() }),
    async remove(request, id) {
      const nowMs = clock.now();
      const changes = requestedChanges(database, request, nowMs);
      return (await changes.execute(revokeTemplateShareOperation, { ...ownerOf(request), id, nowMs })) !== undefined;
    },
  });
}

function readRoute({ database, clock }: TemplateShareDeps, tokens: SealedTokens<Sealed>): RouteDefinition<Caller> {
  return defineRoute<Caller>({
    ...READ_WITH_LINK,
    path: '/shared/template',
    tag: 'templates',
    operationId: 'getSharedTemplate',
    summary: 'Get the preview of a shared link',
    description:
      'Uses the token of the link instead of an API key. Returns 404 once the link has expired or was revoked, or the template was deleted.',
    response: { status: 200, schema: sharedSchema },
    refusals: ['NOT_FOUND'],
    async handle(request) {
      const sealed = tokens.open(shareTokenOf(request));
      if (sealed === undefined) return NO_LINK;
      const [accountId, mode, id, expiresAtMs] = sealed;
      if (clock.now() >= expiresAtMs) return NO_LINK;
      const account = await database.execute(accountOperation, accountId);
      if (account?.status !== 'active') return NO_LINK;
      const row = await database.execute(findTemplateShareOperation, { accountId, mode, id });
      if (row === undefined) return NO_LINK;
      const { name, version, subject, html, text, createdAt } = row;
      const times = { createdAt: iso(createdAt), validUntil: iso(expiresAtMs) };
      return answer({ name, version, subject, html, text, ...times });
    },
  });
}
