/**
 * Converts the variables of this interface, `{{{NAME}}}`, to Liquid and back. Values are inserted unescaped, also in HTML. Other braces have
 * no meaning in this interface and are escaped.
 */
const VARIABLE = /\{\{\{\s*([A-Za-z_]\w*)\s*\}\}\}|\{\{|\{%/g;

/** Returns the source in Liquid. */
export function toLiquid(source: string, kind: 'html' | 'text'): string {
  return source.replace(VARIABLE, (found, name: string | undefined) => {
    if (name === undefined) return `{% raw %}${found}{% endraw %}`;
    return kind === 'html' ? `{{ ${name} | raw }}` : `{{ ${name} }}`;
  });
}

/** Reverses `toLiquid`. A source that was written in Liquid keeps everything that has no counterpart. */
export function fromLiquid(source: string, kind: 'html' | 'text'): string {
  const output = kind === 'html' ? /\{\{ ([A-Za-z_]\w*) \| raw \}\}/g : /\{\{ ([A-Za-z_]\w*) \}\}/g;
  return source.replace(output, '{{{$1}}}').replace(/\{% raw %\}(\{\{|\{%)\{% endraw %\}/g, '$1');
}
