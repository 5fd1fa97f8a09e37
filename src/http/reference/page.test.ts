/** The page of the API reference: complete, every link has its target, everything is escaped, and schemas inside themselves end. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { OpenapiDocument, Schema } from './document.ts';
import { SchemaReader } from './fields.ts';
import { renderReference } from './page.ts';

const document = JSON.parse(
  readFileSync(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'),
) as OpenapiDocument;
const urls = { assets: 'static', document: 'json' };
const page = await renderReference(document, urls);

test('every operation and every event has a section, an entry in the navigation, and five programs', () => {
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  const events = Object.values(document.webhooks ?? {}).map(({ post }) => post);
  assert.ok(operations.length > 100 && events.length > 5);
  for (const { operationId } of [...operations, ...events]) {
    assert.ok(page.includes(`<section class="operation" id="${operationId}">`), operationId);
    assert.ok(page.includes(`<a href="#${operationId}" data-path=`), operationId);
  }
  assert.equal(page.match(/data-language="/g)?.length, operations.length * 5);
});

test('every anchor exists once, and every link has a target', () => {
  const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!);
  assert.deepEqual(ids, [...new Set(ids)]);
  const targets = [...page.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id!);
  assert.deepEqual(
    [...new Set(targets)].filter((one) => !ids.includes(one)),
    [],
  );
});

test('the page stays small enough for one download', () => {
  assert.ok(page.length < 1_400_000, `${page.length} bytes`);
  assert.ok(gzipSync(page).length < 120_000, `${gzipSync(page).length} bytes with gzip`);
});

test('an operation has its parameters, nested fields, limits, values, headers, and errors', () => {
  const section = page.slice(page.indexOf('id="sendEmail"'), page.indexOf('id="sendEmailBatch"'));
  for (const part of [
    '<code class="name">dryRun</code> <span class="type">boolean</span>',
    '<code class="name">from</code> <span class="type">string</span> <span class="limits">up to 1,000 characters</span>',
    '<code class="name">to</code> <span class="type">string or array of strings</span>',
    '<code class="name">attachments</code> <span class="type">array of objects</span>',
    '<p class="values">One of <code>&quot;none&quot;</code> <code>&quot;7d&quot;</code> <code>&quot;30d&quot;</code></p>',
    '<summary>SendResponse: 2 fields</summary>',
    '<a href="#SENDER_NOT_VERIFIED">SENDER_NOT_VERIFIED</a>',
    'Authentication: <a href="#authentication">Account API key</a>',
  ]) {
    assert.ok(section.includes(part), part);
  }
});

test('credentials of the programs fit the operation', () => {
  const sectionOf = (id: string) =>
    page.slice(page.indexOf(`id="${id}"`), page.indexOf('</section>', page.indexOf(`id="${id}"`)));
  assert.match(sectionOf('getQueue'), /Authorization: Bearer \$OPERATOR_KEY/);
  assert.match(sectionOf('signOut'), /Cookie: postrider_session=\$POSTRIDER_SESSION/);
  assert.match(sectionOf('signOut'), /X-Requested-With: postrider/);
  assert.doesNotMatch(sectionOf('getHealth'), /POSTRIDER_KEY/);
});

test('texts of the document are escaped', async () => {
  const evil = '</code><script>alert(1)</script>"\'<img src=x onerror=alert(1)>&amp;';
  const schema: Schema = {
    type: 'object',
    title: evil,
    required: [evil],
    properties: { [evil]: { type: 'string', description: evil, enum: [evil], pattern: evil, format: evil } },
  };
  const content = { 'application/json': { schema, example: { [evil]: evil } }, [evil]: { example: evil } };
  const operation = {
    operationId: 'evilCall',
    summary: evil,
    description: `${evil} \`${evil}\``,
    tags: ['evil'],
    parameters: [{ name: evil, in: 'query' as const, required: true, description: evil, schema, example: evil }],
    requestBody: { content },
    responses: { 200: { description: evil, headers: { [evil]: {} }, content } },
  };
  const text = await renderReference(
    {
      info: { title: evil, version: evil, description: evil },
      servers: [{ url: evil }],
      tags: [{ name: 'evil', description: evil }],
      security: [],
      paths: { [`/${evil}`]: { post: operation } },
      webhooks: { [evil]: { post: { ...operation, operationId: 'onEvil' } } },
      components: {},
    },
    urls,
  );
  assert.ok(text.includes('&lt;script&gt;alert(1)'), 'control: the texts are in the page');
  assert.deepEqual(text.match(/<script[^>]*>/g), ['<script src="static/reference.js">']);
  assert.doesNotMatch(text, /<img/);
});

test('a schema inside itself is described once', () => {
  const components = {
    schemas: {
      Tree: {
        type: 'object',
        title: 'Tree',
        properties: {
          name: { type: 'string' },
          children: { type: 'array', items: { $ref: '#/components/schemas/Tree' } },
        },
      },
    },
  };
  const reader = new SchemaReader({ ...document, components });
  const shape = reader.shapeOf({ $ref: '#/components/schemas/Tree' });
  const children = shape.groups[0]?.fields.find(({ name }) => name === 'children');
  assert.equal(children?.type, 'array of object (Tree)');
  assert.deepEqual(children?.groups, []);
});

test('a reference without a target is an error that names it', async () => {
  const broken = JSON.parse(JSON.stringify(document)) as OpenapiDocument;
  broken.components.schemas = {};
  await assert.rejects(renderReference(broken, urls), /has no #\/components\/schemas\//);
});

test('rendering leaves the event loop to other work between slices', async () => {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await renderReference(document, urls);
  isOver = true;
  assert.ok(turns >= 2, `${turns} turns`);
});
