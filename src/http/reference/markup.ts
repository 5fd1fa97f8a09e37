/**
 * HTML with all values escaped: `html` is a tag for template literals that escapes every value except markup it made itself. Values can only
 * be texts and the values of quoted attributes.
 */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Markup | readonly Markup[] | undefined;

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function written(value: Value): string {
  if (value === undefined) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('');
  return String(value).replace(/[&<>"]/g, (one) => ESCAPES[one]!);
}

export function html(strings: TemplateStringsArray, ...values: Value[]): Markup {
  return new Markup(strings.map((fixed, index) => fixed + written(values[index])).join(''));
}
