/** Each starter is accepted by the API, and a preview with its sample values is complete. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { starters } from '../../portal/src/pages/templates/starters.ts';
import { type TemplateApp, templateApp } from '../kit/template-app.ts';

let app: TemplateApp;
before(async () => {
  app = await templateApp();
});
after(() => app.close());

for (const [name, { sample, ...content }] of Object.entries(starters)) {
  test(`starter ${name}`, async () => {
    const made = await app.make({ name, ...content });
    const { status, body } = await app.own.post(`/templates/${made.templateId}/render`, { templateVariables: sample });
    assert.equal(status, 200);
    assert.deepEqual(body.missingVariables, []);
    assert.doesNotMatch(`${body.subject}${body.html}${body.text}`, /\{\{|\{%|undefined/);
    for (const value of Object.values(sample))
      if (typeof value === 'string') assert.ok(body.html.includes(value), value);
    assert.ok(body.text.length > 100, body.text);
    // Gmail cuts off mail above 102 KB, and removes style sheets from forwarded mail.
    assert.ok(body.html.length < 10_000);
    assert.doesNotMatch(body.html, /<style|class=|position:|flex|grid/);
    const declared = content.variables.map((one) => one.name);
    const used = Object.keys(sample);
    assert.deepEqual(
      used.filter((one) => !declared.includes(one)),
      [],
    );
  });
}
