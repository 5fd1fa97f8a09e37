/**
 * Templates for sends: found by id or name, combined with their layout, parsed, and cached. Versions never change, so a cached version is
 * never stale; the current version is read again after a moment. A change in this process applies to the next send, one in another process
 * within a second.
 */
import type { Clock } from '../base/clock.ts';
import { type Failure, failure, ok, refuse } from '../base/failure.ts';
import { createFreshCache } from '../base/fresh-cache.ts';
import type { Mode } from '../base/mode.ts';
import type { Database } from '../storage/database.ts';
import { createRecentCache, isTemplate, type MailTemplate, parseUncached } from './parse.ts';
import type { ParsedParts } from './render.ts';
import { headVersionsOperation, type TemplateHead, templateHeadOperation } from './store.ts';
import { type DeclaredVariable, hasSlot, inLayout, type Sources } from './template.ts';

const FRESH_MS = 700;
const HEADS_KEPT = 5_000;
const VERSIONS_KEPT = 1_000;
/** Maximum memory of each of the two generations of the cache: sources and parsed templates, approximately. */
const GENERATION_BYTES = 64_000_000;

/** One version within its layout, ready to be rendered. */
export interface UsableTemplate extends Sources {
  id: string;
  version: number;
  declared: readonly DeclaredVariable[];
  parsed: ParsedParts;
}

/** A version that has exceeded the limits since it was saved, together with its layout. */
export interface UnusableTemplate {
  /** TEMPLATE_INVALID. */
  unusable: Failure;
}

/** Only sandbox templates can lose their layout, because they do not prevent changes to a live one. */
const LAYOUT_LOST = failure('TEMPLATE_INVALID', {
  message:
    'The layout of this template was deleted or can no longer be used. Change the layoutTemplateId of the template.',
  details: [{ field: 'templateId', message: 'has a layout that was deleted or can no longer be used' }],
});

type Found = UsableTemplate | UnusableTemplate | undefined;

export interface TemplateSource {
  /** Returns a promise only if the template is not cached; undefined if the account has no template with this id or name in this mode. */
  find(of: { accountId: string; mode: Mode }, reference: string): Found | Promise<Found>;
  /** Like `find`, but for the latest version, published or not. Previews use it. */
  findLatest(of: { accountId: string; mode: Mode }, reference: string): Promise<Found>;
  /** Call this after the commit of any change to the account's templates. */
  changed(accountId: string): void;
}

function parseParts(sources: Sources): ParsedParts {
  const parsed: ParsedParts = {};
  for (const part of ['subject', 'html', 'text'] as const) {
    const source = sources[part];
    if (source === null || !isTemplate(source)) continue;
    // Errors (the layout may have exceeded the limits since saving) are reported by the send.
    const result = parseUncached(source, part === 'html' ? 'html' : 'text');
    if (result.ok) parsed[part] = result.value;
  }
  return parsed;
}

function weightOf(template: UsableTemplate | UnusableTemplate): number {
  if ('unusable' in template) return 1_000;
  const { subject, html, text, parsed } = template;
  const length = (subject?.length ?? 0) + (html?.length ?? 0) + (text?.length ?? 0);
  return Object.values(parsed).reduce((sum, { weight }: MailTemplate) => sum + weight, 2 * length);
}

const nameOf = ({ id, version, layoutId, layoutVersion }: TemplateHead): string =>
  `${id}/${version}/${layoutId}/${layoutVersion}`;

export function createTemplateSource({ database, clock }: { database: Database; clock: Clock }): TemplateSource {
  const versions = createRecentCache<UsableTemplate | UnusableTemplate>({
    entries: VERSIONS_KEPT,
    weight: GENERATION_BYTES,
    weigh: (_, template) => weightOf(template),
  });
  const heads = createFreshCache<
    { accountId: string; mode: Mode; reference: string },
    { accountId: string; head: TemplateHead }
  >({
    clock,
    maxAgeMs: FRESH_MS,
    limit: HEADS_KEPT,
    absentLimit: 0,
    read: async (requested) => {
      const head = await database.execute(templateHeadOperation, requested);
      return head && { accountId: requested.accountId, head };
    },
  });

  const load = async (head: TemplateHead): Promise<Found> => {
    const found = await database.execute(headVersionsOperation, head);
    if (!found) return undefined;
    const { layout } = found;
    const isLost = head.layoutId !== null && (layout === null || layout.layoutId !== null || !hasSlot(layout.html));
    const within = layout === null ? ok(found.own) : inLayout(found.own, layout);
    const sources = isLost ? refuse(LAYOUT_LOST) : within;
    if (!sources.ok) {
      const unusable = { unusable: sources.failure };
      versions.set(nameOf(head), unusable);
      return unusable;
    }
    const { id, version } = head;
    const { subject, html, text } = sources.value;
    const parsed = parseParts(sources.value);
    const declared = [...found.own.variables];
    for (const one of found.layout?.variables ?? []) {
      if (!declared.some((other) => other.name === one.name)) declared.push(one);
    }
    const usable = { id, version, subject, html, text, declared, parsed };
    versions.set(nameOf(head), usable);
    return usable;
  };

  /** Many sends that need a new version at the same time read and parse it once. */
  const loading = new Map<string, Promise<Found>>();
  const use = (head: TemplateHead): Found | Promise<Found> => {
    const name = nameOf(head);
    const known = versions.get(name) ?? loading.get(name);
    if (known !== undefined) return known;
    const started = load(head).finally(() => loading.delete(name));
    loading.set(name, started);
    return started;
  };

  return {
    find: ({ accountId, mode }, reference) => {
      const known = heads.get(`${accountId} ${mode} ${reference}`, { accountId, mode, reference });
      if (known instanceof Promise) return known.then((late) => late && use(late.head));
      return known && use(known.head);
    },
    findLatest: async ({ accountId, mode }, reference) => {
      const head = await database.execute(templateHeadOperation, { accountId, mode, reference, useLatest: true });
      return head && use(head);
    },
    changed: (accountId) => heads.evictWhere((known) => known.accountId === accountId),
  };
}
