/** Filters entered in the search field of the message list. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { searchTerms } from '../../portal/src/pages/messages/search-syntax.ts';

const CASES: [typed: string, terms: Partial<ReturnType<typeof searchTerms>>][] = [
  ['', { text: '' }],
  ['order 17', { text: 'order 17' }],
  ['status:bounced', { status: 'bounced' }],
  ['Status:Canceled', { status: 'cancelled' }],
  ['refund status:delayed  tag:invoice', { text: 'refund', status: 'delayed', tags: ['invoice'] }],
  ['tag:a tag:b', { tags: ['a', 'b'] }],
  ['from:orders@shop.example to:@example.com', { from: 'orders@shop.example', to: '@example.com' }],
  ['subject:"Your order" ann', { text: 'ann', subject: 'Your order' }],
  ['to:a@x.example to:b@x.example', { to: 'b@x.example' }],
  ['status:unknown', { text: 'status:unknown' }],
  ['Re: your order', { text: 'Re: your order' }],
  ['https://shop.example/?to:x', { text: 'https://shop.example/?to:x' }],
  ['from:', { text: 'from:' }],
  ['subject:""', { text: 'subject:""' }],
  ['subject:"unclosed text', { text: 'subject:"unclosed text' }],
];

for (const [typed, terms] of CASES)
  test(`${JSON.stringify(typed)} in the search field`, () => {
    assert.deepEqual(searchTerms(typed), { text: '', tags: [], ...terms });
  });
