/**
 * The parts of an OpenAPI 3.1 document that the API reference reads, and its references resolved. The document is the one that openapi.ts
 * generates.
 */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  title?: string;
  description?: string;
  format?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  minProperties?: number;
  maxProperties?: number;
  pattern?: string;
  uniqueItems?: boolean;
  examples?: unknown[];
}

export interface Content {
  schema?: Schema;
  example?: unknown;
}

export interface DocumentParameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
}

interface Reference {
  $ref: string;
}

export interface DocumentResponse {
  description: string;
  headers?: Record<string, unknown>;
  content?: Record<string, Content>;
}

type Security = Record<string, unknown>[];

export interface DocumentOperation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: Security;
  parameters?: (DocumentParameter | Reference)[];
  requestBody?: { required?: boolean; content: Record<string, Content> };
  responses: Record<string, DocumentResponse | Reference>;
}

export interface OpenapiDocument {
  info: { title: string; version: string; description?: string };
  servers?: { url: string }[];
  tags: { name: string; description?: string }[];
  security: Security;
  paths: Record<string, Record<string, DocumentOperation>>;
  webhooks?: Record<string, { post: DocumentOperation }>;
  components: Record<string, Record<string, unknown>>;
}

/** Returns the component that a reference names, or the value itself. */
export function resolve<T extends object>(document: OpenapiDocument, value: T | Reference): T {
  if (!('$ref' in value) || typeof value.$ref !== 'string') return value as T;
  const [, , kind = '', name = ''] = value.$ref.split('/');
  const found = document.components[kind]?.[name];
  if (found === undefined) throw new Error(`the OpenAPI document has no ${value.$ref}`);
  return found as T;
}

/** Returns the example of a body: its own, or that of the schema it refers to. A list has one item, and a union uses its first branch. */
export function exampleOf(document: OpenapiDocument, { schema, example }: Content): unknown {
  if (example !== undefined || schema === undefined) return example;
  if (schema.anyOf) return exampleOf(document, { schema: schema.anyOf[0]! });
  if (schema.items) {
    const item = exampleOf(document, { schema: schema.items });
    return item === undefined ? undefined : [item];
  }
  return resolve<Schema>(document, schema).examples?.[0];
}
