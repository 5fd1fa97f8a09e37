/**
 * Templates made to block the service, sent with a sandbox sending key: each is rejected with an error that names its limit, and other
 * requests are served in the meantime.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Api, apiClient, type JsonObject } from '../kit/api.ts';
import { type Service, startService } from '../kit/start-service.ts';

let service: Service;
let api: Api;

before(async () => {
  service = await startService();
  const made = await service.sandboxApi.post('/api-keys', { mode: 'sandbox', scope: 'send' });
  assert.equal(made.status, 201, made.text);
  const { accountId } = service.sandbox;
  api = apiClient(() => service.url, { accountId, apiKey: made.body.apiKey });
});
after(async () => {
  api?.close();
  await service?.close();
});

const mail = (html: string, templateVariables: JsonObject = {}): JsonObject => ({
  from: 'a@shop.example',
  to: 'ann@example.com',
  subject: 's',
  html,
  templateVariables,
});

const LIST = /more than 10000 items; use a shorter list/;
const TIME = /takes longer than 50 ms to render; loop over fewer items, or compute values before the send/;
/** On a busy machine, the time limit can be reached first. */
const TEXT = new RegExp(`more than \\d+ characters|produces too much text|text is too long|${TIME.source}`);

const few = Array.from({ length: 9_000 }, (_, i) => ({ x: `v${i}` }));

const ATTACKS: [html: string, said: RegExp, variables?: JsonObject][] = [
  ['{{ (1..4900000) | where_exp: "i", "i > 1" | size }}', LIST],
  ['{{ (1..4900000) | group_by_exp: "i", "i" | size }}', LIST],
  ['{{ (9007199254740992..9007199254750000) | size }}{{ (1..1e9) | size }}{{ (1..999999) | size }}', LIST],
  ...['find_exp', 'has_exp', 'reject_exp', 'where_exp', 'group_by_exp'].map((name): [string, RegExp, JsonObject] => [
    `{% for k in (1..9999) %}{{ few | ${name}: "i", "few contains i.y" | size }}{% endfor %}`,
    TIME,
    { few },
  ]),
  // No item has a `y`: with `x`, the first item would end the search, and 9,999 searches can take less than 50 ms.
  ['{% for k in (1..9999) %}{{ few | find: "y" | size }}{% endfor %}', TIME, { few }],
  ...['where', 'group_by', 'map', 'sort', 'sort_natural', 'sum'].map((name): [string, RegExp, JsonObject] => [
    `{% for k in (1..9999) %}{{ few | ${name}: "x" | size }}{% endfor %}`,
    TIME,
    { few },
  ]),
  ['{% for k in (1..9999) %}{{ few | uniq | size }}{% endfor %}', TIME, { few }],
  ['{% for k in (1..9999) %}{% if few contains k %}x{% endif %}{% endfor %}', TIME, { few }],
  ['{{ many | sort: "x" | size }}', LIST, { many: Array.from({ length: 40_000 }, (_, i) => ({ x: i })) }],
  ['{{ long | replace_last: "ab", "" }}', TEXT, { long: 'a'.repeat(1_000_000) }],
  [`{% assign a = "b c" | split: " " %}${'{% assign a = a | push: a %}'.repeat(60)}{{ a[a] }}`, TEXT],
  [`{% assign s = "x" %}${'{% assign s = s | append: s %}'.repeat(60)}{{ s }}`, TEXT],
  [`{{ a ${'| abs '.repeat(2_000)}}}`, TEXT],
];

test('dry run and send reject each of them with one message', async () => {
  for (const [html, said, variables] of ATTACKS) {
    for (const path of ['/send?dryRun=true', '/send']) {
      const answer = await api.post(path, mail(html, variables));
      assert.equal(answer.status, 400, `${html.slice(0, 80)}: ${answer.text.slice(0, 300)}`);
      assert.equal(answer.body.error.code, 'TEMPLATE_INVALID');
      assert.match(answer.body.error.message, said, `${html.slice(0, 80)}: ${answer.text.slice(0, 300)}`);
    }
  }
});

test('other requests are served while 100 of them render', async () => {
  const html = '{% for k in (1..9999) %}{{ (1..9999) | where_exp: "i", "i > 1" | size }}{% endfor %}';
  const messages = Array.from({ length: 100 }, (_, i) => mail(`${html}${i}`));
  let isOver = false;
  const batch = api.post('/send/batch', { messages }).finally(() => {
    isOver = true;
  });
  let answered = 0;
  while (!isOver) {
    assert.equal((await service.anonymous.get('/health')).status, 200);
    answered += 1;
  }
  const { body } = await batch;
  const results = body.results as { status: number; error: { code: string } }[];
  assert.deepEqual(new Set(results.map((one) => one.error.code)), new Set(['TEMPLATE_INVALID']));
  // A hundred of them block the event loop for 25 ms or more each and yield after each; without yielding there would be one or two
  // responses.
  assert.ok(answered >= 25, `${answered} answers`);
});
