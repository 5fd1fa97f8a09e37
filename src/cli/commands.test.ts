/** The commands that are promised to operators, with their arguments and options; `--json` answers lists under their plural. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';

const PROMISED: [command: string, usage: RegExp][] = [
  ['serve', /^postrider serve\n/],
  ['account create', /--name N \[--plan free\|paid\|enterprise\]/],
  ['account list', /list\n/],
  ['account show', /ID\n/],
  ['account set', /ID \[--plan P\] \[--email-limit BYTES\] \[--status /],
  ['key create', /ID \[--mode live\|sandbox\] \[--scope send\|full\]/],
  ['key revoke', /KEYID\n/],
  ['smtp-credential create', /ID \[--mode live\|sandbox\]/],
  ['domain add', /ID DOMAIN \[--verified\]/],
  ['domain verify', /DOMAINID\n/],
  ['approval list', /list\n/],
  ['approval approve', /APPROVALID\n/],
  ['approval reject', /APPROVALID --reason R\n/],
  ['user create', /--email E \[--operator\]\n/],
  ['user reset-password', /--email E\n/],
  ['queue status', /status\n/],
  ['queue retry', /MESSAGEID\n/],
  ['queue cancel', /MESSAGEID\n/],
  ['send', /--from F --to T --subject S \[--html H\] .*\[--attach FILE…\]/],
  ['listen', /--forward URL/],
  ['migrate', /migrate\n/],
  ['backup', /FILE/],
  ['restore', /FILE/],
  ['export', /FILE/],
  ['import', /FILE/],
  ['doctor', /doctor\n/],
];

test('every promised command is there, with its arguments', async (t) => {
  const { run } = commandFolder(t);
  for (const [command, usage] of PROMISED) {
    const help = await run([...command.split(' '), '--help']);
    assert.equal(help.code, 0, command);
    assert.match(help.stdout, usage);
  }
});

test('lists stand under their plural, and every refusal is one object', async (t) => {
  const { json, run } = commandFolder(t);
  await json('migrate');
  assert.deepEqual(await json('account', 'list'), { accounts: [] });
  assert.deepEqual(await json('approval', 'list'), { approvals: [] });
  for (const words of [
    ['account', 'show', 'acc_0'],
    ['account', 'set', 'acc_0', '--plan', 'free'],
    ['key', 'revoke', 'key_0'],
    ['domain', 'verify', 'dom_0'],
    ['approval', 'approve', 'apr_0'],
    ['approval', 'reject', 'apr_0', '--reason', 'no'],
    ['user', 'reset-password', '--email', 'ada@example.com'],
    ['queue', 'retry', 'msg_0'],
    ['queue', 'cancel', 'msg_0'],
  ]) {
    const refused = await run([...words, '--json']);
    assert.equal(refused.code, 1, words.join(' '));
    const { success, error } = JSON.parse(refused.stdout);
    assert.deepEqual([success, error.code], [false, 'NOT_FOUND'], words.join(' '));
  }
});
