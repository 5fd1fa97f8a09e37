/** Templates in the portal: created, edited with a live preview, saved in versions, compared, restored, sent as a test, deleted. */
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import type { Api, JsonObject } from '../kit/api.ts';
import { noBrowser, PASSWORD, setFirstPassword, signedIn, signInAs, startBrowser, type Visit } from '../kit/browser.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { faultsOf } from './every-page.ts';

const skip = noBrowser();
let visitors: Awaited<ReturnType<typeof startBrowser>>;
let service: Service;
before(async () => {
  if (skip) return;
  visitors = await startBrowser();
  service = await startService();
  await setFirstPassword(service);
});
after(async () => {
  await visitors?.close();
  await service?.close();
});

const HTML = '<h1>Hello {{ name }}</h1>\n<p>Order {{ order.number }}</p>\n';

async function made(body: JsonObject, api: Api = service.api): Promise<string> {
  const answer = await api.post('/templates', body);
  assert.equal(answer.status, 201, answer.text);
  return answer.body.templateId;
}

const found = async (id: string, api: Api = service.api): Promise<JsonObject> =>
  (await api.get(`/templates/${id}`)).body;

async function visited(t: TestContext, at: string): Promise<Visit & { page: Page }> {
  const visit = await signedIn(t, visitors, service);
  visit.page.setDefaultTimeout(15_000);
  await visit.page.goto(at);
  return visit;
}

const editor = (page: Page, name = 'HTML'): Locator => page.getByRole('textbox', { name, exact: true });
const hasFocus = (page: Page): Promise<boolean> =>
  page.evaluate<boolean>(`document.activeElement?.getAttribute('aria-label') === 'HTML'`);
const mail = (page: Page): Locator => page.frameLocator('iframe').locator('body');
const see = (place: Page | Locator, text: string | RegExp): Promise<void> => place.getByText(text).first().waitFor();
const save = async (page: Page, version: number): Promise<void> => {
  await page.getByRole('button', { name: `Save as version ${version}` }).click();
  await see(page, `Saved as version ${version}.`);
};

async function typeAtEnd(page: Page, text: string): Promise<void> {
  await editor(page).click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(text);
}

test('a template is created, edited with a live preview, and saved', { skip }, async (t) => {
  const { page, assertClean } = await visited(t, '/app/live/templates');
  await page.getByRole('button', { name: 'Create template' }).first().click();
  await page.getByRole('textbox', { name: 'Name' }).fill('welcome');
  await page.getByRole('dialog').getByRole('button', { name: 'Create template' }).click();
  await page.getByRole('heading', { name: 'welcome', level: 1 }).waitFor();
  await see(mail(page), 'Hello there,');
  await typeAtEnd(page, '<p>Your code is {{ code }}.</p>');
  await see(page, 'Missing value: code');
  await see(page, 'Unsaved changes');
  await page.getByRole('textbox', { name: 'code' }).fill('482913');
  await see(mail(page), 'Your code is 482913.');
  await page.getByRole('radio', { name: 'Text', exact: true }).locator('..').click();
  await see(page.getByRole('region', { name: 'Text' }), /Your code is 482913/);
  assert.deepEqual(await faultsOf(page), []);
  await save(page, 2);
  const id = page.url().split('/').at(-1)!;
  const { html, version, name } = await found(id);
  assert.deepEqual([version, name], [2, 'welcome']);
  assert.match(html, /\{\{ code \}\}/);
  await page.getByRole('link', { name: 'Templates' }).first().click();
  await page.getByRole('link', { name: 'welcome' }).waitFor();
  await page.getByRole('button', { name: 'Create template' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('welcome');
  await page.getByRole('dialog').getByRole('button', { name: 'Create template' }).click();
  await see(page, /has this name/);
  assertClean();
});

test('a template starts from a receipt, with a complete preview', { skip }, async (t) => {
  const { page, assertClean } = await visited(t, '/app/live/templates');
  await page.getByRole('button', { name: 'Create template' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('order-receipt');
  await dialog.getByRole('combobox', { name: 'Start from' }).click();
  await page.getByRole('option', { name: 'Receipt' }).click();
  await dialog.getByRole('button', { name: 'Create template' }).click();
  await page.getByRole('heading', { name: 'order-receipt', level: 1 }).waitFor();
  await see(mail(page), 'Ceramic mug × 2');
  assert.match(await mail(page).innerText(), /Total\s+€28\.90/);
  assert.equal(await page.getByText('Missing value').count(), 0);
  const { variables } = await found(page.url().split('/').at(-1)!);
  assert.ok(variables.some((one: JsonObject) => one.name === 'items' && one.type === 'array' && one.required));
  assertClean();
});

test('an error is marked at its position, and the keyboard can leave the editor', { skip }, async (t) => {
  const id = await made({ name: 'mistaken', subject: 'x', html: HTML });
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}`);
  await see(mail(page), 'Order');
  await typeAtEnd(page, '  {% if name %}');
  const mistake = page.getByRole('button', { name: /^HTML is not a valid template: .*\(line 3, column 3\)$/ });
  await mistake.waitFor();
  await page.getByRole('tab', { name: 'Subject and HTML, has errors' }).waitFor();
  await waitUntil('the mark', async () => (await editor(page).getAttribute('aria-invalid')) === 'true');
  await see(mail(page), 'Order');
  assert.deepEqual(await faultsOf(page), []);
  await mistake.click();
  assert.equal(await hasFocus(page), true);
  await page.keyboard.press('Tab');
  await page.getByRole('button', { name: /line 3, column 5/ }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  assert.equal(await hasFocus(page), false);
  await page.getByRole('button', { name: 'Save as version 2' }).click();
  await see(page, 'Something went wrong');
  assert.equal((await found(id)).version, 1);
  await typeAtEnd(page, '{% endif %}');
  await mistake.waitFor({ state: 'detached' });
  await page.keyboard.press('Control+s');
  await see(page, 'Saved as version 2.');
  assertClean();
});

test('unsaved changes are kept on leaving the page, offered again, and discarded with undo', { skip }, async (t) => {
  const id = await made({ name: 'kept', subject: 'x', html: HTML });
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}`);
  await typeAtEnd(page, '<p>typed</p>');
  await page.getByRole('link', { name: 'Templates' }).first().click();
  await see(page, 'Your unsaved changes to “kept” are stored in this browser.');
  await page.getByRole('link', { name: 'kept' }).click();
  await see(page, 'Restored your draft from');
  await see(mail(page), 'typed');
  await page.reload();
  await see(mail(page), 'typed');
  await page.getByRole('button', { name: 'Discard changes' }).click();
  await see(page, 'Changes discarded');
  await mail(page).getByText('typed').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await see(mail(page), 'typed');
  // Someone else saves in the meantime: neither change is lost.
  await service.api.put(`/templates/${id}`, { name: 'kept', html: '<p>theirs</p>' });
  await page.getByRole('button', { name: 'Save as version 2' }).click();
  await see(page, 'Version 2 was saved while you were editing.');
  assert.equal((await found(id)).html, '<p>theirs</p>');
  await save(page, 3);
  assert.match((await found(id)).html, /typed/);
  await page.reload();
  await see(mail(page), 'typed');
  assert.equal(await page.getByText('Unsaved changes').count(), 0);
  assertClean();
});

test('variables of the text are suggested, and a layout wraps it', { skip }, async (t) => {
  const layout = await made({ name: 'frame', html: '<header>The shop, {{ slogan }}</header>{{ content }}' });
  const html =
    '{% for item in items %}<b>{{ item.name }}</b>{% endfor %}{% if gift %}A gift{% endif %} {{ order.number }}';
  const id = await made({ name: 'in-frame', subject: 'x', html });
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}?part=details`);
  await page.getByRole('combobox', { name: 'Layout' }).click();
  await page.getByRole('option', { name: 'frame' }).click();
  await see(mail(page), 'The shop');
  await page.getByRole('tab', { name: 'Variables' }).click();
  await page.getByRole('button', { name: 'Declare slogan' }).waitFor();
  await page.getByRole('button', { name: 'Declare all' }).click();
  await page.getByRole('textbox', { name: 'Default of slogan' }).fill('since 1887');
  await see(mail(page), 'The shop, since 1887');
  await page.getByRole('textbox', { name: 'Default of items' }).fill('[{ "name": ');
  await see(page, 'Enter a JSON array');
  await page.getByRole('textbox', { name: 'Default of items' }).fill('[{ "name": "Tea" }]');
  await see(mail(page), 'Tea');
  await page.getByRole('checkbox', { name: 'Required: slogan' }).uncheck();
  assert.deepEqual(await faultsOf(page), []);
  await save(page, 2);
  const { layoutTemplateId, variables } = await found(id);
  assert.equal(layoutTemplateId, layout);
  assert.deepEqual(variables, [
    { name: 'items', type: 'array', required: true, default: [{ name: 'Tea' }] },
    { name: 'gift', type: 'boolean', required: false },
    { name: 'order', type: 'object', required: true },
    { name: 'slogan', type: 'string', required: false, default: 'since 1887' },
  ]);
  await page.goto(`/app/live/templates/${layout}?view=use`);
  await page.getByRole('link', { name: 'in-frame' }).waitFor();
  assertClean();
});

test('sample sets are stored with the template and switch with one click', { skip }, async (t) => {
  const id = await made({ name: 'sampled', subject: 'For {{ name }}', html: HTML });
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}`);
  await page.getByRole('textbox', { name: 'name', exact: true }).fill('Ann');
  await page.getByRole('textbox', { name: 'order.number' }).fill('17');
  await see(mail(page), 'Hello Ann');
  await page.getByRole('button', { name: 'New set' }).click();
  await page.getByRole('textbox', { name: 'Set name' }).fill('Ben');
  await page.keyboard.press('Enter');
  await page.getByText('JSON', { exact: true }).click();
  const json = page.getByRole('textbox', { name: 'Values as JSON' });
  assert.deepEqual(JSON.parse(await json.inputValue()), { name: 'Ann', order: { number: '17' } });
  await json.fill('{ "name": "Ben", ');
  await see(page, 'Invalid JSON. Preview not updated.');
  await json.fill('{ "name": "Ben", "order": { "number": 18 } }');
  await see(mail(page), 'Hello Ben');
  assert.deepEqual(await faultsOf(page), []);
  await waitUntil('the sets to be stored', async () => {
    const { body } = await service.api.get(`/templates/${id}`);
    return body.samples.length === 2 && body.samples[1].values.order.number === 18 && body.version === 1;
  });
  await page.reload();
  await see(mail(page), 'Hello Ben');
  await page.getByText('Default', { exact: true }).click();
  await see(mail(page), 'Hello Ann');
  await see(page, 'For Ann');
  assertClean();
});

test('test data that two users change at the same time is merged', { skip }, async (t) => {
  const id = await made({ name: 'shared-samples', subject: 'For {{ name }}', html: '<p>Hello {{ name }}</p>' });
  const path = `/templates/${id}/samples`;
  const set = (name: string, value: string) => ({ name, values: { name: value } });
  assert.equal((await service.api.put(path, { samples: [set('Mine', 'Ann'), set('Theirs', 'Ben')] })).status, 200);
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}`);
  await see(mail(page), 'Hello Ann');
  const other = [set('Mine', 'Ann'), set('Theirs', 'Carl'), set('New', 'Dana')];
  assert.equal((await service.api.put(path, { samples: other })).status, 200);
  await page.getByRole('textbox', { name: 'name', exact: true }).fill('Anna');
  await see(page, 'Another user has changed the test data too. Both changes are saved.');
  const stored = async () => (await service.api.get(`/templates/${id}`)).body.samples;
  const merged = [set('Mine', 'Anna'), set('Theirs', 'Carl'), set('New', 'Dana')];
  await waitUntil('the merged sets', async () => JSON.stringify(await stored()) === JSON.stringify(merged));
  await page.getByText('New', { exact: true }).click();
  await see(mail(page), 'Hello Dana');
  assertClean();
});

test('any two versions are compared, and an earlier one is restored', { skip }, async (t) => {
  const id = await made({ name: 'versioned', subject: 'One', html: HTML });
  await service.api.put(`/templates/${id}`, { name: 'versioned', subject: 'Two', html: `${HTML}<p>second</p>` });
  await service.api.put(`/templates/${id}`, { name: 'versioned', subject: 'Two', html: `${HTML}<p>third</p>` });
  const { page, assertClean } = await visited(t, `/app/live/templates/${id}?view=versions`);
  // The first row has the column names.
  const row = (at: number): Locator => page.getByRole('row').nth(at);
  await see(row(1), 'Current');
  await see(row(2), 'Subject, HTML');
  await see(editor(page, 'Version 2'), '<p>second</p>');
  await see(editor(page, 'Version 3'), '<p>third</p>');
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('button', { name: 'Compare version 2 with the previous one' }).click();
  await page.getByText('Subject •').click();
  await see(editor(page, 'Version 1'), 'One');
  await page.getByText('Unified', { exact: true }).click();
  await editor(page, 'Version 1 → Version 2').waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await page.getByRole('button', { name: 'Restore version 1' }).click();
  await see(page, 'Restored version 1 as version 4.');
  const { subject, html, version } = await found(id);
  assert.deepEqual([subject, html, version], ['One', HTML, 4]);
  assertClean();
});

test('in the sandbox a live template is sent and copied, not changed', { skip }, async (t) => {
  const id = await made({ name: 'shared', subject: 'Hello {{ name }}', html: '<p>Hello {{ name }}</p>' });
  const { page, assertClean } = await visited(t, `/app/sandbox/templates/${id}`);
  await see(page, 'Live template (read-only in the sandbox)');
  assert.equal(await page.getByRole('button', { name: /^Save/ }).count(), 0);
  assert.equal(await editor(page).getAttribute('aria-readonly'), 'true');
  await page.getByRole('textbox', { name: 'name', exact: true }).fill('Ann');
  await see(mail(page), 'Hello Ann');
  await page.getByRole('button', { name: 'Send test email' }).click();
  await page.getByRole('textbox', { name: 'To' }).fill('ann@example.com, ben@example.com');
  await page.getByRole('button', { name: 'Send test', exact: true }).click();
  await see(page, 'Test email to ben@example.com accepted');
  const link = page.getByRole('link', { name: 'View in inbox' }).first();
  const messageId = (await link.getAttribute('href'))!.split('/').at(-1)!;
  assert.deepEqual(await faultsOf(page), []);
  const message = await waitUntil('the message to be in the inbox', async () => {
    const { status, body } = await service.sandboxApi.get(`/sandbox/inbox/${messageId}`);
    return status === 200 && body;
  });
  assert.deepEqual([message.subject, message.to], ['Hello Ann', 'ann@example.com']);
  await page.keyboard.press('Escape');
  await waitUntil('the send to be counted', async () => {
    const { body } = await service.sandboxApi.get('/statistics?groupBy=template');
    return body.buckets?.some(({ group }: { group: string }) => group === id);
  });
  await page.getByText('Usage', { exact: true }).last().click();
  const messages = page.getByRole('link', { name: 'View messages (2)' });
  assert.equal(await messages.getAttribute('href'), `/app/sandbox/messages?template=${id}&range=30d`);
  await page.getByRole('button', { name: 'Create sandbox copy' }).click();
  await see(page, 'Sandbox only');
  assert.notEqual(page.url().split('/').at(-1), id);
  await typeAtEnd(page, '<p>A try</p>');
  await page.getByRole('button', { name: 'Send test email' }).click();
  await see(page, 'Sends version 1 as saved. Save first to include your changes.');
  await page.keyboard.press('Escape');
  await save(page, 2);
  await page.getByRole('link', { name: 'Templates' }).first().click();
  const rows = page.getByRole('row').filter({ hasText: 'shared' });
  await see(rows.first(), 'Sandbox only');
  await see(rows.last(), 'Live');
  assert.equal(await rows.getByRole('button', { name: 'Delete “shared”' }).count(), 1);
  assert.deepEqual(await faultsOf(page), []);
  assert.equal((await found(id)).version, 1);
  assertClean();
});

test('a template is found by name and deleted with undo', { skip }, async (t) => {
  const id = await made({ name: 'old-news', subject: '=1+1', html: '<p>Old</p>', type: 'marketing' });
  const { page, assertClean } = await visited(t, '/app/live/templates');
  await page.getByRole('searchbox', { name: 'Search templates' }).fill('OLD');
  await page.waitForURL(/name=OLD/);
  await see(page.getByRole('row'), 'Marketing');
  await waitUntil('the others to be gone', async () => (await page.getByRole('row').count()) === 2);
  await page.getByRole('button', { name: 'Delete “old-news”' }).click();
  await see(page, 'No templates match your search');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('link', { name: 'old-news' }).click();
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await see(page, /^“old-news” deleted/);
  assert.equal((await found(id)).name, 'old-news');
  await page.getByRole('heading', { name: 'Templates', level: 1 }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'old-news' }).count(), 0);
  await page.goto('/app/live/profile');
  await waitUntil('it to be deleted', async () => (await service.api.get(`/templates/${id}`)).status === 404);
  assertClean();
});

test('a viewer sees templates without editing actions', { skip }, async (t) => {
  const id = await made({ name: 'to-read', subject: 'x', html: HTML });
  const email = 'viewer@example.com';
  const invited = await service.api.post('/users', { email, role: 'viewer' });
  assert.equal(invited.status, 201, invited.text);
  const [, token] = String(invited.body.inviteUrl).split('#token=');
  await service.anonymous.put('/password', { token, password: PASSWORD });
  const visit = await visitors.visit(service.url, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  t.after(() => visit.close());
  await signInAs(visit, { email, password: PASSWORD });
  const { page } = visit;
  await page.goto(`/app/live/templates/${id}`);
  await see(page, 'You have read-only access to templates.');
  await see(mail(page), 'Hello {{ name }}');
  assert.equal(await page.getByRole('button', { name: /Save|Send test|More actions/ }).count(), 0);
  assert.deepEqual(await faultsOf(page), []);
  await page.goto('/app/live/templates');
  await page.getByRole('link', { name: 'to-read' }).waitFor();
  assert.equal(await page.getByRole('button', { name: /Create template|Delete/ }).count(), 0);
  assert.deepEqual(await faultsOf(page), []);
  visit.assertClean();
});
