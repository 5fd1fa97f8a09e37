import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from './log.ts';
import { logText } from './log-text.ts';

function lineOf(write: (log: ReturnType<typeof createLog>) => void): string {
  const lines: string[] = [];
  write(createLog('info', (line) => lines.push(line)));
  return logText(lines[0]!, false);
}

test('a record is one line: time, level, message, fields', () => {
  const line = lineOf((log) =>
    log.info({ accountId: 'acc_1', ids: ['a', 'b'], port: 25, text: 'two words' }, 'message accepted'),
  );
  assert.match(
    line,
    /^\d\d:\d\d:\d\d INFO {2}message accepted {2}accountId=acc_1 {2}ids=a,b {2}port=25 {2}text="two words"\n$/,
  );
  assert.match(
    lineOf((log) => log.warn('disk is short')),
    /^\S+ WARN {2}disk is short\n$/,
  );
});

test('an error includes its message and stack', () => {
  const lines = lineOf((log) => log.error({ err: new Error('no route') }, 'delivery failed')).split('\n');
  assert.match(lines[0]!, /ERROR delivery failed {2}error="no route"$/);
  assert.match(lines[1]!, /^ {6}at /);
});

test('no control character reaches the terminal', () => {
  const line = lineOf((log) => log.info({ helo: 'x\u001b[2J\u009b1m\nINFO forged', 'k\u001b': 1 }, 'a\u001b]0;b'));
  assert.doesNotMatch(line.slice(0, -1), /[\u0000-\u001f\u007f-\u009f]/);
});

test('colors are used only on terminals, and non-JSON lines are unchanged', () => {
  assert.match(
    logText('{"level":"warn","time":"2026-01-01T00:00:00Z","msg":"x"}', true),
    /\u001b\[33mWARN \u001b\[39m x/,
  );
  assert.equal(logText('plain\n', false), 'plain\n');
});
