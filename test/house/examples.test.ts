/**
 * docs/examples: every example is the one that docs/openapi.json displays, and fits its schema there. Values that the code also defines are
 * the same: sample events, sample inbound mail, and the default limits of an account.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { eventCatalogue, SAMPLE_INBOUND, sampleEvent } from '../../src/events/events.ts';
import { isIsoTime } from '../../src/http/validate.ts';
import { limitsOf } from '../../src/limits/limits.ts';
import { readExamples } from '../../src/roles/api-examples.ts';

type Json = Record<string, unknown>;
interface Operation {
  operationId: string;
  tags: string[];
  responses: Record<string, { content?: Record<string, Json> }>;
}

const docs = new URL('../../docs/', import.meta.url);
const document = JSON.parse(readFileSync(new URL('openapi.json', docs), 'utf8')) as {
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Json> };
};
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
const files = readdirSync(new URL('examples/', docs)).map((name) => ({
  name,
  examples: JSON.parse(readFileSync(new URL(`examples/${name}`, docs), 'utf8')) as Json,
}));

test('every tag has at most one file of examples, and no example is in two files', () => {
  const tags = document.tags.map(({ name }) => `${name}.json`);
  for (const { name } of files) assert.ok(tags.includes(name), `${name} is not named after a tag`);
  const names = files.flatMap(({ examples }) => Object.keys(examples));
  assert.ok(names.length > 130);
  assert.deepEqual(names.toSorted(), Object.keys(readExamples()).toSorted());
});

test('every example is in openapi.json, and fits its schema or is the text of its operation', () => {
  const ajv = new Ajv({ strict: false, formats: { 'date-time': isIsoTime } });
  ajv.addSchema({ $id: 'openapi', components: document.components });
  for (const { name: file, examples } of files) {
    for (const [name, example] of Object.entries(examples)) {
      const schema = document.components.schemas[name];
      if (schema === undefined) {
        const operation = operations.find(({ operationId }) => operationId === name);
        assert.ok(
          operation?.tags.includes(file.replace('.json', '')),
          `${file}: ${name} is not an operation of this tag`,
        );
        const contents = Object.values(operation?.responses ?? {}).flatMap(({ content }) =>
          Object.values(content ?? {}),
        );
        assert.ok(
          contents.some((content) => content.example === example),
          `${file}: openapi.json has another example of ${name}; run: npm run docs`,
        );
      } else {
        assert.deepEqual(schema.examples, [example], `${file}: openapi.json has another ${name}; run: npm run docs`);
        const validate = ajv.compile({ $ref: `openapi#/components/schemas/${name}` });
        assert.ok(validate(example), `${file}: ${name}: ${JSON.stringify(validate.errors)}`);
      }
    }
  }
});

test('examples repeat the sample events, the sample inbound mail, and the default limits', () => {
  const examples = readExamples() as Record<string, Record<string, unknown>>;
  const delivery = sampleEvent('Delivery');
  const request = examples.WebhookDelivery?.request as { body: string };
  assert.deepEqual(examples.Event, delivery);
  assert.deepEqual(JSON.parse(request.body), delivery);
  assert.deepEqual(examples.MessageDetail?.timeline, [sampleEvent('Send'), delivery]);
  assert.ok(String(examples.streamEvents).includes(`data: ${JSON.stringify(delivery)}\n`));
  assert.deepEqual(
    examples.EventType,
    eventCatalogue().find(({ eventType }) => eventType === 'Delivery'),
  );
  assert.deepEqual(examples.InboundMailWithContent?.content, SAMPLE_INBOUND);
  const limits = limitsOf({});
  assert.deepEqual(examples.OperatorAccount?.limits, limits);
  assert.deepEqual(examples.OperatorAccountDetail?.limits, limits);
  assert.deepEqual({ ...(examples.Account?.limits as object), ...limits }, examples.Account?.limits);
});
