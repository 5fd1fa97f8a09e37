/**
 * Builds the JSON schemas of the API, with the functions and the types of TypeBox that we use. TypeBox itself is a dependency of the types
 * only: its 370 modules take a tenth of a second of CPU time in each process that loads them.
 */
import type { Type as TypeBox } from 'typebox';

type Options = Record<string, unknown>;

interface ObjectSchema extends Options {
  properties: Record<string, Options>;
}

const OPTIONAL = Symbol('optional');

/** Schemas are also JSON, so the mark is not enumerable. */
function optional(schema: Options): Options {
  return Object.defineProperty({ ...schema }, OPTIONAL, { value: true });
}

function object(properties: ObjectSchema['properties'], options?: Options): ObjectSchema {
  const required = Object.keys(properties).filter((name) => !(OPTIONAL in properties[name]!));
  return { type: 'object', ...(required.length > 0 && { required }), properties, ...options };
}

function partial({ properties }: ObjectSchema, options?: Options): ObjectSchema {
  return object(
    Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, optional(schema)])),
    options,
  );
}

const schemaTypes = {
  Array: (items: Options, options?: Options) => ({ type: 'array', items, ...options }),
  Boolean: (options?: Options) => ({ type: 'boolean', ...options }),
  Integer: (options?: Options) => ({ type: 'integer', ...options }),
  Literal: (value: string | number | boolean, options?: Options) => ({ type: typeof value, const: value, ...options }),
  Null: (options?: Options) => ({ type: 'null', ...options }),
  Number: (options?: Options) => ({ type: 'number', ...options }),
  Object: object,
  Optional: optional,
  Partial: partial,
  String: (options?: Options) => ({ type: 'string', ...options }),
  Union: (anyOf: Options[], options?: Options) => ({ anyOf, ...options }),
  Unknown: (options?: Options) => ({ ...options }),
  Unsafe: (schema: Options) => ({ ...schema }),
};

export const Type = schemaTypes as unknown as Pick<typeof TypeBox, keyof typeof schemaTypes>;
