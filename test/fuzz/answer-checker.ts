/** Checks responses against an OpenAPI document: status, headers, content type, and the body against its schema. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { isIsoTime } from '../../src/http/validate.ts';
import type { Answer } from '../kit/api.ts';
import type { Schema } from '../kit/schema-values.ts';

export interface Parameter {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  explode?: boolean;
  schema: Schema;
}

export interface Response {
  /** The name of a response in `components`, which then has the other members. */
  $ref?: string;
  headers?: Record<string, unknown>;
  content?: Record<string, { schema?: Schema }>;
}

export interface Operation {
  operationId: string;
  tags: string[];
  security?: unknown[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema?: Schema; example?: unknown }> };
  responses: Record<string, Response>;
}

export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Record<string, Schema>>;
}

export interface Described {
  method: string;
  path: string;
  operation: Operation;
}

/** Headers that the document lists wherever they can occur. */
const NAMED_HEADERS = ['link', 'x-next-cursor', 'retry-after', 'idempotent-replayed', 'ratelimit-limit', 'allow'];
/** The definition of a response in the document, or what is wrong with the response. */
export class Checker {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, formats: { 'date-time': isIsoTime } });
  /** By schema text: most responses share the schema of errors. */
  readonly #validators = new Map<string, ValidateFunction>();

  readonly #shared: Record<string, Response>;

  constructor(document: Document) {
    this.#shared = document.components.responses ?? {};
    this.#ajv.addSchema({ $id: 'openapi', components: document.components });
  }

  problemOf({ operation }: Described, answer: Answer): string | undefined {
    const { status, headers } = answer;
    if (status >= 500) return `answered ${status}`;
    const named = operation.responses[status];
    const response = named?.$ref === undefined ? named : this.#shared[named.$ref.split('/').at(-1)!];
    if (response === undefined) return `answered ${status}, which the document does not name`;
    if (!headers['x-request-id']?.startsWith('req_')) return 'has no X-Request-Id';
    const names = Object.keys(response.headers ?? {}).map((name) => name.toLowerCase());
    const further = NAMED_HEADERS.find((name) => headers[name] !== undefined && !names.includes(name));
    if (further !== undefined) return `has the header ${further} with ${status}, which the document does not name`;
    const [[contentType, { schema }] = ['', {}]] = Object.entries(response.content ?? {});
    const [given] = (headers['content-type'] ?? '').split(';');
    if (contentType !== '*/*' && given !== contentType.split(';')[0]) return `has the type ${given} with ${status}`;
    if (schema === undefined || given !== 'application/json') return undefined;
    const validate = this.#validatorOf(schema);
    if (validate(JSON.parse(answer.text))) return undefined;
    const [first] = validate.errors ?? [];
    return `does not fit its schema with ${status}: ${first?.instancePath} ${first?.message} ${JSON.stringify(first?.params)}`;
  }

  #validatorOf(schema: Schema): ValidateFunction {
    const text = JSON.stringify(schema);
    const known = this.#validators.get(text);
    if (known !== undefined) return known;
    const validate = this.#ajv.compile(JSON.parse(text.replaceAll('"#/', '"openapi#/')) as Schema);
    this.#validators.set(text, validate);
    return validate;
  }
}
