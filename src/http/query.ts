/**
 * The query string of a request as an object that its schema checks. Names and values are decoded strictly (UTF-8, `+` is a
 * space). A value becomes a number or a boolean only where the schema says so and its text is exactly one; a parameter
 * given twice is an issue unless the schema takes an array.
 */
import type { TSchema } from 'typebox';
import type { Issue } from '../base/failure.ts';
import { invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { compile } from './validate.ts';

type Property = { type?: unknown };

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}

function convert(text: string, property: Property | undefined): unknown {
  const type = property?.type;
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === 'number' && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function readPairs(search: string, properties: Record<string, Property>, issues: Issue[]): Record<string, unknown> {
  const query = Object.create(null) as Record<string, unknown>;
  for (const pair of search === '' ? [] : search.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decode(equals === -1 ? pair : pair.slice(0, equals));
    const text = equals === -1 ? '' : decode(pair.slice(equals + 1));
    if (name === undefined || text === undefined) {
      issues.push({ field: name ?? '', message: 'is not valid percent-encoded UTF-8' });
      continue;
    }
    if (text.includes('\0')) issues.push({ field: name, message: 'contains the NUL character' });
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property?.type === 'array') query[name] = [...((query[name] as unknown[]) ?? []), text];
    else if (name in query) issues.push({ field: name, message: 'is given twice' });
    else query[name] = convert(text, property);
  }
  return query;
}

/** Validates the text behind the question mark; without a schema every parameter is unknown. */
export type QueryReader = (search: string) => Result<Record<string, unknown>>;

const NOTHING = { type: 'object', properties: {}, additionalProperties: false };

/** A reader for one route. Throws when the schema is not a closed object. */
export function compileQuery(schema: TSchema | undefined): QueryReader {
  const shape = (schema ?? NOTHING) as { properties?: Record<string, Property>; additionalProperties?: unknown };
  if (shape.additionalProperties !== false) throw new Error('a query schema refuses unknown parameters: use closed()');
  const validate = compile((schema ?? NOTHING) as TSchema);
  const properties = shape.properties ?? {};
  return (search) => {
    const issues: Issue[] = [];
    const query = readPairs(search, properties, issues);
    const validated = validate(query);
    if (validated.ok && issues.length === 0) return ok(query);
    return refuse(invalid([...issues, ...(validated.ok ? [] : validated.failure.details)].slice(0, 100)));
  };
}
