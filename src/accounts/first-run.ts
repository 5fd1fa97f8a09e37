/**
 * The first start: an operator, an account (plan enterprise) with a live and a sandbox key, and a live and a sandbox
 * SMTP credential. They are drawn, written to `first-run.json` (mode 0600, synced), and only then committed together with a mark
 * that the first run is done. A crash in between leaves a file without rows; the next start takes the credentials from
 * that file and commits them, so that they are neither lost nor doubled. Of several nodes that start at once one does it, and
 * the others keep no file. The file is never part of a backup, and a restored
 * database carries the mark.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { newId } from '../base/ids.ts';
import type { DataDirectory } from '../storage/data-directory.ts';
import { writeDurableFile } from '../storage/durable-file.ts';
import { metaOperation } from '../storage/meta-store.ts';
import { type AccountContext, newAccount, newKeyRow, newPassword } from './create.ts';
import { apiKeyHash, keyIdOf } from './keys.ts';
import { hashPassword } from './passwords.ts';
import { accountOperation, firstRunOperation } from './store.ts';

const MARKER = 'first-run';
const OPERATOR_EMAIL = 'operator@localhost';
const ACCOUNT_NAME = 'First account';

export interface FirstRun {
  accountId: string;
  /** Live key, scope full. */
  apiKey: string;
  sandboxApiKey: string;
  /** Live. */
  smtpUsername: string;
  smtpPassword: string;
  sandboxSmtpUsername: string;
  sandboxSmtpPassword: string;
  operatorUserId: string;
  operatorEmail: string;
  operatorPassword: string;
  /** ISO time. */
  createdAt: string;
}

export function firstRunFile(directory: DataDirectory): string {
  return path.join(directory.path, 'first-run.json');
}

function draw(nowMs: number): FirstRun {
  const accountId = newId('acc', nowMs);
  const keyOf = (mode: 'live' | 'sandbox') => newKeyRow({ accountId, mode, scope: 'full', name: null }, nowMs).apiKey;
  return {
    accountId,
    apiKey: keyOf('live'),
    sandboxApiKey: keyOf('sandbox'),
    smtpUsername: newId('smtp', nowMs),
    smtpPassword: newPassword(),
    sandboxSmtpUsername: newId('smtp', nowMs),
    sandboxSmtpPassword: newPassword(),
    operatorUserId: newId('usr', nowMs),
    operatorEmail: OPERATOR_EMAIL,
    operatorPassword: newPassword(),
    createdAt: new Date(nowMs).toISOString(),
  };
}

const FIELDS = Object.keys(draw(0)) as (keyof FirstRun)[];

function readDrawn(file: string): FirstRun {
  const text = readFileSync(file, 'utf8');
  try {
    const found = JSON.parse(text) as Record<string, unknown>;
    if (FIELDS.every((field) => typeof found[field] === 'string')) return found as unknown as FirstRun;
  } catch {
    // The sentence below says what to do.
  }
  throw new Error(`${file} is not what the first run wrote; move it away and start again to get new credentials`);
}

/** Does the first run if it was not done; the credentials to print, or undefined. */
export async function firstRun(context: AccountContext & { directory: DataDirectory }): Promise<FirstRun | undefined> {
  const { database, directory } = context;
  if ((await database.execute(metaOperation, MARKER)) !== null) return undefined;
  const file = firstRunFile(directory);
  if (!existsSync(file)) writeDurableFile(file, `${JSON.stringify(draw(context.clock.now()), null, 2)}\n`);
  const drawn = readDrawn(file);
  const createdAt = Date.parse(drawn.createdAt);
  const keyRow = (apiKey: string, mode: 'live' | 'sandbox') => ({
    id: keyIdOf(apiKey),
    accountId: drawn.accountId,
    mode,
    scope: 'full' as const,
    name: 'first run',
    secretHash: apiKeyHash(apiKey),
    createdAt,
  });
  const credentialRow = async (mode: 'live' | 'sandbox', username: string, password: string) => ({
    ...{ id: username, accountId: drawn.accountId, mode, username, createdAt },
    passwordHash: await hashPassword(password),
  });
  const [operatorHash, ...credentials] = await Promise.all([
    hashPassword(drawn.operatorPassword),
    credentialRow('live', drawn.smtpUsername, drawn.smtpPassword),
    credentialRow('sandbox', drawn.sandboxSmtpUsername, drawn.sandboxSmtpPassword),
  ]);
  const done = await database.execute(firstRunOperation, {
    marker: MARKER,
    account: { ...newAccount(ACCOUNT_NAME, 'enterprise', createdAt), id: drawn.accountId },
    keys: [keyRow(drawn.apiKey, 'live'), keyRow(drawn.sandboxApiKey, 'sandbox')],
    credentials,
    user: {
      id: drawn.operatorUserId,
      email: drawn.operatorEmail,
      accountId: drawn.accountId,
      isOperator: true,
      passwordHash: operatorHash,
      createdAt,
    },
  });
  if (done) return drawn;
  // Another node was faster: what was drawn here is valid nowhere. Not so after a commit of ours whose answer was lost.
  if ((await database.execute(accountOperation, drawn.accountId)) === null) rmSync(file);
  return undefined;
}
