/**
 * Typed clients serialize an optional field without a value as null, and PHP encodes an empty map as []. Unless a field's schema gives null
 * or an array a meaning, the body is read as if the field were absent, or were {}. An integer beyond 2^53 is a bigint only if the schema
 * allows any value; otherwise it becomes a number, and the limits of the field reject it.
 */
import type { Static, TSchema } from 'typebox';
import { compile, type Validator } from './validate.ts';

type Schema = Record<string, unknown>;
type Fields = Record<string, unknown>;

/** What the schema of one value allows: null, objects, and arrays; the branches of a union are merged. */
interface Shape {
  allowsAnything: boolean;
  allowsNull: boolean;
  allowsObject: boolean;
  allowsArray: boolean;
  properties: Map<string, { isOptional: boolean; shape: Shape }>;
  items: Shape | undefined;
  values: Shape | undefined;
}

function branchesOf(schema: Schema): Schema[] {
  const branches = (schema.anyOf ?? schema.oneOf) as Schema[] | undefined;
  return branches === undefined ? [schema] : branches.flatMap(branchesOf);
}

/** Returns whether a branch allows values of this type; a branch without type, const, and enum allows all. */
function allows(branch: Schema, type: string): boolean {
  if ('const' in branch) return type === 'null' && branch.const === null;
  if (Array.isArray(branch.enum)) return type === 'null' && branch.enum.includes(null);
  return branch.type === undefined || [branch.type].flat().includes(type);
}

/** A schema with none of these accepts every value. */
const CONSTRAINTS = new Set(['type', 'const', 'enum', 'anyOf', 'oneOf', 'properties', 'items', 'additionalProperties']);

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null;
}

function shapeOf(branches: readonly Schema[]): Shape {
  const fields = new Map<string, { isOptional: boolean; branches: Schema[] }>();
  for (const { properties, required } of branches) {
    for (const [name, schema] of Object.entries((properties ?? {}) as Record<string, Schema>)) {
      const field = fields.get(name) ?? { isOptional: true, branches: [] };
      field.isOptional &&= !((required ?? []) as string[]).includes(name);
      field.branches.push(...branchesOf(schema));
      fields.set(name, field);
    }
  }
  const merged = (schemas: unknown[]): Shape | undefined => {
    const inner = schemas.filter(isSchema).flatMap(branchesOf);
    return inner.length === 0 ? undefined : shapeOf(inner);
  };
  return {
    allowsAnything: branches.some((branch) => Object.keys(branch).every((keyword) => !CONSTRAINTS.has(keyword))),
    allowsNull: branches.some((branch) => allows(branch, 'null')),
    allowsObject: branches.some((branch) => allows(branch, 'object')),
    allowsArray: branches.some((branch) => allows(branch, 'array')),
    properties: new Map(
      [...fields].map(([name, field]) => [name, { isOptional: field.isOptional, shape: shapeOf(field.branches) }]),
    ),
    items: merged(branches.map((branch) => branch.items)),
    values: merged(branches.map((branch) => branch.additionalProperties)),
  };
}

function readList(list: unknown[], shape: Shape): unknown[] {
  const { items } = shape;
  if (items === undefined) return list;
  const read = list.map((element) => readValue(element, items));
  return read.some((element, index) => element !== list[index]) ? read : list;
}

function readFields(fields: Fields, shape: Shape): Fields {
  let read = fields;
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (typeof value !== 'object' && typeof value !== 'bigint') continue;
    const property = shape.properties.get(name);
    const inner = property?.shape ?? shape.values;
    if (inner === undefined) continue;
    if (value === null) {
      if (property?.isOptional !== true || inner.allowsNull) continue;
      if (read === fields) read = { ...fields };
      delete read[name];
      continue;
    }
    const member = readValue(value, inner);
    if (member === value) continue;
    if (read === fields) read = { ...fields };
    read[name] = member;
  }
  return read;
}

/** Returns the same value if nothing in it changes. */
function readValue(value: unknown, shape: Shape): unknown {
  if (typeof value === 'bigint') return shape.allowsAnything ? value : Number(value);
  if (typeof value !== 'object' || value === null) return value;
  if (!Array.isArray(value)) return readFields(value as Fields, shape);
  if (value.length === 0 && shape.allowsObject && !shape.allowsArray) return {};
  return readList(value, shape);
}

/**
 * Compiles a validator for request bodies: optional fields that are null count as absent, and [] for an object as {}. The given value is
 * not changed. `readOnlyFields` are top-level fields that are ignored.
 */
export function compileBody<S extends TSchema>(
  schema: S,
  readOnlyFields: readonly string[] = [],
): Validator<Static<S>> {
  const validate = compile(schema);
  let shape: Shape | undefined;
  return (value) => {
    // The body itself must be an object: [] as a body is a mistake, not an empty map.
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return validate(value);
    shape ??= shapeOf(branchesOf(schema as Schema));
    return validate(readFields(withoutFields(value as Fields, readOnlyFields), shape));
  };
}

function withoutFields(fields: Fields, names: readonly string[]): Fields {
  const found = names.filter((name) => Object.hasOwn(fields, name));
  if (found.length === 0) return fields;
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !found.includes(name)));
}
