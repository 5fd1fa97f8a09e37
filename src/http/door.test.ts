/** Selection of a compatibility API by request, and the resulting path. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { failure, refuse } from '../base/failure.ts';
import { type Door, findDoor } from './door.ts';

const door: Door = {
  prefix: '/other',
  takes: ({ headers }) => headers['x-other'] !== undefined,
  identify: () => Promise.resolve(refuse(failure('UNAUTHORIZED'))),
  shape: (answer) => answer,
};

test('a compatibility API is selected by path prefix or by header, which adds the prefix', () => {
  const cases: [url: string, headers: IncomingMessage['headers'], path: string | undefined][] = [
    ['/other/emails', {}, '/other/emails'],
    ['/other/emails?a=b', { 'x-other': '1' }, '/other/emails?a=b'],
    ['/other', {}, '/other'],
    ['/other?a', {}, '/other?a'],
    ['/emails', { 'x-other': '1' }, '/other/emails'],
    ['/emails', {}, undefined],
    ['/others/emails', {}, undefined],
    ['/others', { 'x-other': '1' }, '/other/others'],
  ];
  for (const [url, headers, path] of cases) {
    const request = { url, headers } as IncomingMessage;
    assert.equal(findDoor([door], request) === door, path !== undefined, url);
    assert.equal(request.url, path ?? url);
    assert.equal(findDoor([], { url, headers } as IncomingMessage), undefined);
  }
});
