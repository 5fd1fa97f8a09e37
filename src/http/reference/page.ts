/**
 * Renders the API reference as one HTML page that is complete without JavaScript. The page needs reference.css and reference.js, which adds
 * language tabs, search, and copy buttons, and loads nothing else.
 */
import { setImmediate } from 'node:timers/promises';
import { errorCatalog } from '../../base/failure.ts';
import type { OpenapiDocument } from './document.ts';
import type { Field, FieldGroup, Shape } from './fields.ts';
import { html, type Markup } from './markup.ts';
import { languages } from './samples.ts';
import { type Access, type BodyView, type OperationView, ReferenceView, type ResponseView } from './view-model.ts';

export interface PageUrls {
  /** The folder of reference.css, reference.js and icon.svg. */
  assets: string;
  /** The OpenAPI document as JSON. */
  document: string;
}

/** The event loop is free for other work after each slice of rendering. */
const SLICE_MS = 10;

const ACCESS: Readonly<Record<Access, string>> = {
  account: 'Account API key',
  operator: 'Operator key',
  member: 'Session of a member',
  session: 'Session',
  none: 'None',
};

/** Text with `code` in backticks. */
function prose(text: string): Markup[] {
  return text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : html`${part}`));
}

function joined(parts: Markup[], separator: string): Markup[] {
  return parts.flatMap((one, index) => (index === 0 ? [one] : [html`${separator}`, one]));
}

function methodMark(method: string): Markup {
  return html`<span class="method ${method.toLowerCase()}">${method}</span>`;
}

function countOf(fields: readonly unknown[]): string {
  return `${fields.length} ${fields.length === 1 ? 'field' : 'fields'}`;
}

/** Whether fields are written by the client, which needs to know the required ones, or by Postrider. */
type Writer = 'client' | 'service';

function fieldItem(field: Field, writer: Writer): Markup {
  const isMarked = field.isRequired === (writer === 'client');
  const mark =
    writer === 'client' ? html` <span class="required">required</span>` : html` <span class="optional">optional</span>`;
  const limits = [
    ...field.limits.map((one) => html`${one}`),
    ...(field.pattern === undefined ? [] : [html`pattern <code>${field.pattern}</code>`]),
  ];
  const values = field.values.map((one) => html`<code>${one}</code>`);
  return html`<li><code class="name">${field.name}</code> <span class="type">${field.type}</span>${isMarked ? mark : undefined}${
    limits.length === 0 ? undefined : html` <span class="limits">${joined(limits, ', ')}</span>`
  }${field.description === '' ? undefined : html`<p>${prose(field.description)}</p>`}${
    values.length === 0
      ? undefined
      : html`<p class="values">${values.length === 1 ? 'Always' : 'One of'} ${joined(values, ' ')}</p>`
  }${field.groups.map((group) => foldedGroup(group, writer))}</li>
`;
}

function fieldList(fields: readonly Field[], writer: Writer): Markup {
  return html`<ul class="fields">
${fields.map((one) => fieldItem(one, writer))}</ul>`;
}

function foldedGroup({ name, fields }: FieldGroup, writer: Writer): Markup {
  return html`<details><summary>${name === undefined ? '' : `${name}: `}${countOf(fields)}</summary>${fieldList(fields, writer)}</details>`;
}

function requestBody({ contentType, shape }: BodyView, isRequired: boolean): Markup {
  return html`<h4>Request body</h4>
<p class="note">${contentType}${isRequired ? '' : ', optional'}</p>
${shape === undefined ? undefined : shapeOfRequest(shape)}`;
}

function shapeOfRequest(shape: Shape): Markup {
  const [first, ...others] = shape.groups;
  if (first === undefined) return html`<p>${shape.type}</p>`;
  if (others.length > 0) return html`<p>One of:</p>${shape.groups.map((group) => foldedGroup(group, 'client'))}`;
  const isPlain = shape.type === 'object';
  return html`${isPlain ? undefined : html`<p>${shape.type}</p>`}${fieldList(first.fields, 'client')}`;
}

function response({ status, description, headers, bodies }: ResponseView): Markup {
  const types = bodies.map(({ contentType }) => contentType).filter((one) => one !== 'application/json');
  const details = bodies.flatMap(({ shape }) =>
    (shape?.groups ?? []).map(
      ({ name, fields }) =>
        html`<details><summary>${shape?.type.startsWith('array') ? 'Array of ' : ''}${name ?? 'object'}: ${countOf(fields)}</summary>${fieldList(fields, 'service')}</details>`,
    ),
  );
  return html`<div class="response"><p><code class="status">${status}</code> ${prose(description)}${
    types.length === 0 ? undefined : html` <span class="type">${types.join(', ')}</span>`
  }</p>${
    headers.length === 0
      ? undefined
      : html`<p class="note">Headers: ${joined(
          headers.map((one) => html`<code>${one}</code>`),
          ', ',
        )}</p>`
  }${details}</div>
`;
}

function errorList(errors: OperationView['errors'], common: ReadonlySet<string>): Markup | undefined {
  const listed = errors
    .map(({ status, codes }) => ({ status, codes: codes.filter((one) => !common.has(one)) }))
    .filter(({ codes }) => codes.length > 0);
  if (listed.length === 0) return undefined;
  return html`<h4>Errors</h4>
<ul class="errors">
${listed.map(
  ({ status, codes }) =>
    html`<li><code class="status">${status}</code> ${joined(
      codes.map((code) => html`<a href="#${code}">${code}</a>`),
      ', ',
    )}</li>
`,
)}</ul>`;
}

function codeBlock(label: string, text: string, language?: string): Markup {
  const attribute = language === undefined ? undefined : html` data-language="${language}"`;
  return html`<div class="block"${attribute}><p class="label">${label}</p><pre tabindex="0"><code>${text}</code></pre></div>
`;
}

function operationSection(view: OperationView, common: ReadonlySet<string>): Markup {
  const examples = view.responses.flatMap(({ status, bodies }) =>
    bodies
      .filter(({ example }) => example !== undefined && example !== '')
      .map(({ example }) => codeBlock(`Response ${status}`, example!)),
  );
  const samples = view.samples.map(({ language, code }) =>
    codeBlock(languages.find(({ id }) => id === language)!.name, code, language),
  );
  return html`<section class="operation" id="${view.id}">
<div class="text">
<h3><a href="#${view.id}">${view.summary}</a></h3>
<p class="call">${methodMark(view.method)} <code>${view.path}</code></p>
<p>${prose(view.description)}</p>
<p class="note">Authentication: <a href="#authentication">${ACCESS[view.access]}</a></p>
${view.parameters.map(({ title, fields }) => html`<h4>${title}</h4>\n${fieldList(fields, 'client')}\n`)}${
  view.request && requestBody(view.request, view.isBodyRequired)
}
<h4>Responses</h4>
${view.responses.map(response)}${errorList(view.errors, common)}
</div>
<div class="code">
<div class="samples">
${samples}</div>
${examples}</div>
</section>
`;
}

function navigation(view: ReferenceView): Markup {
  const sections = view.tags
    .filter(({ operations }) => operations.length > 0)
    .map(
      ({ id, name, operations }) => html`<li><a class="tag" href="#${id}">${name}</a>
<ul>
${operations.map(
  (one) =>
    html`<li><a href="#${one.id}" data-path="${one.path}">${methodMark(one.method)} <span>${one.summary}</span></a></li>
`,
)}</ul></li>
`,
    );
  const events =
    view.events.length === 0
      ? undefined
      : html`<li><a class="tag" href="#webhook-events">Webhook events</a>
<ul>
${view.events.map(({ id, name, summary }) => html`<li><a href="#${id}" data-path="${summary}"><span class="method event">EVENT</span> <span>${name}</span></a></li>\n`)}</ul></li>
`;
  return html`<nav aria-label="API reference">
<details class="menu">
<summary>Menu</summary>
<div class="contents">
<p class="search" hidden><label for="search">Search operations</label><input id="search" type="search" placeholder="Search operations" autocomplete="off" spellcheck="false"><output for="search"></output></p>
<ul>
<li><a class="tag" href="#introduction">Introduction</a></li>
<li><a class="tag" href="#authentication">Authentication</a></li>
<li><a class="tag" href="#errors">Errors</a></li>
${sections}${events}</ul>
</div>
</details>
</nav>`;
}

const VARIABLES = `export POSTRIDER_URL=https://mail.example.com
export POSTRIDER_KEY=pr_test_…   # an API key
export POSTRIDER_ID=acc_…        # the ID of its account`;

const CREDENTIALS = [
  [
    'Account API key',
    'X-Api-Key, X-Id',
    '$POSTRIDER_KEY, $POSTRIDER_ID',
    'A session of a member with X-Id also works.',
  ],
  ['Operator key', 'Authorization: Bearer', '$OPERATOR_KEY', 'A session of an operator also works.'],
  [
    'Session of a member',
    'Cookie: postrider_session, X-Id',
    '$POSTRIDER_SESSION, $POSTRIDER_ID',
    'API keys cannot call these operations.',
  ],
  [
    'Session',
    'Cookie: postrider_session',
    '$POSTRIDER_SESSION',
    'Calls that change something also need X-Requested-With and Origin.',
  ],
] as const;

function introduction(view: ReferenceView, documentUrl: string): Markup {
  const variables = VARIABLES.replace('https://mail.example.com', view.serverUrl ?? 'https://mail.example.com');
  const server =
    view.serverUrl === undefined ? undefined : html`<p>Base URL: <code class="server">${view.serverUrl}</code></p>\n`;
  return html`<section class="operation" id="introduction">
<div class="text">
<h1>${view.title} API reference</h1>
<p>${prose(view.description)}</p>
${server}<p class="note">Version ${view.version} · <a href="${documentUrl}">OpenAPI document</a></p>
</div>
<div class="code">
${codeBlock('The examples read these variables', variables)}</div>
</section>
<section id="authentication">
<h2><a href="#authentication">Authentication</a></h2>
<p>Each operation states the credentials that it requires.</p>
<div class="scroll" tabindex="0" role="group" aria-label="Credentials">
<table><thead><tr><th scope="col">Credentials</th><th scope="col">Headers</th><th scope="col">In the examples</th><th scope="col">Notes</th></tr></thead><tbody>
${CREDENTIALS.map(([name, headers, variables, notes]) => html`<tr><th scope="row">${name}</th><td><code>${headers}</code></td><td><code>${variables}</code></td><td>${notes}</td></tr>\n`)}</tbody></table>
</div>
</section>
`;
}

const REFUSAL = {
  success: false,
  error: {
    code: 'INVALID_REQUEST',
    message: 'to[0] is not an email address: it needs a local part, an @ and a domain.',
    details: [{ field: 'to[0]', message: 'is not an email address: it needs a local part, an @ and a domain' }],
  },
  reasonCode: 'INVALID_REQUEST',
  requestId: 'req_2zAbCdEfGhIjKlMnOpQrStU',
};

function errorsSection(common: ReadonlySet<string>): Markup {
  const rows = Object.entries(errorCatalog)
    .sort(([a, one], [b, other]) => one.status - other.status || a.localeCompare(b))
    .map(
      ([code, { status, text }]) =>
        html`<tr id="${code}"><th scope="row"><code>${code}</code></th><td>${status}</td><td>${text}</td></tr>
`,
    );
  const every = [...common].map((code) => html`<a href="#${code}">${code}</a>`);
  return html`<section class="operation" id="errors">
<div class="text">
<h2><a href="#errors">Errors</a></h2>
<p>Every response that is not 2xx has the same body. Branch on <code>error.code</code>, not on the message: the messages below are defaults, and responses are often more specific.</p>
<p>If the response has a <code>Retry-After</code> header, retry the request after that many seconds.</p>
${every.length === 0 ? undefined : html`<p>Every operation can return ${joined(every, ', ')}. They are not repeated below.</p>`}
</div>
<div class="code">
${codeBlock('Error response', JSON.stringify(REFUSAL, null, 2))}</div>
</section>
<div class="scroll" tabindex="0" role="group" aria-label="Error codes">
<table class="codes"><thead><tr><th scope="col">Code</th><th scope="col">Status</th><th scope="col">Default message</th></tr></thead><tbody>
${rows}</tbody></table>
</div>
`;
}

function eventsSection(view: ReferenceView): Markup | undefined {
  const request = view.eventRequest();
  if (request === undefined) return undefined;
  const groups = request.body.shape?.groups ?? [];
  return html`<section id="webhook-events">
<h2><a href="#webhook-events">Webhook events</a></h2>
<p>Postrider posts these events to the <a href="#webhooks">webhooks</a> that are subscribed to them. Respond with any 2xx status within 15 s; otherwise Postrider sends the event again.</p>
<h3>Headers</h3>
${fieldList(request.headers, 'service')}
<h3>Body</h3>
${groups.map(({ fields }) => fieldList(fields, 'service'))}
</section>
${view.events.map(
  ({ id, name, summary, example }) => html`<section class="operation" id="${id}">
<div class="text">
<h3><a href="#${id}">${name}</a></h3>
<p>${summary}.</p>
</div>
<div class="code">
${example === undefined ? undefined : codeBlock(`${name} event`, example)}</div>
</section>
`,
)}`;
}

/** Returns the error codes that all operations can return. */
function commonCodes(operations: OperationView[]): Set<string> {
  const [first = [], ...others] = operations.map(({ errors }) => errors.flatMap(({ codes }) => codes));
  return new Set(first.filter((code) => others.every((codes) => codes.includes(code))));
}

/** Maps the values in slices, so that other requests are served in the meantime. */
async function inSlices<T, R>(values: readonly T[], map: (value: T) => R): Promise<R[]> {
  const results: R[] = [];
  let started = performance.now();
  for (const value of values) {
    results.push(map(value));
    if (performance.now() - started < SLICE_MS) continue;
    await setImmediate();
    started = performance.now();
  }
  return results;
}

/** Renders the complete page. */
export async function renderReference(document: OpenapiDocument, urls: PageUrls): Promise<string> {
  const view = new ReferenceView(document);
  const ids = view.tags.flatMap(({ operations }) => operations.map(({ id }) => id));
  const operations = await inSlices(ids, (id) => view.operation(id));
  const common = commonCodes(operations);
  const sections = new Map(
    await inSlices(operations, (one) => [one.id, operationSection(one, common).text] as [string, string]),
  );
  const head = html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="UTF-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${view.title} API reference</title>
<link rel="stylesheet" href="${urls.assets}/reference.css">
<link rel="icon" type="image/svg+xml" href="${urls.assets}/icon.svg" sizes="any">
<script src="${urls.assets}/reference.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="bar"><a href="#introduction">${view.title}</a> <span>API reference</span></header>
${navigation(view)}
<main id="content">
${introduction(view, urls.document)}${errorsSection(common)}`;
  const tags = view.tags
    .filter((tag) => tag.operations.length > 0)
    .map(({ id, name, description, operations: links }) => {
      const heading = html`<section class="group" id="${id}">
<h2><a href="#${id}">${name}</a></h2>
<p>${prose(description)}</p>
</section>
`;
      return heading.text + links.map((link) => sections.get(link.id)).join('');
    });
  const foot = html`${eventsSection(view)}</main>
</body>
</html>
`;
  return head.text + tags.join('') + foot.text;
}
