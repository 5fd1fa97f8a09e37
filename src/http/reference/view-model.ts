/**
 * Turns the OpenAPI document into what the API reference displays: operations by tag with their parameters, bodies, responses, error codes,
 * and sample programs. Knows nothing of HTML.
 */
import { REQUESTED_WITH } from '../cross-site.ts';
import {
  type Content,
  type DocumentOperation,
  type DocumentParameter,
  type DocumentResponse,
  exampleOf,
  type OpenapiDocument,
  resolve,
} from './document.ts';
import { type Field, SchemaReader, type Shape } from './fields.ts';
import { languages, type SampleBody, type SampleCall, type SampleHeader } from './samples.ts';

/** The callers of an operation. `member` is a session that names an account. */
export type Access = 'account' | 'operator' | 'member' | 'session' | 'none';

/** A body with its content type. The shape is missing for bytes and for text that is not JSON. */
export interface BodyView {
  contentType: string;
  shape: Shape | undefined;
  example: string | undefined;
}

export interface ResponseView {
  status: string;
  description: string;
  headers: string[];
  bodies: BodyView[];
}

interface ErrorView {
  status: string;
  codes: string[];
}

export interface Sample {
  language: string;
  code: string;
}

interface OperationLink {
  id: string;
  method: string;
  path: string;
  summary: string;
}

export interface OperationView extends OperationLink {
  description: string;
  access: Access;
  parameters: { title: string; fields: Field[] }[];
  request: BodyView | undefined;
  isBodyRequired: boolean;
  responses: ResponseView[];
  errors: ErrorView[];
  samples: Sample[];
}

export interface EventView {
  id: string;
  name: string;
  summary: string;
  example: string | undefined;
}

interface Tag {
  id: string;
  name: string;
  description: string;
  operations: OperationLink[];
}

/** Headers that every response can have; the page describes them once. */
const COMMON_HEADERS = new Set(['X-Request-Id', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']);
const PLACES = [
  ['path', 'Path parameters'],
  ['query', 'Query parameters'],
  ['header', 'Headers'],
] as const;
/** The file that examples upload. */
const UPLOADED = 'invoice.pdf';

const written = (example: unknown): string =>
  typeof example === 'string' ? example : JSON.stringify(example, null, 2);

/** Encodes all characters that mean something in a URL or inside the quotes of a programming language. */
const encoded = (value: unknown): string =>
  encodeURIComponent(String(value)).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);

function accessOf(security: Record<string, unknown>[]): Access {
  if (security.length === 0) return 'none';
  if (security.some((one) => 'apiKey' in one)) return 'account';
  if (security.some((one) => 'operatorKey' in one)) return 'operator';
  return security.some((one) => 'accountId' in one) ? 'member' : 'session';
}

function credentials(access: Access, method: string): SampleHeader[] {
  const account = { name: 'X-Id', text: '', variable: 'POSTRIDER_ID' };
  if (access === 'none') return [];
  if (access === 'account') return [{ name: 'X-Api-Key', text: '', variable: 'POSTRIDER_KEY' }, account];
  if (access === 'operator') return [{ name: 'Authorization', text: 'Bearer ', variable: 'OPERATOR_KEY' }];
  return [
    { name: 'Cookie', text: 'postrider_session=', variable: 'POSTRIDER_SESSION' },
    ...(access === 'member' ? [account] : []),
    ...(method === 'GET'
      ? []
      : [
          { name: 'X-Requested-With', text: REQUESTED_WITH },
          { name: 'Origin', text: '', variable: 'POSTRIDER_URL' },
        ]),
  ];
}

/** Each operation has its own key: Postrider rejects a key that was used for another request. */
const idempotencyKey = (operationId: string): string =>
  `${operationId.replaceAll(/[A-Z]/g, (one) => `-${one.toLowerCase()}`)}-17`;

function resultOf(contentTypes: string[]): SampleCall['result'] {
  if (contentTypes.includes('text/event-stream')) return 'stream';
  if (contentTypes.includes('*/*')) return 'file';
  return contentTypes.length > 0 && contentTypes.every((one) => one === 'application/json') ? 'json' : 'text';
}

function bodyOf(contentType: string, example: unknown): SampleBody {
  if (contentType === 'application/json') return { kind: 'json', value: example };
  return contentType === 'application/octet-stream'
    ? { kind: 'file', name: UPLOADED }
    : { kind: 'text', text: String(example) };
}

export class ReferenceView {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  readonly serverUrl: string | undefined;
  readonly tags: Tag[];
  readonly events: EventView[];
  readonly #document: OpenapiDocument;
  readonly #schemas: SchemaReader;
  readonly #operations = new Map<string, { method: string; path: string; operation: DocumentOperation }>();

  constructor(document: OpenapiDocument) {
    this.#document = document;
    this.#schemas = new SchemaReader(document);
    const { info, servers, tags, paths, webhooks = {} } = document;
    this.title = info.title;
    this.version = info.version;
    this.description = info.description ?? '';
    this.serverUrl = servers?.[0]?.url;
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        this.#operations.set(operation.operationId, { method: method.toUpperCase(), path, operation });
      }
    }
    const links = [...this.#operations].map(([id, { method, path, operation }]) => ({
      tag: operation.tags[0],
      link: { id, method, path, summary: operation.summary },
    }));
    this.tags = tags.map(({ name, description = '' }) => ({
      id: name,
      name: `${name[0]?.toUpperCase()}${name.slice(1)}`,
      description,
      operations: links.filter(({ tag }) => tag === name).map(({ link }) => link),
    }));
    this.events = Object.entries(webhooks).map(([name, { post }]) => {
      const example = exampleOf(document, post.requestBody?.content['application/json'] ?? {});
      return {
        id: post.operationId,
        name,
        summary: post.summary,
        example: example === undefined ? undefined : written(example),
      };
    });
  }

  /** Returns the headers and the body that all webhook events have. */
  eventRequest(): { headers: Field[]; body: BodyView } | undefined {
    const [first] = Object.values(this.#document.webhooks ?? {});
    const content = Object.entries(first?.post.requestBody?.content ?? {})[0];
    if (first === undefined || content === undefined) return undefined;
    return { headers: this.#fields(this.#parametersOf(first.post)), body: this.#body(content) };
  }

  operation(id: string): OperationView {
    const found = this.#operations.get(id);
    if (found === undefined) throw new Error(`the OpenAPI document has no operation ${id}`);
    const { method, path, operation } = found;
    const access = accessOf(operation.security ?? this.#document.security);
    const parameters = this.#parametersOf(operation);
    const request = Object.entries(operation.requestBody?.content ?? {})[0];
    const responses = Object.entries(operation.responses).map(
      ([status, response]) => [status, resolve<DocumentResponse>(this.#document, response)] as const,
    );
    return {
      id,
      method,
      path,
      access,
      summary: operation.summary,
      description: operation.description ?? '',
      parameters: PLACES.map(([place, title]) => ({
        title,
        fields: this.#fields(parameters.filter((one) => one.in === place)),
      })).filter(({ fields }) => fields.length > 0),
      request: request && this.#body(request),
      isBodyRequired: operation.requestBody?.required === true,
      responses: responses
        .filter(([status]) => /^[23]/.test(status))
        // If an operation has several, 200 is the special case: for example a dry run.
        .sort(([a], [b]) => b.localeCompare(a))
        .map(([status, { description, headers = {}, content = {} }]) => ({
          status,
          description,
          headers: Object.keys(headers).filter((name) => !COMMON_HEADERS.has(name)),
          bodies: Object.entries(content).map((one) => this.#body(one)),
        })),
      errors: responses
        .filter(([status]) => /^[45]/.test(status))
        .map(([status, { description }]) => ({ status, codes: description.match(/\b[A-Z][A-Z_]{3,}\b/g) ?? [] })),
      samples: this.#samples(found, access, parameters),
    };
  }

  #samples(
    { method, path, operation }: { method: string; path: string; operation: DocumentOperation },
    access: Access,
    parameters: DocumentParameter[],
  ): Sample[] {
    const request = Object.entries(operation.requestBody?.content ?? {})[0];
    const answers = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
    const contentTypes = answers.flatMap(([, answer]) =>
      Object.keys(resolve<DocumentResponse>(this.#document, answer).content ?? {}),
    );
    const inPath = new Map(parameters.filter((one) => one.in === 'path').map((one) => [one.name, one.example]));
    const query = parameters
      .filter((one) => one.in === 'query' && one.required === true)
      .map(({ name, example }) => `${encoded(name)}=${encoded(example)}`);
    const filled = path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => encoded(inPath.get(name) ?? name));
    const call: SampleCall = {
      method,
      target: query.length === 0 ? filled : `${filled}?${query.join('&')}`,
      headers: [
        ...credentials(access, method),
        ...(request === undefined ? [] : [{ name: 'Content-Type', text: request[0] }]),
        ...parameters
          .filter((one) => one.in === 'header' && (one.required === true || one.name === 'Idempotency-Key'))
          .map(({ name, example }) => ({
            name,
            text: name === 'Idempotency-Key' ? idempotencyKey(operation.operationId) : String(example),
          })),
      ],
      body: request && bodyOf(request[0], exampleOf(this.#document, request[1])),
      result: resultOf(contentTypes),
    };
    return languages.map(({ id, write }) => ({ language: id, code: write(call) }));
  }

  #parametersOf(operation: DocumentOperation): DocumentParameter[] {
    return (operation.parameters ?? []).map((one) => resolve<DocumentParameter>(this.#document, one));
  }

  #fields(parameters: DocumentParameter[]): Field[] {
    return parameters.map(({ name, required = false, description = '', schema }) => ({
      name,
      isRequired: required,
      description,
      ...this.#schemas.shapeOf(schema),
    }));
  }

  #body([contentType, content]: [string, Content]): BodyView {
    const { schema } = content;
    const example = exampleOf(this.#document, content);
    return {
      contentType,
      shape: schema !== undefined && contentType === 'application/json' ? this.#schemas.shapeOf(schema) : undefined,
      example: example === undefined ? undefined : written(example),
    };
  }
}
