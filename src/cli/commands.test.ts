/** The documented commands with their arguments and options; `--json` prints lists under their plural. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { commandFolder } from '../../test/kit/command-folder.ts';

const PROMISED: [command: string, ...parts: RegExp[]][] = [
  ['serve', /^Usage: postrider serve/],
  [
    'account create',
    /--name <name> \[options\]\n/,
    /--plan [^"]*choices: "free", "paid", "enterprise",\s+default:\s+"paid"/,
  ],
  ['account list', /list/],
  ['account show', /show <account-id>\n/],
  ['account set', /set <account-id> \[options\]\n/, /--plan <plan>/, /--email-limit <bytes>/, /--status <status>/],
  [
    'key create',
    /create <account-id>/,
    /--mode [^"]*"live", "sandbox", default:\s+"live"/,
    /--scope [^"]*"send", "full"/,
  ],
  ['key list', /list <account-id>\n/],
  ['key revoke', /revoke <key-id>\n/],
  ['smtp-credential create', /create <account-id>/, /--mode <mode>/],
  ['smtp-credential list', /list <account-id>\n/],
  ['domain add', /add <account-id> <domain> \[options\]\n/, /--verified/],
  ['domain verify', /verify <domain-id>\n/],
  ['operator-key create', /create --name <name> --scope <scope> \[options\]\n/, /--expires <time>/, /--network <cidr>/],
  ['operator-key list', /list/],
  ['operator-key revoke', /revoke <operator-key-id>\n/],
  ['approval list', /list/],
  ['approval approve', /approve <approval-id>\n/],
  ['approval reject', /reject <approval-id> --reason <text>\n/],
  ['user create', /create --email <address> \[options\]\n/, /--operator/],
  ['user reset-password', /reset-password --email <address>\n/],
  ['queue status', /status/],
  ['queue retry', /retry <message-id>\n/],
  ['queue cancel', /cancel <message-id>\n/],
  ['send', /--from <address> --to <address> --subject <text> \[options\]\n/, /--html <html>/, /--attach <file\.\.\.>/],
  ['send', /--url <address>/, /--id <account-id>/, /--key <api-key>/],
  ['import-from', /import-from <service> <file...> \[options\]\n/, /--yes/, /--list <name>/, /--groups/],
  ['listen', /--forward <url> \[options\]\n/, /--url <address>/, /--id <account-id>/, /--key <api-key>/],
  ['mcp', /--read/, /--url <address>/, /--key <api-key>/],
  ['migrate', /--status/],
  ['config check', /check/],
  ['backup', /backup \[file\] \[options\]\n/, /--scheduled/],
  ['restore', /restore <file>\n/],
  ['export', /export \[file\]\n/],
  ['import', /import <file>\n/],
  ['doctor', /doctor/, /--offline/, /--send-test <address>/],
  ['secret-key compare', /compare <file>\n/],
];

test('every documented command exists with its arguments', async (t) => {
  const { run } = commandFolder(t);
  for (const [command, ...parts] of PROMISED) {
    const help = await run([...command.split(' '), '--help']);
    assert.equal(help.code, 0, command);
    for (const part of parts) assert.match(help.stdout, part);
  }
});

test('the reason of a suspension is validated, trimmed, and displayed', async (t) => {
  const { json, run } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  const suspend = ['account', 'set', accountId, '--status', 'suspended', '--reason'];
  for (const reason of [' ', 'a\tb', 'x'.repeat(501)]) {
    const refused = await run([...suspend, reason]);
    assert.equal(refused.code, 2, JSON.stringify(reason));
    assert.match(refused.stderr, /--reason must have 1 to 500 characters and no control characters/);
  }
  assert.equal((await json(...suspend, ' Unpaid invoices ')).suspensionReason, 'Unpaid invoices');
  assert.equal((await json('account', 'show', accountId)).suspensionReason, 'Unpaid invoices');
  assert.equal((await json('account', 'set', accountId, '--status', 'active')).suspensionReason, undefined);
});

test('lists are returned under their plural name, and every error is one object', async (t) => {
  const { json, run } = commandFolder(t);
  await json('migrate');
  assert.deepEqual(await json('account', 'list'), { accounts: [] });
  assert.deepEqual(await json('approval', 'list'), { approvals: [] });
  assert.deepEqual(await json('operator-key', 'list'), { operatorKeys: [] });
  for (const words of [
    ['account', 'show', 'acc_0'],
    ['account', 'set', 'acc_0', '--plan', 'free'],
    ['key', 'list', 'acc_0'],
    ['key', 'revoke', 'key_0'],
    ['smtp-credential', 'list', 'acc_0'],
    ['domain', 'verify', 'dom_0'],
    ['operator-key', 'revoke', 'opk_0'],
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
