import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childOf, NO_TRACER, readContext, traceparentOf } from './trace.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

test('valid contexts are read, also of a later version', () => {
  const parts = { traceId: TRACE, spanId: SPAN };
  assert.deepEqual(readContext(`00-${TRACE}-${SPAN}-01`), { ...parts, isSampled: true });
  assert.deepEqual(readContext(`00-${TRACE}-${SPAN}-02`), { ...parts, isSampled: false });
  assert.deepEqual(readContext(`cc-${TRACE}-${SPAN}-03-more`), { ...parts, isSampled: true });
  assert.equal(traceparentOf(` cc-${TRACE}-${SPAN}-03-more `), `00-${TRACE}-${SPAN}-01`);
});

test('contexts that are not valid are ignored', () => {
  const wrong = [
    undefined,
    '',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01\r\nx: y`,
    `01-${TRACE}-${SPAN}-01-${'x'.repeat(300)}`,
  ];
  for (const text of wrong) assert.equal(traceparentOf(text), undefined, String(text));
  assert.equal(traceparentOf([`00-${TRACE}-${SPAN}-01`]), undefined);
});

test('a child keeps the trace and its sampling decision, and a new trace is sampled by the ratio', () => {
  const parent = `00-${TRACE}-${SPAN}-00`;
  const child = readContext(childOf(parent, 1))!;
  assert.deepEqual([child.traceId, child.isSampled], [TRACE, false]);
  assert.notEqual(child.spanId, SPAN);
  assert.equal(readContext(childOf(undefined, 1))!.isSampled, true);
  assert.equal(readContext(childOf(undefined, 0))!.isSampled, false);
  assert.notEqual(readContext(childOf(undefined, 1))!.traceId, readContext(childOf(undefined, 1))!.traceId);
  assert.equal(NO_TRACER.begin(parent), parent);
});
