/**
 * What a template may read and print. Only own properties of plain data are visible: no prototype, no method, nothing that
 * a caller did not put into templateVariables. Absent and null are "without a value"; objects are never printed.
 */

/** The value at `key` of a value that came from JSON, or undefined; knows Liquid's size, first and last. */
export function readProperty(of: unknown, key: string | number): unknown {
  if (of === null || of === undefined) return undefined;
  if (typeof of === 'string') return key === 'size' ? of.length : undefined;
  if (typeof of !== 'object') return undefined;
  if (Array.isArray(of)) {
    if (typeof key === 'number') return of[key < 0 ? of.length + key : key];
    if (key === 'size') return of.length;
    if (key === 'first') return of[0];
    return key === 'last' ? of[of.length - 1] : undefined;
  }
  if (Object.hasOwn(of, key)) return (of as Record<string, unknown>)[key];
  return key === 'size' ? Object.keys(of).length : undefined;
}

const ESCAPABLE = /[&<>"']/;
const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' };

/** Text made safe for element content and for quoted attributes. */
export function escapeHtml(text: string): string {
  return ESCAPABLE.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character]!) : text;
}

/** The value as text, or undefined when it is (or holds) an object, which no reader of a mail should see. */
export function printable(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (!Array.isArray(value)) return undefined;
  let text = '';
  for (const item of value) {
    const part = item === null || item === undefined ? '' : printable(item);
    if (part === undefined) return undefined;
    text += part;
  }
  return text;
}
