/** Scenarios of attachment submissions: registering, uploading, sending, and retention. */

import assert from 'node:assert/strict';
import { type Registration, registerOperation } from '../../src/attachments/register-store.ts';
import {
  batchOperation,
  confirmFileOperation,
  finishUploadOperation,
  overdueBatchesOperation,
  removeOverdueOperation,
  removeUsedFilesOperation,
  uploadedBlobsOperation,
  uploadTargetOperation,
} from '../../src/attachments/store.ts';

import { claimOperation } from '../../src/delivery/queue/claim.ts';
import { settleOperation } from '../../src/delivery/record/settle.ts';
import { removeContentOperation } from '../../src/messages/retention-store.ts';
import { acceptLargeOperation } from '../../src/send/large-store.ts';
import { acceptance, claimRequest, settlement } from './mail.ts';
import type { Scenario, Stage } from './stage.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function registration(stage: Stage, accountId: string, changes: Partial<Registration> = {}): Registration {
  const file = {
    contentType: 'text/plain',
    sizeBytes: 5,
    sha256: Buffer.alloc(32, 7),
    direct: false,
    blobKey: null,
    blobStamp: null,
  };
  return {
    id: stage.id('sub'),
    accountId,
    mode: 'live',
    idempotencyKey: null,
    manifestHash: Buffer.from('manifest'),
    nowMs: stage.nowMs,
    expiresAtMs: stage.nowMs + HOUR,
    countedBytes: 10,
    maximumUnsentBytes: 30,
    keepUnsentMs: DAY,
    fits: true,
    keysFromMs: stage.nowMs - DAY,
    files: [
      { ...file, number: 0, name: 'Übersicht.txt' },
      { ...file, number: 1, name: 'b.txt', direct: true, blobKey: `${accountId}/direct` },
    ],
    ...changes,
  };
}

export const registering: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const first = registration(stage, accountId, { idempotencyKey: 'key' });
  assert.equal((await stage.act(registerOperation, first)).outcome, 'made');
  const repeat = { ...first, id: stage.id('sub'), expiresAtMs: stage.nowMs + 2 * HOUR };
  assert.equal((await stage.act(registerOperation, repeat)).outcome, 'same');
  const renewed = await stage.act(registerOperation, { ...repeat, nowMs: stage.nowMs + HOUR });
  assert.ok(renewed.outcome === 'same' && renewed.submission.expiresAt === repeat.expiresAtMs);
  const other = { ...repeat, manifestHash: Buffer.from('other') };
  assert.equal((await stage.act(registerOperation, other)).outcome, 'other-manifest');
  assert.equal((await stage.act(registerOperation, { ...other, mode: 'sandbox' })).outcome, 'made');
  for (const outcome of ['made', 'made', 'no-room']) {
    assert.equal((await stage.act(registerOperation, registration(stage, accountId))).outcome, outcome);
  }
  const large = { ...repeat, fits: false, maximumUnsentBytes: 0 };
  assert.equal((await stage.act(registerOperation, large)).outcome, 'same', 'a known file is not checked again');
  assert.equal((await stage.act(registerOperation, { ...other, fits: false })).outcome, 'other-manifest');
  const anew = { ...large, idempotencyKey: 'never seen' };
  assert.equal((await stage.act(registerOperation, anew)).outcome, 'does-not-fit');
  const key = { accountId, mode: 'live', id: first.id } as const;
  assert.equal((await stage.act(batchOperation, key))?.files.length, 2);
  assert.equal(await stage.act(batchOperation, { ...key, mode: 'sandbox' }), null);
  assert.equal(await stage.act(batchOperation, { ...key, accountId: 'acc_other' }), null);
};

export const unsentFiles: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const [file] = registration(stage, accountId).files;
  const of = (countedBytes: number, changes: Partial<Registration> = {}): Registration =>
    registration(stage, accountId, { countedBytes, files: [file!], ...changes });
  const act = (one: Registration) => stage.act(registerOperation, one);
  const [waiting, uploaded, sent] = [of(10, { idempotencyKey: 'w' }), of(10), of(10)] as const;
  for (const one of [waiting, uploaded, sent]) assert.equal((await act(one)).outcome, 'made');
  await stage.act(finishUploadOperation, {
    submissionId: uploaded.id,
    number: 0,
    blobKey: `${uploaded.id}/1`,
    blobStamp: null,
  });
  // All of them count; the one without bytes is the first that no longer will.
  assert.deepEqual(await act(of(1)), { outcome: 'no-room', roomAtMs: waiting.expiresAtMs });
  assert.equal((await act(of(31, { mode: 'sandbox' }))).outcome, 'no-room');
  assert.equal((await act(of(30, { mode: 'sandbox' }))).outcome, 'made', 'each mode has its own limit');
  const use = { submissionId: sent.id, accountId, mode: 'live', version: 0, nowMs: stage.nowMs } as const;
  await stage.act(acceptLargeOperation, { acceptance: acceptance(stage, { accountId }), use });
  assert.equal((await act(of(11))).outcome, 'no-room');
  assert.equal((await act(of(10))).outcome, 'made', 'a sent submission no longer counts');

  // Once the URLs have expired, only what may have bytes counts, until it is removed.
  const later = { nowMs: waiting.expiresAtMs, expiresAtMs: waiting.expiresAtMs + HOUR };
  assert.deepEqual(await act(of(21, later)), { outcome: 'no-room', roomAtMs: uploaded.expiresAtMs + DAY });
  const direct = { ...file!, direct: true, blobKey: `${accountId}/direct` };
  assert.equal((await act(of(15, { ...later, files: [direct] }))).outcome, 'made');
  const much = { nowMs: later.expiresAtMs, expiresAtMs: later.expiresAtMs + HOUR };
  assert.equal((await act(of(6, much))).outcome, 'no-room', 'direct uploads are possible');
  assert.equal((await act(of(5, { ...much, mode: 'live' }))).outcome, 'made');

  // A submission that no longer counted counts again with its new URLs, and is checked like a new one.
  const renewal = { ...waiting, id: stage.id('sub'), ...much };
  assert.equal((await act(renewal)).outcome, 'no-room');
  const over = await act({ ...renewal, maximumUnsentBytes: 40 });
  assert.ok(over.outcome === 'same' && over.submission.id === waiting.id);
  assert.equal((await act(renewal)).outcome, 'same', 'a repeat finds it while it counts');
};

export const registeringAtOnce: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  await stage.act(registerOperation, registration(stage, accountId));
  const all = Array.from({ length: 8 }, () =>
    registration(stage, accountId, { idempotencyKey: 'at once', maximumUnsentBytes: 1_000 }),
  );
  const answers = await Promise.all(all.map((one) => stage.database.execute(registerOperation, one)));
  const ids = new Set(answers.map((one) => ('submission' in one ? one.submission.id : one.outcome)));
  assert.equal(ids.size, 1);
  assert.equal(answers.filter((one) => one.outcome === 'made').length, 1);
};

export const uploading: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const made = registration(stage, accountId);
  const { id: submissionId } = made;
  await stage.act(registerOperation, made);
  await stage.act(uploadTargetOperation, { submissionId, number: 0 });
  assert.equal(await stage.act(uploadTargetOperation, { submissionId, number: 2 }), null);
  assert.equal(await stage.act(uploadTargetOperation, { submissionId: 'sub_other', number: 0 }), null);
  const [one, two] = [`${accountId}/1`, `${accountId}/2`];
  await stage.act(finishUploadOperation, { submissionId, number: 0, blobKey: one, blobStamp: 'first' });
  const again = await stage.act(finishUploadOperation, { submissionId, number: 0, blobKey: two, blobStamp: 'second' });
  assert.deepEqual(again, { isStored: true, replaced: one });
  const stampOf = async () => (await stage.act(uploadTargetOperation, { submissionId, number: 0 }))!.file.blobStamp;
  assert.equal(await stampOf(), 'second');
  const file = { submissionId, number: 0, blobStamp: 'third' };
  await stage.act(confirmFileOperation, { ...file, blobKey: one });
  assert.equal(await stampOf(), 'second', 'a blob replaced by another upload');
  await stage.act(confirmFileOperation, { ...file, blobKey: two });
  assert.equal(await stampOf(), 'third');
  assert.equal(
    (await stage.act(finishUploadOperation, { submissionId: 'sub_x', number: 0, blobKey: one, blobStamp: null }))
      .isStored,
    false,
  );
  const named = await stage.actUnordered(uploadedBlobsOperation, [one, two, `${accountId}/direct`]);
  assert.equal(named.length, 2);
  await stage.act(uploadedBlobsOperation, []);
};

export const sending: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const made = registration(stage, accountId, { idempotencyKey: 'send' });
  const { id: submissionId } = made;
  await stage.act(registerOperation, made);
  await stage.act(finishUploadOperation, { submissionId, number: 0, blobKey: `${accountId}/1`, blobStamp: null });
  const record = {
    endpoint: '/send',
    key: 'send',
    bodyHash: Buffer.from('h'),
    status: 202,
    expiresAtMs: stage.nowMs + DAY,
  };
  const mail = () =>
    acceptance(stage, { accountId, change: { contentUntilMs: stage.nowMs + HOUR, idempotency: record } });
  const use = { submissionId, accountId, mode: 'live', version: 1, nowMs: stage.nowMs } as const;
  for (const wrong of [{ version: 0 }, { accountId: 'acc_other' }, { mode: 'sandbox' as const }]) {
    const lost = await stage.act(acceptLargeOperation, { acceptance: mail(), use: { ...use, ...wrong } });
    assert.deepEqual([lost.isSubmissionLost, lost.stored], [true, false]);
  }
  const taken = await stage.act(acceptLargeOperation, { acceptance: mail(), use });
  assert.deepEqual([taken.isSubmissionLost, taken.stored, taken.recipients.length], [false, true, 1]);
  assert.equal((await stage.act(acceptLargeOperation, { acceptance: mail(), use })).isSubmissionLost, true);
  assert.equal(
    (await stage.act(finishUploadOperation, { submissionId, number: 0, blobKey: 'x/1', blobStamp: null })).isStored,
    false,
  );

  // A key that already has its result leaves the other submission open.
  const second = registration(stage, accountId);
  await stage.act(registerOperation, second);
  const other = { ...use, submissionId: second.id, version: 0 };
  const known = await stage.act(acceptLargeOperation, { acceptance: mail(), use: other });
  assert.deepEqual([known.isSubmissionLost, known.stored], [false, false]);
  assert.equal((await stage.act(batchOperation, { accountId, mode: 'live', id: second.id }))?.usedAt, null);

  // The key is valid while the message is in progress, whatever its age.
  const late = { ...made, id: stage.id('sub'), manifestHash: Buffer.from('other'), keysFromMs: stage.nowMs + DAY };
  assert.equal((await stage.act(registerOperation, late)).outcome, 'other-manifest');
};

export const sendingAtOnce: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const made = registration(stage, accountId);
  await stage.act(registerOperation, made);
  const use = { submissionId: made.id, accountId, mode: 'live', version: 0, nowMs: stage.nowMs } as const;
  const answers = await Promise.all(
    Array.from({ length: 8 }, () =>
      stage.database.execute(acceptLargeOperation, { acceptance: acceptance(stage, { accountId }), use }),
    ),
  );
  assert.equal(answers.filter((one) => one.stored).length, 1);
  assert.equal(answers.filter((one) => one.isSubmissionLost).length, 7);
};

export const settling: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const made = registration(stage, accountId);
  await stage.act(registerOperation, made);
  await stage.act(finishUploadOperation, {
    submissionId: made.id,
    number: 0,
    blobKey: `${made.id}/1`,
    blobStamp: null,
  });
  const mail = acceptance(stage, { accountId, change: { retain: 'none' } });
  const use = { submissionId: made.id, accountId, mode: 'live', version: 1, nowMs: stage.nowMs } as const;
  await stage.act(acceptLargeOperation, { acceptance: mail, use });
  const { jobs } = await stage.database.execute(claimOperation, claimRequest(stage));
  const mine = jobs.filter((job) => job.accountId === accountId);
  const settled = await stage.act(
    settleOperation,
    mine.map((job) => settlement(stage, job)),
  );
  assert.deepEqual(settled.blobKeys, [`${made.id}/1`, `${accountId}/direct`]);
  const left = await stage.act(batchOperation, { accountId, mode: 'live', id: made.id });
  assert.deepEqual(
    left?.files.map((file) => file.blobKey),
    [null, null],
  );
};

export const keeping: Scenario = async (stage) => {
  const accountId = stage.id('acc');
  const [open, kept, unkept] = ['open', 'kept', 'unkept'].map(() => registration(stage, accountId)) as [
    Registration,
    Registration,
    Registration,
  ];
  for (const one of [open, kept, unkept]) {
    await stage.act(registerOperation, one);
    await stage.act(finishUploadOperation, {
      submissionId: one.id,
      number: 0,
      blobKey: `${one.id}/1`,
      blobStamp: null,
    });
  }
  const use = { accountId, mode: 'live', version: 1, nowMs: stage.nowMs } as const;
  await stage.act(acceptLargeOperation, {
    acceptance: acceptance(stage, { accountId }),
    use: { ...use, submissionId: kept.id },
  });
  const settledAtOnce = acceptance(stage, { accountId, change: { retain: 'none' } });
  settledAtOnce.emails[0]!.recipients[0]!.simulateSuppressed = true;
  await stage.act(acceptLargeOperation, { acceptance: settledAtOnce, use: { ...use, submissionId: unkept.id } });

  const expiredBeforeMs = stage.nowMs + HOUR;
  const page = { expiredBeforeMs, limit: 1_000 };
  const overdue = await stage.act(overdueBatchesOperation, { ...page, afterId: '' });
  assert.ok(overdue.includes(open.id) && !overdue.includes(kept.id));
  assert.ok(!(await stage.act(overdueBatchesOperation, { ...page, afterId: open.id })).includes(open.id));
  assert.deepEqual(await stage.act(overdueBatchesOperation, { ...page, expiredBeforeMs: 0, afterId: '' }), []);
  const ids = [open.id, kept.id, 'sub_x'];
  const early = await stage.act(removeOverdueOperation, { ids, expiredBeforeMs: expiredBeforeMs - 1 });
  assert.equal(early.count, 0);
  const removed = await stage.act(removeOverdueOperation, { ids, expiredBeforeMs });
  assert.deepEqual([removed.count, removed.blobKeys.length], [1, 2]);

  const mine = (keys: string[]): string[] => keys.filter((key) => key.startsWith(kept.id) || key.startsWith(unkept.id));
  const sweep = { rowsFromMs: stage.nowMs - 1, limit: 1_000, afterId: '' };
  assert.deepEqual(mine((await stage.act(removeUsedFilesOperation, sweep)).blobKeys), [`${unkept.id}/1`]);
  assert.deepEqual(mine((await stage.act(removeUsedFilesOperation, sweep)).blobKeys), []);
  assert.equal((await stage.act(batchOperation, { accountId, mode: 'live', id: unkept.id }))?.files.length, 2);
  await stage.act(removeUsedFilesOperation, { ...sweep, rowsFromMs: stage.nowMs });
  assert.equal(await stage.act(batchOperation, { accountId, mode: 'live', id: unkept.id }), null);
  const beforeMs = stage.nowMs + 40 * DAY;
  const last = await stage.act(removeContentOperation, { beforeMs, beforeOf7DaysMs: beforeMs, limit: 10 });
  assert.equal(last.count, 0, 'the message is still queued, so its files are kept');
  assert.equal((await stage.act(batchOperation, { accountId, mode: 'live', id: kept.id }))?.files.length, 2);
};
