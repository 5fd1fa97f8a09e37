/**
 * Layouts: a template whose html (and text, if it has one) holds `{{ content }}` once or more, where other templates put
 * theirs. The two sources become one before anything is parsed or filled in, so that both see the same variables and no
 * value is ever expanded again. A layout has no layout of its own; its subject is not used.
 */
import type { TemplateContent } from './template.ts';

const SLOT = /\{\{-?\s*content(?:_html)?\s*(?:\|\s*raw\s*)?-?\}\}/g;

/** Whether the source has a place for content. */
export function hasSlot(source: string | null): boolean {
  return source !== null && source.search(SLOT) !== -1;
}

function fillSlot(layout: string, content: string): string {
  // As a function: a text would have its `$&` and the like expanded.
  return layout.replace(SLOT, () => content);
}

export type Sources = Pick<TemplateContent, 'subject' | 'html' | 'text'>;

/**
 * What a template says within its layout. Text of its own goes into the layout's text where that has a place for it, and
 * stands alone otherwise; without text of its own the text is derived from the whole html.
 */
export function inLayout(content: Sources, layout: Sources): Sources {
  const { subject, html, text } = content;
  return {
    subject,
    html: html === null || !hasSlot(layout.html) ? html : fillSlot(layout.html!, html),
    text: text === null || !hasSlot(layout.text) ? text : fillSlot(layout.text!, text),
  };
}
