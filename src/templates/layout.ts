/**
 * Layouts: a template whose html (and text, if it has one) holds `{{ content }}` once or more, where other templates put
 * theirs. The two sources become one before anything is parsed or filled in, so that both see the same variables and no
 * value is ever expanded again. A layout has no layout of its own; its subject is not used. A layout may repeat its place: what
 * would be longer than a source may be is refused by its length, and never made.
 */
import { failure, type Issue } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { MAX_SOURCE_LENGTH, type TemplateContent } from './template.ts';

const SLOT = /\{\{-?\s*content(?:_html)?\s*(?:\|\s*raw\s*)?-?\}\}/g;

/** Whether the source has a place for content. */
export function hasSlot(source: string | null): boolean {
  return source !== null && source.search(SLOT) !== -1;
}

/** What the layout's part becomes around the content's; undefined when it would be too long. */
function fillSlot(layout: string, content: string): string | undefined {
  let length = layout.length;
  for (const [slot] of layout.matchAll(SLOT)) {
    length += content.length - slot.length;
  }
  if (length > MAX_SOURCE_LENGTH) return undefined;
  // As a function: a text would have its `$&` and the like expanded.
  return layout.replace(SLOT, () => content);
}

export type Sources = Pick<TemplateContent, 'subject' | 'html' | 'text'>;

/**
 * What a template says within its layout. Text of its own goes into the layout's text where that has a place for it, and
 * stands alone otherwise; without text of its own the text is derived from the whole html. TEMPLATE_INVALID names each part
 * that would be too long.
 */
export function inLayout(content: Sources, layout: Sources): Result<Sources> {
  const issues: Issue[] = [];
  const within = (part: 'html' | 'text'): string | null => {
    const [own, around] = [content[part], layout[part]];
    if (own === null || !hasSlot(around)) return own;
    const filled = fillSlot(around!, own);
    const message = `is more than ${MAX_SOURCE_LENGTH} characters long within its layout`;
    if (filled === undefined) issues.push({ field: part, message });
    return filled ?? null;
  };
  const sources = { subject: content.subject, html: within('html'), text: within('text') };
  if (issues.length === 0) return ok(sources);
  const names = issues.map((issue) => issue.field).join(', ');
  const message = `The ${names} cannot be used within the layout; make it, or the layout, shorter.`;
  return refuse(failure('TEMPLATE_INVALID', { details: issues, message }));
}
