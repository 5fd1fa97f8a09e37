/**
 * Renders previews of stored templates and of content that is not saved. Sends nothing and stores nothing; variables without a value are
 * listed and left empty.
 */
import { type Issue, ok, type Result, refuse } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { timeSlice, yieldToEventLoop } from '../base/time-slice.ts';
import type { Database } from '../storage/database.ts';
import { contentOf, declarationsLeft, type RenderSourcesRequest } from './bodies.ts';
import { noSuchTemplate, REFUSALS } from './refusals.ts';
import type { MailToRender, RenderedMail } from './render.ts';
import type { TemplateSource, UsableTemplate } from './source.ts';
import { findTemplateOperation } from './store.ts';
import { hasSlot, inLayout, isTemplateId, type Template } from './template.ts';
import { contentIssues, type Preview, preview, validateContent, withGeneratedHtml } from './validate.ts';

export interface PreviewDeps {
  database: Database;
  /** Shared with sends, so that changes apply to them immediately. */
  templates: TemplateSource;
  render(mail: MailToRender): Result<RenderedMail>;
  /** Target of the unsubscribe link in a preview; called at each preview. */
  previewUnsubscribeUrl(): string;
}

export interface Viewer {
  accountId: string;
  mode: Mode;
  /** The account's own variables. */
  variables: Readonly<Record<string, string>>;
}

type Values = Readonly<Record<string, unknown>>;

export interface StoredPreview {
  version: number;
  preview: Preview;
}

export interface Previews {
  /** Renders the latest version of a template, or the one that sends use. */
  ofStored(
    viewer: Viewer,
    templateId: string,
    values: Values,
    which?: 'latest' | 'published',
  ): Promise<Result<StoredPreview>>;
  ofUnsaved(viewer: Viewer, sources: RenderSourcesRequest, values: Values): Promise<Result<Preview>>;
}

export function createPreviews(deps: PreviewDeps): Previews {
  const { templates, render, previewUnsubscribeUrl } = deps;
  const depsFor = ({ variables }: Viewer) => ({
    render,
    unsubscribeUrl: previewUnsubscribeUrl(),
    ownVariables: variables,
  });
  return {
    async ofStored(viewer, templateId, values, which = 'latest') {
      const find = which === 'latest' ? templates.findLatest : templates.find;
      const found = isTemplateId(templateId) ? await find(viewer, templateId) : undefined;
      if (!found) return noSuchTemplate;
      if ('unusable' in found) return refuse(found.unusable);
      await timeSlice();
      const rendered = preview(found, values, depsFor(viewer));
      return rendered.ok ? ok({ version: found.version, preview: rendered.value }) : rendered;
    },
    async ofUnsaved(viewer, sources, values) {
      await timeSlice();
      const toPreview = await unsavedSources(deps.database, viewer, sources);
      return toPreview.ok ? preview(toPreview.value, values, depsFor(viewer)) : toPreview;
    },
  };
}

/** Validates content that is not saved, and combines it with its layout. */
async function unsavedSources(
  database: Database,
  { accountId, mode }: Viewer,
  sources: RenderSourcesRequest,
): Promise<Result<Pick<UsableTemplate, 'subject' | 'html' | 'text' | 'declared'>>> {
  const given = contentOf(sources);
  const valid = validateContent(given);
  if (!valid.ok) return valid;
  const generated = await withGeneratedHtml(given, accountId);
  if (!generated.ok) return generated;
  const content = generated.value;
  const { layoutId } = content;
  let layout: Template | undefined;
  if (layoutId !== null) {
    layout = await database.execute(findTemplateOperation, { accountId, mode, templateId: layoutId });
    if (!layout) return refuse(REFUSALS['layout-unknown']);
    if (layout.layoutId !== null) return refuse(REFUSALS['layout-has-layout']);
    if (!hasSlot(layout.html)) return refuse(REFUSALS['layout-without-slot']);
  }
  await yieldToEventLoop();
  const within = layout === undefined ? ok(content) : inLayout(content, layout);
  return within.ok ? ok({ ...within.value, declared: content.variables }) : within;
}

/** Returns the issues of the fields of content that match its schema. */
export function furtherContentIssues({ variables = [], ...parts }: RenderSourcesRequest): Issue[] {
  return contentIssues({ ...contentOf(parts), variables: declarationsLeft(variables) });
}
