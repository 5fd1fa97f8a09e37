/**
 * Describes the fields of a schema as readers of the API reference see them: a list of names with types, limits, and nested lists. References
 * are described in place. A schema inside itself is named, but not described again.
 */
import { type OpenapiDocument, resolve, type Schema } from './document.ts';

/** The fields of an object. A union of objects has several groups, each with a name. */
export interface FieldGroup {
  name: string | undefined;
  fields: Field[];
}

export interface Shape {
  /** For example `string or null`, or `array of objects`. */
  type: string;
  /** Limits of the value, for example `up to 255 characters`. */
  limits: string[];
  /** The allowed values, as JSON. Empty if any value of the type is allowed. */
  values: string[];
  pattern: string | undefined;
  groups: FieldGroup[];
}

export interface Field extends Shape {
  name: string;
  isRequired: boolean;
  description: string;
}

/** Deeper objects are named, but not described. */
const DEPTH_AT_MOST = 8;
const PLURALS: Readonly<Record<string, string>> = {
  'any value': 'any values',
  boolean: 'booleans',
  'date-time': 'date-times',
  integer: 'integers',
  number: 'numbers',
  object: 'objects',
  string: 'strings',
};

const figure = new Intl.NumberFormat('en-US');

/** Returns `1 to 255 characters`, `up to 255 characters`, or `at least 1 character`; undefined without a limit. */
function range(low: number | undefined, high: number | undefined, unit: string): string | undefined {
  const counted = (count: number) => `${figure.format(count)}${unit && ` ${unit}${count === 1 ? '' : 's'}`}`.trim();
  if (low !== undefined && low === high) return `exactly ${counted(low)}`;
  if (low !== undefined && high !== undefined) return `${figure.format(low)} to ${counted(high)}`;
  if (high !== undefined) return `up to ${counted(high)}`;
  return low === undefined ? undefined : `at least ${counted(low)}`;
}

function limitsOf(schema: Schema): string[] {
  const found = [
    schema.format === 'date-time' ? undefined : range(schema.minLength, schema.maxLength, 'character'),
    range(schema.minimum, schema.maximum, ''),
    range(schema.minItems, schema.maxItems, 'item'),
    range(schema.minProperties, schema.maxProperties, 'field'),
    schema.uniqueItems === true ? 'no duplicates' : undefined,
    schema.default === undefined ? undefined : `${JSON.stringify(schema.default)} by default`,
  ];
  return found.filter((one) => one !== undefined);
}

const unique = <T>(list: T[]): T[] => [...new Set(list)];

/** Merges the shapes of a union's branches. */
function union(shapes: Shape[]): Shape {
  const named = shapes.flatMap(({ groups }) => groups);
  const limits = unique(shapes.flatMap((shape) => shape.limits));
  return {
    type: unique(shapes.map(({ type }) => type)).join(' or '),
    // The items of a list often have the limits of a single value.
    limits: limits.filter((one) => !limits.some((other) => one === `each ${other}`)),
    values: unique(shapes.flatMap(({ values }) => values)),
    pattern: shapes.find(({ pattern }) => pattern !== undefined)?.pattern,
    groups: named.map(({ name, fields }, index) => ({
      name: named.length === 1 ? undefined : (name ?? `Variant ${index + 1}`),
      fields,
    })),
  };
}

export class SchemaReader {
  readonly #document: OpenapiDocument;

  constructor(document: OpenapiDocument) {
    this.#document = document;
  }

  shapeOf(schema: Schema): Shape {
    return this.#shape(schema, []);
  }

  /** `inside` lists the references that lead to this schema. */
  #shape(schema: Schema, inside: readonly string[]): Shape {
    const { $ref } = schema;
    if ($ref === undefined) return this.#ownShape(schema, inside);
    if (inside.includes($ref)) {
      return { type: `object (${$ref.split('/').at(-1)})`, limits: [], values: [], pattern: undefined, groups: [] };
    }
    const shape = this.#shape(resolve<Schema>(this.#document, { $ref }), [...inside, $ref]);
    const name = $ref.split('/').at(-1);
    return { ...shape, groups: shape.groups.map((group) => ({ ...group, name: group.name ?? name })) };
  }

  #ownShape(schema: Schema, inside: readonly string[]): Shape {
    if (schema.anyOf !== undefined) return union(schema.anyOf.map((one) => this.#shape(one, inside)));
    const values = schema.const === undefined ? (schema.enum ?? []) : [schema.const];
    const types = [schema.type ?? (values.length > 0 ? typeof values[0] : 'any value')].flat();
    const described = {
      limits: limitsOf(schema),
      values: values.map((one) => JSON.stringify(one)),
      pattern: schema.pattern,
    };
    const isArray = types.includes('array');
    const item = isArray && schema.items ? this.#shape(schema.items, inside) : undefined;
    const type = types
      .map((one) => {
        if (one === 'array') return item === undefined ? 'array' : `array of ${PLURALS[item.type] ?? item.type}`;
        if (one === 'object') return this.#objectType(schema, inside);
        return one === 'string' && schema.format === 'date-time' ? 'date-time' : one;
      })
      .join(' or ');
    if (item !== undefined) {
      const limits = [...described.limits, ...item.limits.map((one) => `each ${one}`)];
      return { type, limits, values: item.values, pattern: item.pattern, groups: item.groups };
    }
    return { ...described, type, groups: this.#groups(schema, inside) };
  }

  #objectType({ properties, additionalProperties }: Schema, inside: readonly string[]): string {
    if (properties !== undefined || typeof additionalProperties !== 'object') return 'object';
    const { type } = this.#shape(additionalProperties, inside);
    return `map of ${PLURALS[type] ?? type}`;
  }

  #groups({ properties, required = [], additionalProperties, title }: Schema, inside: readonly string[]): FieldGroup[] {
    if (inside.length > DEPTH_AT_MOST) return [];
    if (properties === undefined) {
      return typeof additionalProperties === 'object' ? this.#shape(additionalProperties, inside).groups : [];
    }
    const fields = Object.entries(properties).map(([name, schema]) => {
      const target = resolve<Schema>(this.#document, schema);
      return {
        name,
        isRequired: required.includes(name),
        description: schema.description ?? (target.type === 'array' ? undefined : target.description) ?? '',
        ...this.#shape(schema, inside),
      };
    });
    return [{ name: title, fields }];
  }
}
