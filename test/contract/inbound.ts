/** Inbound messages: stored with their work, claimed, completed once, deferred, quarantined, kept, found, and removed with their blobs. */
import assert from 'node:assert/strict';
import { createAccountOperation } from '../../src/accounts/store.ts';
import { recordCheckOperation } from '../../src/domains/check-store.ts';
import { addDomainOperation, returnPathStateOperation } from '../../src/domains/store.ts';
import {
  findOperatorMailOperation,
  listOperatorMailOperation,
  recordOperatorMailOperation,
} from '../../src/inbound/operator-mail-store.ts';
import {
  claimInboundOperation,
  clampInboundOperation,
  deferInboundOperation,
  findInboundOperation,
  type InboundJob,
  inboundBlobsOperation,
  keepInboundOperation,
  type NewInbound,
  removeInboundOperation,
  removeRecordedOperation,
  storeInboundOperation,
  storeKeptOperation,
} from '../../src/inbound/store.ts';
import { newAccount } from './accounts.ts';
import type { Scenario } from './stage.ts';

const HOUR_MS = 3_600_000;

export const inboundMail: Scenario = async (stage) => {
  const { nowMs } = stage;
  const account = newAccount(stage);
  await stage.act(createAccountOperation, { account, keys: [] });
  const domain = { id: stage.id('dom'), accountId: account.id, domain: 'returns.example', status: 'pending' } as const;
  const key = { algorithm: 'rsa', selector: 's1', publicKey: 'r1', privateKeySealed: Buffer.of(1) } as const;
  await stage.act(addDomainOperation, { ...domain, nowMs, keys: [key] });
  const state = () => stage.act(returnPathStateOperation, 'bounces.returns.example');
  assert.equal(await state(), 'unconfirmed', 'anyone can add a domain');
  const check = { id: domain.id, nowMs, promotes: false };
  for (const [status, isReturnPath, expected] of [
    [null, true, 'unconfirmed'],
    ['verified', false, 'unconfirmed'],
    ['verified', true, 'confirmed'],
    ['failing', null, 'confirmed'],
    ['failing', false, 'unconfirmed'],
  ] as const) {
    const isPublished = status === 'verified';
    const keys = [{ selector: key.selector, isPublished, isEverywhere: isPublished }];
    await stage.act(recordCheckOperation, { ...check, keys, status, isReturnPath });
    assert.equal(await state(), expected, `${status} ${isReturnPath}`);
  }
  for (const name of ['shop.example', 'bounces.none.example', 'bounces.', ''])
    assert.equal(await stage.act(returnPathStateOperation, name), 'none');
  const accountId = stage.id('acc');
  const mail = (change: Partial<NewInbound> = {}): NewInbound => ({
    id: stage.id('inb'),
    receivedAtMs: nowMs,
    envelopeFrom: '',
    recipient: 'abuse@b.example',
    use: { kind: 'abuse' },
    client: { address: '192.0.2.1', helo: 'mx.example', tls: 'TLSv1.3' },
    sizeBytes: 4,
    content: Buffer.from('mail'),
    blobKey: null,
    nowMs,
    ...change,
  });
  const ofRoute = mail({
    use: { kind: 'route', accountId, mode: 'live', routeId: 'inr_1' },
    content: null,
    blobKey: 'zz/1',
    sizeBytes: 70_000,
  });
  await stage.act(storeInboundOperation, [mail({ content: null, blobKey: 'zz/1' }), ofRoute]);
  await stage.act(storeInboundOperation, [mail()]);
  await stage.act(storeInboundOperation, [mail()]);
  const claim = { nowMs, leaseMs: 60_000, limit: 10, quarantined: true, freeOnly: false };
  const { jobs } = await stage.act(claimInboundOperation, { ...claim, overQuota: [`route ${accountId}`] });
  assert.equal(jobs.length, 3, 'the lane over its limit is parked');
  const leaseOf = ({ seq, fence, mail: { id: inboundId } }: InboundJob) => ({ seq, fence, inboundId });
  const [shared, off, aside] = jobs.map(leaseOf);
  const owner = { accountId: '', mode: 'live' } as const;
  const stale = { ...off!, fence: off!.fence - 1, ...owner, againAtMs: null };
  assert.equal((await stage.actNumbers(deferInboundOperation, [stale])).length, 1, 'an old fence changes nothing');
  await stage.actNumbers(deferInboundOperation, [
    { ...off!, ...owner, againAtMs: nowMs + 9 * HOUR_MS },
    { ...aside!, ...owner, againAtMs: null },
  ]);
  assert.equal(await stage.act(clampInboundOperation, { nowMs, latestMs: [HOUR_MS], crashPauseMs: 60_000 }), 1);
  assert.deepEqual(await stage.actNumbers(keepInboundOperation, [shared!]), []);
  assert.equal((await stage.actNumbers(keepInboundOperation, [shared!])).length, 1, 'it ends once');
  assert.deepEqual(await stage.act(inboundBlobsOperation, ['zz/1', 'zz/2']), ['zz/1']);
  assert.deepEqual(await stage.act(inboundBlobsOperation, []), []);
  const kept = mail({ use: ofRoute.use, content: null, blobKey: 'zz/3', sizeBytes: 70_000 });
  await stage.act(storeKeptOperation, kept);
  assert.equal((await stage.act(findInboundOperation, { id: kept.id, accountId, mode: 'live' }))?.blobKey, 'zz/3');
  const found = await stage.act(findInboundOperation, { id: ofRoute.id, accountId, mode: 'live' });
  assert.equal(found?.blobKey, 'zz/1');
  assert.equal(
    await stage.act(findInboundOperation, { id: ofRoute.id, accountId: 'acc_other', mode: 'live' }),
    undefined,
  );
  const early = await stage.act(removeInboundOperation, { beforeMs: nowMs, limit: 10 });
  assert.equal(early.count, 0);
  const removed = await stage.act(removeInboundOperation, { beforeMs: nowMs + 1, limit: 10 });
  assert.deepEqual(removed, { count: 3, blobKeys: ['zz/3'] }, 'a queued item is kept with its shared blob');
  const pair = [mail(), mail()].map((one) => ({ ...one, content: null, blobKey: 'zz/4' }));
  for (const one of pair) await stage.act(storeKeptOperation, one);
  assert.deepEqual(await stage.act(removeRecordedOperation, [pair[0]!.id]), [], 'the other one has the blob');
  assert.deepEqual(await stage.act(removeRecordedOperation, [pair[1]!.id, 'inb_none']), ['zz/4']);
  assert.deepEqual(await stage.act(removeRecordedOperation, []), []);
};

export const operatorMail: Scenario = async (stage) => {
  const { nowMs } = stage;
  const ids: string[] = [];
  for (let at = 0; at < 3; at += 1) {
    const id = stage.id('inb', nowMs + at);
    ids.push(id);
    const mail: NewInbound = {
      id,
      receivedAtMs: nowMs,
      envelopeFrom: 'ann@x.example',
      recipient: 'abuse@b.example',
      use: { kind: 'abuse' },
      client: { address: '192.0.2.1', helo: 'mx.example', tls: 'TLSv1.3' },
      sizeBytes: 4,
      content: Buffer.from('mail'),
      blobKey: null,
      nowMs,
    };
    await stage.act(storeInboundOperation, [mail]);
  }
  const claim = { nowMs, leaseMs: 60_000, limit: 10, quarantined: true, freeOnly: false, overQuota: [] };
  const { jobs } = await stage.act(claimInboundOperation, claim);
  const mails = jobs.map(({ seq, fence, mail: { id: inboundId } }) => ({
    lease: { seq, fence, inboundId },
    summary: { from: 'ann@x.example', subject: 'Help', text: 'Your host is listed', forwarding: 'not-set' as const },
  }));
  const recorded = await stage.act(recordOperatorMailOperation, mails);
  assert.deepEqual(recorded, { lost: [], blobKeys: [] });
  const again = await stage.act(recordOperatorMailOperation, mails.slice(0, 1));
  assert.equal(again.lost.length, 1, 'it is recorded once');
  const page = await stage.act(listOperatorMailOperation, { before: null, limit: 2 });
  assert.deepEqual(
    page.map(({ id }) => id),
    [ids[2], ids[1]],
  );
  const rest = await stage.act(listOperatorMailOperation, { before: ids[1]!, limit: 2 });
  assert.deepEqual(
    rest.map(({ id }) => id),
    [ids[0]],
  );
  assert.equal((await stage.act(findOperatorMailOperation, ids[0]!))?.subject, 'Help');
  assert.equal(await stage.act(findOperatorMailOperation, 'inb_none'), undefined);
};
