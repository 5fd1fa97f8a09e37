/** Concurrent creates never exceed a limit, on either database. An account above a limit keeps its items and creates no more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIALECTS, tempDatabase } from '../../test/kit/temp-database.ts';
import { newAccount } from '../accounts/create.ts';
import { createCredentialOperation, createKeyOperation } from '../accounts/credential-store.ts';
import { createAccountOperation, setAccountOperation } from '../accounts/store.ts';
import { registerOperation } from '../attachments/register-store.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { addDomainOperation } from '../domains/store.ts';
import type { Database } from '../storage/database.ts';
import { createTemplateOperation } from '../templates/store.ts';
import { createEndpointOperation } from '../webhooks/store.ts';
import { type LimitName, type Limits, type LimitUsage, limitUsageOperation } from './limits.ts';

const NOW = Date.now();
const content = {
  type: 'transactional',
  subject: 'x',
  mjml: null,
  html: null,
  text: 'x',
  layoutId: null,
  variables: [],
} as const;

type Make = (database: Database, accountId: string, mode: Mode) => Promise<unknown>;

/** Creates one more; returns the result of the operation. */
const MAKE: Partial<Record<LimitName, Make>> = {
  webhooks: ({ execute }, accountId, mode) =>
    execute(createEndpointOperation, {
      id: newId('whk'),
      accountId,
      mode,
      url: 'https://a.example',
      events: '["Send"]',
      description: null,
      enabled: true,
      secretSealed: Buffer.from([1]),
      nowMs: NOW,
    }),
  domains: ({ execute }, accountId) => {
    const id = newId('dom');
    const domain = `${id.slice(4).toLowerCase()}.example.com`;
    return execute(addDomainOperation, { id, accountId, domain, status: 'pending', nowMs: NOW, keys: [] });
  },
  templates: ({ execute }, accountId, mode) => {
    const templateId = newId('tpl');
    const made = { accountId, mode, templateId, name: templateId, content: { ...content, variables: [] }, nowMs: NOW };
    return execute(createTemplateOperation, made);
  },
  apiKeys: ({ execute }, accountId, mode) =>
    execute(createKeyOperation, {
      id: newId('key'),
      accountId,
      mode,
      scope: 'full',
      name: null,
      secretHash: Buffer.alloc(32),
      createdAt: NOW,
    }),
  smtpCredentials: ({ execute }, accountId, mode) => {
    const id = newId('smtp');
    return execute(createCredentialOperation, { id, accountId, mode, username: id, passwordHash: 'h', createdAt: NOW });
  },
  openSubmissions: ({ execute }, accountId, mode) =>
    execute(registerOperation, {
      id: newId('sub'),
      accountId,
      mode,
      idempotencyKey: null,
      manifestHash: Buffer.from('m'),
      nowMs: NOW,
      expiresAtMs: NOW + 60_000,
      countedBytes: 1,
      maximumUnsentBytes: 1_000,
      keepUnsentMs: 1,
      fits: true,
      keysFromMs: 0,
      files: [],
    }),
};

const isRefused = (answer: unknown): boolean => JSON.stringify(answer).includes('"most":');

for (const dialect of DIALECTS) {
  test(`${dialect}: twelve simultaneous calls in both modes create no more than the limit allows`, async (t) => {
    const temp = await tempDatabase(dialect);
    t.after(temp.close);
    const { database } = temp;
    const account = newAccount('One', 'paid', NOW);
    await database.execute(createAccountOperation, { account, keys: [] });
    const set = (limits: Partial<Limits>) =>
      database.execute(setAccountOperation, {
        id: account.id,
        plan: null,
        status: null,
        approvedEmailBytes: null,
        nowMs: Date.now(),
        limits,
      });
    for (const [name, make] of Object.entries(MAKE) as [LimitName, Make][]) {
      const atOnce = async (): Promise<number> => {
        const all = Array.from({ length: 12 }, (_, i) => make(database, account.id, i % 2 === 0 ? 'live' : 'sandbox'));
        return (await Promise.all(all)).filter((answer) => !isRefused(answer)).length;
      };
      await set({ [name]: 5 });
      assert.equal(await atOnce(), 5, `${name}: five of twelve`);
      await set({ [name]: 7 });
      assert.equal(await atOnce(), 2, `${name}: two more`);
      await set({ [name]: 3 });
      assert.equal(await atOnce(), 0, `${name}: existing ones are kept, none is added`);
      const usage = await database.execute(limitUsageOperation, { accountId: account.id, nowMs: NOW });
      assert.equal(usage[name as keyof LimitUsage], 7, `${name}: operators see the number that the limit counts`);
    }
  });
}
