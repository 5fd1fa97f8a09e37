/** Texts that are longer than a result: the pieces that `nextCursor` leads to are the complete text. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { type Mcp, mcpClient } from '../../test/kit/mcp.ts';
import { createKey } from '../accounts/accounts.ts';

const MOST_BYTES = 25_000;

let app: InProcessApi;
let agent: Mcp;

before(async () => {
  app = await inProcessApi({ env: { POSTRIDER_MCP: 'on' } });
  const made = await createKey(app.parts, { accountId: app.accountId, mode: 'sandbox', scope: 'full', name: 'agent' });
  assert.ok(made.ok);
  agent = mcpClient({ url: `http://127.0.0.1:${app.port}`, key: made.value.apiKey });
});
after(() => app.close());

/** Calls the tool until there is no other piece; returns the concatenated pieces of the member and the first result. */
async function readWhole(tool: string, args: Record<string, unknown>, member: string) {
  const pieces: string[] = [];
  let first: Record<string, unknown> | undefined;
  for (let cursor: string | undefined; ; ) {
    const result = await agent.tool(tool, { ...args, ...(cursor !== undefined && { cursor }) });
    const text = JSON.stringify(result);
    assert.ok(Buffer.byteLength(text) <= MOST_BYTES, `${tool}: ${Buffer.byteLength(text)} bytes`);
    assert.ok(!/\\ud[89a-f]/.test(text), `${tool} has half a surrogate pair`);
    const { structuredContent } = result;
    first ??= structuredContent;
    pieces.push(structuredContent[member].replaceAll(/<\/?untrusted-\w+>/g, ''));
    cursor = structuredContent.nextCursor ?? undefined;
    if (cursor === undefined) break;
  }
  assert.ok(pieces.length > 1, 'control: there is more than one piece');
  return { whole: pieces.join(''), first: first! };
}

const JAPANESE = Array.from({ length: 400 }, (_, line) => `${line} ご注文の品を本日発送いたしました。`);
/** Each smiley has two UTF-16 code units; with the letter, a cut at any even offset separates one. */
const SMILEYS = `a${'😀'.repeat(12_000)}`;

test('the source of a message is complete, whatever its characters', async () => {
  const source = `From: ann@example.com\r\nTo: bob@example.com\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n`;
  await app.sandbox.post('/inbound-routes', { match: '*@in.shop.example' });
  for (const body of [JAPANESE.join('\r\n'), SMILEYS.replaceAll(/.{200}/gu, '$&\r\n')]) {
    const mail = { to: 'support@in.shop.example', from: 'ann@example.com', raw: `${source}${body}\r\n` };
    const { status, body: came, text } = await app.sandbox.post('/sandbox/inbound', mail);
    assert.equal(status, 201, text);
    const { whole } = await readWhole('get_message', { id: came.inboundId, content: true }, 'content');
    assert.ok(whole.includes(body));
  }
});

test('the html of a template and of a preview is complete, and its other members come first', async () => {
  const html = `<p>${JAPANESE.join('</p>\n<p>')}</p>`;
  const { templateId } = (await app.sandbox.post('/templates', { name: 'long', subject: 'Long', html })).body;
  const stored = await readWhole('list_templates', { id: templateId }, 'html');
  assert.equal(stored.whole, html);
  assert.equal(stored.first.templateId, templateId);
  const samples = Array.from({ length: 5 }, (_, index) => ({
    name: `sample ${index}`,
    values: Object.fromEntries(Array.from({ length: 25 }, (__, at) => [`name_${at}`, 'x'.repeat(100)])),
  }));
  const { body: large } = await app.sandbox.post('/templates', { name: 'large', subject: 'Large', html });
  const kept = await app.sandbox.put(`/templates/${large.templateId}/samples`, { samples });
  assert.equal(kept.status, 200, kept.text);
  assert.equal((await readWhole('list_templates', { id: large.templateId }, 'html')).whole, html);
  const rendered = await readWhole('render_template', { id: templateId }, 'html');
  assert.equal(rendered.whole, html);
  const email = { from: 'shop@shop.example', to: ['ann@example.com'], templateId };
  const preview = await readWhole('preview_email', email, 'html');
  assert.ok(preview.whole.includes(JAPANESE.at(-1)!));
  assert.match(String(preview.first.subject), /Long/);
  const unknown = await agent.tool('list_templates', { id: templateId, cursor: 'x' });
  assert.match(unknown.content[0].text, /`cursor` must be the nextCursor of the previous result/);
});

test('a page of the documentation is complete', async () => {
  const { whole } = await readWhole('search_docs', { page: 'guides/send.md' }, 'text');
  assert.match(whole, /^# /);
});
