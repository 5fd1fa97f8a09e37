/**
 * kill -9 during the transfer of a large message: the receiver gets no dot and keeps nothing; the next start sends the message again from
 * its stored files, complete and once.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { between } from '../kit/smtp-proxy.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { startService } from '../kit/start-service.ts';
import { manifestEntry, put } from '../kit/upload.ts';
import { waitUntil } from '../kit/wait-until.ts';

test('kill -9 during a large message: delivered completely and once after the restart', async (t) => {
  const sink = await smtpSink();
  const proxy = await between(sink.port, { afterBytes: 5_000_000, times: 1, act: (client) => void client.pause() });
  const service = await startService({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${proxy.port}` } });
  t.after(async () => {
    await service.close();
    await proxy.close();
    await sink.close();
  });
  const { accountId } = service.live;
  await service.cli('domain', 'add', accountId, 'shop.example', '--verified');
  await service.cli('account', 'set', accountId, '--email-limit', '40000000');
  const bytes = randomBytes(20_000_000);
  const manifest = { attachments: [manifestEntry(bytes)] };
  let registered: JsonObject = {};
  await waitUntil('the new limit to apply', async () => {
    const answer = await service.api.post('/attachments', manifest);
    registered = answer.body;
    return answer.status === 201;
  });
  const [upload] = registered.attachmentUploads;
  const stored = await put({ url: upload.uploadUrl, headers: upload.requiredHeaders, body: bytes });
  assert.equal(stored.status, 200, stored.text);
  const sent = await service.api.post('/send', {
    from: 'orders@shop.example',
    to: 'ann@x.example',
    subject: 'Files',
    text: 'Attached.',
    attachmentSubmissionId: registered.attachmentSubmissionId,
  });
  assert.equal(sent.status, 202, sent.text);
  await waitUntil('the transfer to stall', () => proxy.harmed === 1);
  assert.equal((await service.kill('SIGKILL')).signal, 'SIGKILL');
  assert.equal(sink.messages.length, 0);
  await service.restart({ env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${proxy.port}` } });
  await waitUntil('the mail', () => sink.messages.length > 0, 60_000);
  const content = sink.messages[0]!.content.toString('latin1');
  const base64 = /filename="?report\.pdf"?\r\n\r\n([A-Za-z0-9+/=\r\n]+?)\r\n--/.exec(content)?.[1];
  assert.ok(Buffer.from(base64 ?? '', 'base64').equals(bytes));
  const path = `/messages/${sent.body.data.messageId}`;
  await waitUntil('the record', async () => (await service.api.get(path)).body.status === 'delivered');
  const shown = (await service.api.get(path)).body;
  const own = content.slice(content.indexOf('\r\nFrom: ') + 2);
  assert.equal(own.length, shown.sizeBytes, 'the size is the transferred size minus Received and DKIM-Signature');
  assert.equal((await service.api.get(`${path}/content`)).text.length, shown.sizeBytes);
  assert.equal(sink.messages.length, 1);
});
