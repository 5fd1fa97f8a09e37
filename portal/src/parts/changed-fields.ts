/** The fields of a change before and after, as text. Objects are split, so that each changed member is a row. */
export interface ChangedField {
  name: string;
  before: string | undefined;
  after: string | undefined;
  isChanged: boolean;
}

export type Fields = Record<string, unknown> | null;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function flat(fields: Fields, path = ''): [name: string, text: string][] {
  return Object.entries(fields ?? {}).flatMap(([name, value]): [string, string][] => {
    if (isObject(value) && Object.keys(value).length > 0) return flat(value, `${path}${name}.`);
    return [[path + name, typeof value === 'string' ? value : JSON.stringify(value)]];
  });
}

export function changedFields(before: Fields, after: Fields): ChangedField[] {
  const [old, now] = [new Map(flat(before)), new Map(flat(after))];
  return [...new Set([...old.keys(), ...now.keys()])].map((name) => {
    const [one, other] = [old.get(name), now.get(name)];
    return { name, before: one, after: other, isChanged: one !== other };
  });
}
