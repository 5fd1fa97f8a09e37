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

test('the text of an account has a value in each row', async (t) => {
  const { json, run } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  for (const args of [
    ['account', 'show', accountId],
    ['account', 'set', accountId, '--name', 'Acme Shop'],
    ['account', 'list'],
    ['key', 'list', accountId],
    ['queue', 'status'],
    ['migrate', '--status'],
  ]) {
    const { stdout, code } = await run(args);
    assert.equal(code, 0);
    assert.ok(!stdout.includes('[object'), stdout);
  }
  assert.match((await run(['account', 'show', accountId])).stdout, /^sendingProtection +good$/m);
});

test('a restriction of a credential that is not valid is wrong usage of its option', async (t) => {
  const { json, run } = commandFolder(t);
  await json('migrate');
  const { accountId } = await json('account', 'create', '--name', 'Acme');
  for (const command of [
    ['key', 'create', accountId],
    ['key', 'create', accountId, '--kind', 'sigv4'],
    ['smtp-credential', 'create', accountId],
  ]) {
    for (const [name, value] of [
      ['--allowed-sender', ''],
      ['--allowed-sender', 'no sender'],
      ['--network', '300.1.1.1/3'],
    ] as const) {
      const refused = await run([...command, name, value]);
      assert.equal(refused.code, 2, refused.stdout);
      assert.ok(refused.stderr.includes(name), refused.stderr);
    }
  }
  const key = ['operator-key', 'create', '--name', 'x', '--scope', 'read'];
  const refused = await run([...key, '--network', '300.1.1.1/3']);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /--network /);
});

test('version and completion ignore invalid settings', async (t) => {
  const { run } = commandFolder(t);
  const invalid = { POSTRIDER_HTTP_PORT: 'x' };
  for (const args of [['version'], ['completion', 'bash'], ['--version']]) {
    assert.equal((await run(args, invalid)).code, 0, args.join(' '));
  }
  assert.equal((await run(['account', 'list'], invalid)).code, 78);
});

test('a file of a secret key that cannot be read is named with the reason', async (t) => {
  const { folder, json, run } = commandFolder(t);
  await json('migrate');
  const refused = await run(['secret-key', 'compare', folder]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /is a folder; name a file in it/);
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
