/** Which of two results at the hosts of one attempt applies to a recipient. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classify } from '../outcome/outcome.ts';
import type { DeliveryItem } from '../queue/delivery-item.ts';
import type { AttemptFacts } from '../record/settle.ts';
import { type AttemptResult, type ClassifiedResult, laterResult } from './pass.ts';

const item = {} as DeliveryItem;

const ended = (code: number, host: string): ClassifiedResult => ({
  item,
  kind: 'classified',
  outcome: classify({ stage: 'rcpt', reply: { code, text: 'reply', lines: ['reply'] }, relay: false }),
  facts: { host, dialogue: [{ atMs: 0, direction: 'S', text: `${code} from ${host}` }] } as unknown as AttemptFacts,
});

const codeOf = (result: AttemptResult): number | null | undefined =>
  result.kind === 'classified' ? result.outcome.smtpCode : undefined;

test('the result at the later MX host applies', () => {
  assert.equal(codeOf(laterResult(undefined, ended(451, 'mx1'))), 451);
  assert.equal(codeOf(laterResult(ended(451, 'mx1'), ended(452, 'mx2'))), 452);
});

test('a permanent failure at a later MX host does not override an earlier deferral, and is logged', () => {
  const result = laterResult(ended(451, 'mx1'), ended(550, 'mx2'));
  assert.equal(codeOf(result), 451);
  assert.match(JSON.stringify(result), /550 from mx2/);
});

test('the reply of an earlier MX host is recorded if the later one did not reply for the recipient', () => {
  assert.equal(codeOf(laterResult(ended(451, 'mx1'), { item, kind: 'put back' })), 451);
  assert.equal(laterResult(undefined, { item, kind: 'put back' }).kind, 'put back');
});
