/** Scenario of a resent message with uploaded files: the files stay until both messages have lost their content. */

import assert from 'node:assert/strict';
import { registerOperation } from '../../src/attachments/register-store.ts';
import { finishUploadOperation } from '../../src/attachments/store.ts';
import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { acceptAgainOperation, acceptLargeOperation } from '../../src/send/large-store.ts';
import { acceptance, claimRequest, settlement } from './mail.ts';
import type { Scenario } from './stage.ts';

export const sendingAgain: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const id = stage.id('sub');
  const file = {
    contentType: 'text/plain',
    sizeBytes: 5,
    sha256: Buffer.alloc(32, 7),
    direct: false,
    blobKey: null,
    blobStamp: null,
  };
  const { nowMs } = stage;
  await stage.act(registerOperation, {
    id,
    accountId,
    mode: 'live',
    idempotencyKey: null,
    manifestHash: Buffer.from('manifest'),
    nowMs,
    expiresAtMs: nowMs + 1000,
    countedBytes: 5,
    keysFromMs: 0,
    maximumUnsentBytes: 5,
    keepUnsentMs: 0,
    fits: true,
    files: [{ ...file, number: 0, name: 'a.txt' }],
  });
  await stage.act(finishUploadOperation, { submissionId: id, number: 0, blobKey: `${id}/1`, blobStamp: null });
  const first = acceptance(stage, { accountId, change: { retain: 'none' } });
  const use = { submissionId: id, accountId, mode: 'live', version: 1, nowMs } as const;
  await stage.act(acceptLargeOperation, { acceptance: first, use });
  const of = { accountId, mode: 'live', messageId: first.emails[0]!.recipients[0]!.messageId } as const;

  const again = acceptance(stage, { accountId, change: { retain: 'none' } });
  const accepted = await stage.act(acceptAgainOperation, { acceptance: again, of });
  assert.equal(accepted?.stored, true);
  const keyed = (): typeof again =>
    acceptance(stage, {
      accountId,
      change: {
        idempotency: { endpoint: '/x', key: 'k', bodyHash: Buffer.from('h'), status: 200, expiresAtMs: nowMs + 9 },
        retain: 'none',
      },
    });
  assert.equal((await stage.act(acceptAgainOperation, { acceptance: keyed(), of }))?.stored, true);
  assert.equal((await stage.act(acceptAgainOperation, { acceptance: keyed(), of }))?.stored, false);
  const foreign = acceptance(stage, { accountId });
  const refused = { acceptance: foreign, of: { ...of, mode: 'sandbox' as const } };
  assert.equal(await stage.act(acceptAgainOperation, refused), undefined);

  const firstIds = new Set(first.emails.flatMap((email) => email.recipients.map((one) => one.messageId)));
  const { jobs } = await stage.database.execute(claimOperation, claimRequest(stage));
  const mine = jobs.filter((job) => job.accountId === accountId);
  const settle = async (which: boolean): Promise<string[]> => {
    const blobKeys: string[] = [];
    for (const job of mine.filter((one) => firstIds.has(one.messageId) === which)) {
      blobKeys.push(...(await stage.act(settleOperation, [settlement(stage, job)])).blobKeys);
    }
    return blobKeys;
  };
  assert.deepEqual(await settle(true), [], 'the other messages still have content');
  const late = acceptance(stage, { accountId });
  assert.equal(await stage.act(acceptAgainOperation, { acceptance: late, of }), undefined);
  assert.deepEqual(await settle(false), [`${id}/1`]);
};
