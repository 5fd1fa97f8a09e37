/** Values of variables: read and set by a path such as order.number, and formatted for typing. */
import type { VariableType } from './content.ts';

export type Values = Readonly<Record<string, unknown>>;

/** Index into a list; a larger one would create a list too large for the browser. */
const INDEX = /^\d{1,3}$/;

const namesOf = (path: string): string[] => path.match(/[^.[\]]+/g) ?? [];

export function valueAt(values: unknown, path: string): unknown {
  let value = values;
  for (const name of namesOf(path)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function changed(value: unknown, names: readonly string[], given: unknown): unknown {
  const [name, ...further] = names;
  if (name === undefined) return given;
  if (INDEX.test(name) && (value === undefined || Array.isArray(value))) {
    const [list, index]: [unknown[], number] = [value ?? [], Number(name)];
    const length = Math.max(list.length, index + 1);
    return Array.from({ length }, (_, at) => (at === index ? changed(list[at], further, given) : list[at]));
  }
  const { [name]: old, ...rest } = typeof value === 'object' && value !== null ? (value as Values) : {};
  const inner = changed(old, further, given);
  return inner === undefined ? rest : { ...rest, [name]: inner };
}

/** Returns the values with a change at the path; undefined removes it. */
export const withValueAt = (values: Values, path: string, given: unknown): Values =>
  changed(values, namesOf(path), given) as Values;

export const textOf = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);

/** Converts typed text to a value of the type; undefined if it is invalid. Empty text means no value. */
export function typedValue(text: string, type: VariableType): { value: unknown } | undefined {
  if (text === '') return { value: undefined };
  if (type === 'string') return { value: text };
  try {
    const value: unknown = JSON.parse(text);
    const kind = Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value;
    return kind === type ? { value } : undefined;
  } catch {
    return undefined;
  }
}

/** Parses JSON values; undefined if it is not an object. */
export function valuesIn(json: string): Values | undefined {
  return typedValue(json.trim() === '' ? '{}' : json, 'object')?.value as Values | undefined;
}
