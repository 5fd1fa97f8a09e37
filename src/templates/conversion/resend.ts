/**
 * Converts the variables of Resend, `{{{NAME}}}` and `{{{NAME|fallback}}}`, to Liquid and back. Values are inserted unescaped, also in HTML.
 * Other braces have no meaning there and are escaped.
 */
const VARIABLE = /\{\{\{\s*([A-Za-z_]\w*)\s*(?:\|([^{}"\\%\n|]{0,1000}))?\}\}\}|\{\{|\{%/g;

/** Returns the source in Liquid. */
export function toLiquid(source: string, kind: 'html' | 'text'): string {
  return source.replace(VARIABLE, (found, name: string | undefined, fallback: string | undefined) => {
    if (name === undefined) return `{% raw %}${found}{% endraw %}`;
    const filled = fallback === undefined ? name : `${name} | default: "${fallback.trim()}"`;
    return kind === 'html' ? `{{ ${filled} | raw }}` : `{{ ${filled} }}`;
  });
}

/** Reverses `toLiquid`. A source that was written in Liquid keeps everything that has no counterpart. */
export function fromLiquid(source: string, kind: 'html' | 'text'): string {
  const output =
    kind === 'html'
      ? /\{\{ ([A-Za-z_]\w*)(?: \| default: "([^{}"\\%\n|]{0,1000})")? \| raw \}\}/g
      : /\{\{ ([A-Za-z_]\w*)(?: \| default: "([^{}"\\%\n|]{0,1000})")? \}\}/g;
  return source
    .replace(
      output,
      (_, name: string, fallback?: string) => `{{{${name}${fallback === undefined ? '' : `|${fallback}`}}}}`,
    )
    .replace(/\{% raw %\}(\{\{|\{%)\{% endraw %\}/g, '$1');
}

/** Returns text that Liquid prints as it is, also before a tag. */
export function literalInLiquidSource(text: string): string {
  return text.replace(/\{\{|\{%|\{$/g, (found) => `{% raw %}${found}{% endraw %}`);
}
