/** The samples of a template in the audit log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inProcessApi } from '../../test/kit/in-process-api.ts';

test('the audit log has changes of samples, without the names of the samples', async () => {
  const app = await inProcessApi();
  try {
    const { live } = app;
    const made = await live.post('/templates', { name: 'Receipt', subject: 'Hi', html: '<p>Hi</p>' });
    assert.equal(made.status, 201, made.text);
    const path = `/templates/${made.body.templateId}/samples`;
    const samples = [{ name: 'ann@example.com', values: { name: 'Ann' } }];
    for (const title of ['new', 'unchanged'])
      assert.deepEqual((await live.put(path, { samples })).body.samples, samples, title);
    const audit = await live.get('/audit?action=template.replace-samples');
    const entries = audit.body as unknown as { after: unknown }[];
    assert.deepEqual(
      entries.map(({ after }) => after),
      [{ samples: 1 }],
    );
  } finally {
    await app.close();
  }
});
