/**
 * The variables of this interface, `{{{NAME}}}`, in the language of our templates and back. A value is inserted as it is, also in HTML.
 * Other braces mean nothing there, and are kept from meaning something here.
 */
const VARIABLE = /\{\{\{\s*([A-Za-z_]\w*)\s*\}\}\}|\{\{|\{%/g;

/** A source in our language. */
export function toLiquid(source: string, kind: 'html' | 'text'): string {
  return source.replace(VARIABLE, (found, name: string | undefined) => {
    if (name === undefined) return `{% raw %}${found}{% endraw %}`;
    return kind === 'html' ? `{{ ${name} | raw }}` : `{{ ${name} }}`;
  });
}

/** The source that `toLiquid` was given; one that was written in our language keeps what has no counterpart. */
export function fromLiquid(source: string, kind: 'html' | 'text'): string {
  const output = kind === 'html' ? /\{\{ ([A-Za-z_]\w*) \| raw \}\}/g : /\{\{ ([A-Za-z_]\w*) \}\}/g;
  return source.replace(output, '{{{$1}}}').replace(/\{% raw %\}(\{\{|\{%)\{% endraw %\}/g, '$1');
}
