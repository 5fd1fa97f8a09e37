/** Every transcript of this folder, against the real listener; and that a transcript which is wrong fails. */
import assert from 'node:assert/strict';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { inboundRig } from '../kit/inbound-rig.ts';
import { againIfPaused } from '../kit/running-time.ts';
import { runDialog } from '../kit/smtp-dialog.ts';
import { type SmtpRig, smtpRig } from '../kit/smtp-rig.ts';

let rig: SmtpRig;
before(async () => {
  rig = await smtpRig();
});
after(() => rig.close());

const files = globSync(path.join(import.meta.dirname, '*.smtp')).sort();

for (const file of files) test(path.basename(file), () => againIfPaused(() => runDialog(file, rig)));

const inboundFiles = globSync(path.join(import.meta.dirname, 'inbound/*.smtp')).sort();

for (const file of inboundFiles) {
  test(`inbound/${path.basename(file)}`, () =>
    againIfPaused(async () => {
      const inbound = await inboundRig();
      await runDialog(file, inbound).finally(inbound.close);
    }));
}

test('transcripts exist, and a wrong one fails with its line', async (t) => {
  assert.ok(files.length >= 10 && inboundFiles.length >= 5);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-dialog-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const wrong = async (...lines: string[]): Promise<void> => {
    const file = path.join(folder, 'wrong.smtp');
    writeFileSync(file, ['S: 220 *', ...lines].join('\n'));
    await againIfPaused(() => assert.rejects(runDialog(file, rig), /wrong\.smtp:3: /));
  };
  await wrong('C: NOOP', 'S: 251 *');
  await wrong('C: NOOP', 'S: (closed)');
  await wrong('C: NOOP', '@ silence');
  await wrong('@ log in live', '@ accepted 1');
});
