/**
 * docs/openapi.json is usable for client generators: every operation has a name, a description and examples, every example fits its schema,
 * and every reference exists.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { EVENT_TYPES } from '../../src/events/events.ts';
import { compileBody } from '../../src/http/absent-fields.ts';
import {
  exampleOf,
  type OpenapiDocument,
  type Content as ReferenceContent,
} from '../../src/http/reference/document.ts';
import { isIsoTime } from '../../src/http/validate.ts';

type Json = Record<string, unknown>;
interface Content {
  schema?: Json;
  example?: unknown;
}
interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  parameters?: (Json & { name?: string })[];
  requestBody?: Body & { content: Record<string, Content> };
  responses: Record<string, Body>;
}
interface Document {
  servers: { url: string }[];
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: Operation }>;
  components: Record<string, Record<string, Json>>;
}

const file = new URL('../../docs/openapi.json', import.meta.url);
const document = JSON.parse(readFileSync(file, 'utf8')) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
);
const ajv = new Ajv({ strict: false, formats: { 'date-time': isIsoTime } });
ajv.addSchema({ $id: 'openapi', components: document.components });

function fits(schema: Json, value: unknown, where: string): void {
  const rooted = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"openapi#/')) as Json;
  const validate = ajv.compile(rooted);
  assert.ok(validate(value), `${where}: ${JSON.stringify(validate.errors)}`);
}

test('operation names are unique, readable, and described', () => {
  const names = operations.map(({ operation }) => operation.operationId);
  for (const name of names) assert.match(name, /^[a-z]+(?:[A-Z][a-z]+)+$/);
  assert.equal(new Set(names).size, names.length);
  for (const name of ['sendEmail', 'listMessages', 'rotateWebhookSecret']) assert.ok(names.includes(name), name);
  for (const { name, operation } of operations) {
    assert.ok((operation.description ?? '').length > 20, `${name} has no description`);
  }
});

const exampleIn = (content: Content): unknown =>
  exampleOf(document as unknown as OpenapiDocument, content as ReferenceContent);

interface Body {
  $ref?: string;
  headers?: Json;
  content?: Record<string, Content>;
}

/** Returns the response that a reference names, or the body itself. */
const resolved = (body: Body): Body =>
  body.$ref === undefined ? body : (document.components.responses?.[body.$ref.split('/').at(-1)!] as Body);

/** Content types without a schema. */
const BYTES = ['application/octet-stream', '*/*'];

test('every operation body has a valid example', () => {
  for (const { name, operation } of operations) {
    const bodies = [
      operation.requestBody,
      ...Object.entries(operation.responses)
        .filter(([status]) => status.startsWith('2'))
        .map(([, response]) => response),
    ].map((body) => body && resolved(body));
    for (const body of bodies) {
      for (const [type, content] of Object.entries(body?.content ?? {})) {
        const { schema } = content;
        const example = exampleIn(content);
        assert.notEqual(example, undefined, `${name} has no example`);
        assert.ok(schema !== undefined || BYTES.includes(type), `${name} has no schema`);
        if (schema !== undefined) fits(schema, example, name);
      }
    }
  }
});

/** Returns the examples of named schemas in the bodies of requests, responses, and webhooks, by the names of the schemas. */
function examplesOfBodies(): Map<string, unknown> {
  const found = new Map<string, unknown>();
  const add = ({ $ref, anyOf, items, properties = {} }: Json, example: unknown): void => {
    if (example === undefined || example === null) return;
    if (typeof $ref === 'string') {
      const name = $ref.split('/').at(-1)!;
      found.set(name, example);
      add(document.components.schemas?.[name] ?? {}, example);
    } else if (Array.isArray(anyOf)) add(anyOf[0] as Json, example);
    else if (items !== undefined) add(items as Json, (example as unknown[])[0]);
    for (const [member, schema] of Object.entries(properties as Json)) add(schema as Json, (example as Json)[member]);
  };
  const hooks = Object.values(document.webhooks).map(({ post }) => ({ operation: post }));
  for (const { operation } of [...operations, ...hooks]) {
    const { default: _, ...responses } = operation.responses;
    for (const { content = {} } of [operation.requestBody ?? {}, ...Object.values(responses)].map(resolved))
      for (const body of Object.values(content)) if (body.schema) add(body.schema, exampleIn(body));
  }
  return found;
}

test('every named schema has a valid example, its own or that of a body', () => {
  const schemas = Object.entries(document.components.schemas ?? {});
  const ofBodies = examplesOfBodies();
  assert.ok(schemas.length > 40);
  for (const [name, schema] of schemas) {
    const [example = ofBodies.get(name)] = (schema.examples ?? []) as unknown[];
    assert.notEqual(example, undefined, `${name} has no example`);
    fits({ $ref: `#/components/schemas/${name}` }, example, name);
  }
});

test('a generated client stays small: errors are shared, and every time has its format', () => {
  const errors = operations.flatMap(({ operation }) =>
    Object.entries(operation.responses).filter(([status]) => !status.startsWith('2')),
  );
  const written = errors.filter(([, { $ref }]) => $ref === undefined).map(([, response]) => JSON.stringify(response));
  assert.equal(new Set(written).size, written.length);
  assert.ok(written.length < 10, `${written.length} error responses are not shared`);
  assert.ok(errors.length > 500);
  assert.ok(Buffer.byteLength(JSON.stringify(document)) < 400_000, 'the served document');
  const untyped: string[] = [];
  const visit = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, member] of Object.entries(value)) {
      if (key === 'example' || key === 'examples') continue;
      const schema = member as Json | null;
      const isTime = /(?:At|^timestamp|^time|^since|^until)$/.test(key) && place.endsWith('/properties');
      const isText = schema !== null && [schema?.type].flat().includes('string');
      if (isTime && isText && schema.format !== 'date-time') untyped.push(`${place}/${key}`);
      visit(member, `${place}/${key}`);
    }
  };
  visit(document, '#');
  assert.deepEqual(untyped, []);
});

test('every list is read page by page', () => {
  const lists = operations.filter(({ name, operation }) => {
    const { content } = resolved(operation.responses['200'] ?? {});
    return name.startsWith('GET ') && content?.['application/json']?.schema?.type === 'array';
  });
  assert.ok(lists.length > 25);
  const unpaged = lists.filter(({ operation }) => {
    const names = operation.parameters?.map(({ name, $ref }) => name ?? String($ref).split('/').at(-1)) ?? [];
    return !names.includes('limit') || !names.includes('cursor');
  });
  assert.deepEqual(
    unpaged.map(({ name }) => name),
    [],
  );
});

test('headers, webhooks, servers, and tags are listed in order of use', () => {
  const headersOf = (name: string, status: string): string[] => {
    const response = operations.find((one) => one.name === name)?.operation.responses[status];
    return Object.keys(resolved(response ?? {}).headers ?? {});
  };
  const takesKey = operations
    .filter(({ operation }) =>
      operation.parameters?.some((one) => one.$ref === '#/components/parameters/Idempotency-Key'),
    )
    .map(({ operation }) => operation.operationId);
  assert.deepEqual(takesKey.sort(), ['registerAttachments', 'resendMessage', 'sendEmail', 'sendEmailBatch']);
  assert.ok(headersOf('POST /send', '202').includes('Idempotent-Replayed'));
  assert.ok(headersOf('POST /send', '503').includes('Retry-After'));
  assert.ok(headersOf('POST /send', '409').includes('Retry-After'));
  const limits = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];
  assert.deepEqual(headersOf('GET /messages', '200'), ['Link', 'X-Next-Cursor']);
  assert.deepEqual(headersOf('GET /messages', '429'), ['X-Request-Id', 'Retry-After', ...limits]);
  assert.ok(headersOf('GET /messages', 'default').includes('Allow'));
  assert.deepEqual(Object.keys(document.webhooks), [...EVENT_TYPES]);
  for (const [name, { post }] of Object.entries(document.webhooks)) {
    const { schema, example } = post.requestBody?.content['application/json'] ?? {};
    fits(schema ?? {}, example, name);
    assert.deepEqual(
      post.parameters?.map(({ $ref }) => $ref),
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((header) => `#/components/parameters/${header}`),
    );
  }
  assert.deepEqual(document.servers, [{ url: 'http://localhost:3000' }]);
  assert.equal(document.tags[0]?.name, 'send');
  const known = new Set(document.tags.map((tag) => tag.name));
  for (const { name, operation } of operations)
    for (const tag of operation.tags) assert.ok(known.has(tag), `${name}: ${tag}`);
  for (const tag of document.tags) assert.ok(tag.description, `the tag ${tag.name} has no description`);
});

test('every reference resolves', () => {
  for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/components\/([^"]+)"/g)) {
    const [kind = '', name = ''] = (reference ?? '').split('/');
    assert.ok(document.components[kind]?.[name], `there is no ${kind} ${name}`);
  }
});

/** Returns the schema with all references resolved. */
function inlined(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(inlined);
  const { $ref } = schema as { $ref?: string };
  if ($ref !== undefined) return inlined(document.components.schemas?.[$ref.split('/').at(-1)!]);
  return Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, inlined(value)]));
}

interface Field {
  path: string;
  owner: Json;
  name: string;
  schema: Json;
  isOptional: boolean;
}

/** Returns the fields of a body that its schema describes, at every depth, including absent ones. */
function fieldsOf(body: unknown, schema: Json, path = ''): Field[] {
  if (Array.isArray(body))
    return body.flatMap((element, index) => fieldsOf(element, schema.items as Json, `${path}[${index}]`));
  if (typeof body !== 'object' || body === null || schema?.properties === undefined) return [];
  return Object.entries(schema.properties as Record<string, Json>).flatMap(([name, inner]) => {
    const isOptional = !((schema.required ?? []) as string[]).includes(name);
    const field = { path: `${path}.${name}`, owner: body as Json, name, schema: inner, isOptional };
    return [field, ...fieldsOf((body as Json)[name], inner, field.path)];
  });
}

test('every request body accepts null for an optional field and [] for a map', () => {
  const counts = { nulls: 0, maps: 0 };
  for (const { name, operation } of operations) {
    const content = operation.requestBody?.content['application/json'];
    if (content?.schema === undefined) continue;
    const { schema } = content;
    const example = exampleIn(content);
    const whole = inlined(schema) as Json;
    const validate = compileBody(whole as never);
    const accepts = (body: unknown, where: string) => {
      const result = validate(body);
      // A change must change something, and a null field changes nothing.
      if (!result.ok && whole.minProperties === 1 && result.failure.details[0]?.message === 'must not be empty') return;
      assert.ok(result.ok, `${where}: ${result.ok || JSON.stringify(result.failure.details)}`);
    };
    accepts(example, name);
    const body = structuredClone(example);
    for (const field of fieldsOf(body, whole)) {
      const { owner, name: key, schema: inner } = field;
      const had = Object.hasOwn(owner, key);
      const value = owner[key];
      if (field.isOptional) {
        owner[key] = null;
        accepts(body, `${name} with ${field.path}: null`);
        counts.nulls += 1;
      }
      if (inner.type === 'object' && inner.properties === undefined) {
        owner[key] = [];
        accepts(body, `${name} with ${field.path}: []`);
        counts.maps += 1;
      }
      if (had) owner[key] = value;
      else delete owner[key];
    }
  }
  assert.ok(counts.nulls > 100 && counts.maps >= 5, JSON.stringify(counts));
});
