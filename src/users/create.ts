/**
 * User management from the command line, and the first start of the service. Secrets are generated here, stored as hashes, and returned
 * once.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import {
  accountOperation,
  apiKeyHash,
  hashPassword,
  keyIdOf,
  newAccount,
  newKeyRow,
  newPassword,
} from '../accounts/accounts.ts';
import { changedBy, commandOrigin, systemOrigin } from '../audit/audit.ts';
import type { Clock } from '../base/clock.ts';
import { failure, ok, type Result, refuse } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { DataDirectory } from '../storage/data-directory.ts';
import type { Database } from '../storage/database.ts';
import { writeDurableFile } from '../storage/durable-file.ts';
import { metaOperation } from '../storage/meta-store.ts';
import { resetFactorsOperation } from './factor-store.ts';
import { createUserOperation, firstRunOperation, resetByOperatorOperation } from './store.ts';
import { linkOf, newSecret, tokenRow } from './tokens.ts';

interface Context {
  database: Database;
  clock: Clock;
}

interface CreatedUser {
  userId: string;
  email: string;
  password: string;
}

/** Creates a user with a generated password; CONFLICT if the address is taken. */
export async function createUser(
  { database, clock }: Context,
  wanted: { email: string; isOperator: boolean },
): Promise<Result<CreatedUser>> {
  const createdAt = clock.now();
  const password = newPassword();
  const user = {
    id: newId('usr', createdAt),
    email: wanted.email.toLowerCase(),
    emailVerified: 1,
    isOperator: wanted.isOperator ? 1 : 0,
    passwordHash: await hashPassword(password),
    createdAt,
  };
  if (!(await changedBy(database, commandOrigin(createdAt)).execute(createUserOperation, user))) {
    return refuse(
      failure('CONFLICT', { message: `A user with the email ${user.email} already exists; use user reset-password.` }),
    );
  }
  return ok({ userId: user.id, email: user.email, password });
}

/**
 * Sets a new generated password for a user and ends their sessions; also returns a link to set their own. NOT_FOUND if no user has this
 * address.
 */
export async function resetPassword(
  { database, clock }: Context,
  wanted: { email: string; baseUrl: string },
): Promise<Result<CreatedUser & { resetUrl: string }>> {
  const email = wanted.email.toLowerCase();
  const password = newPassword();
  const secret = newSecret();
  const purpose = 'operator-reset';
  const userId = await changedBy(database, commandOrigin(clock.now())).execute(resetByOperatorOperation, {
    email,
    passwordHash: await hashPassword(password),
    token: tokenRow(secret, { purpose, byMail: false, nowMs: clock.now() }),
  });
  if (userId === null) return refuse(failure('NOT_FOUND', { message: `No user has the email ${email}.` }));
  return ok({ userId, email, password, resetUrl: linkOf(wanted.baseUrl, purpose, secret) });
}

/** Removes the second factors of a user, for example after a phone was lost. */
export async function resetTwoFactor(
  { database, clock }: Context,
  given: string,
): Promise<Result<{ userId: string; email: string }>> {
  const email = given.toLowerCase();
  const userId = await changedBy(database, commandOrigin(clock.now())).execute(resetFactorsOperation, { email });
  if (userId === null) return refuse(failure('NOT_FOUND', { message: `No user has the email ${email}.` }));
  return ok({ userId, email });
}

const MARKER = 'first-run';
const OPERATOR_EMAIL = 'operator@localhost';
const ACCOUNT_NAME = 'My account';

export interface FirstRun {
  accountId: string;
  /** Live key with full scope. */
  apiKey: string;
  sandboxApiKey: string;
  /** Live. */
  smtpUsername: string;
  smtpPassword: string;
  sandboxSmtpUsername: string;
  sandboxSmtpPassword: string;
  operatorUserId: string;
  operatorEmail: string;
  /** Where the operator sets a password; valid once. */
  signInUrl: string;
  /** ISO time. */
  createdAt: string;
}

export function firstRunFile(directory: DataDirectory): string {
  return path.join(directory.path, 'first-run.json');
}

/** Generates the ids and secrets of a first run. */
function generateFirstRun(nowMs: number, baseUrl: string): FirstRun {
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
    signInUrl: linkOf(baseUrl, 'first-run', newSecret()),
    createdAt: new Date(nowMs).toISOString(),
  };
}

const FIELDS = Object.keys(generateFirstRun(0, 'http://localhost')) as (keyof FirstRun)[];

function readFirstRun(file: string): FirstRun {
  const text = readFileSync(file, 'utf8');
  try {
    const found = JSON.parse(text) as Record<string, unknown>;
    if (FIELDS.every((field) => typeof found[field] === 'string')) return found as unknown as FirstRun;
  } catch {
    // Text that is not JSON is reported like JSON without the fields.
  }
  throw new Error(
    `${file} is not a valid first-run file; move it to another folder and restart Postrider to create new credentials`,
  );
}

const secretOf = ({ signInUrl }: FirstRun): string => new URL(signInUrl).hash.slice('#token='.length);

function writeFirstRun(directory: DataDirectory, first: FirstRun): void {
  writeDurableFile(firstRunFile(directory), `${JSON.stringify(first, null, 2)}\n`);
}

/** Writes the sign-in link again with this base URL, because a port that the system chooses is known only later; returns the result. */
export function moveFirstRun(directory: DataDirectory, first: FirstRun, baseUrl: string): FirstRun {
  const moved = { ...first, signInUrl: linkOf(baseUrl, 'first-run', secretOf(first)) };
  writeFirstRun(directory, moved);
  return moved;
}

/** Builds the rows of a first run. */
async function rowsOf(generated: FirstRun, nowMs: number) {
  const { accountId } = generated;
  const createdAt = Date.parse(generated.createdAt);
  const keyRow = (apiKey: string, mode: 'live' | 'sandbox') => ({
    id: keyIdOf(apiKey),
    accountId,
    mode,
    scope: 'full' as const,
    name: 'Default key',
    createdAt,
    secretHash: apiKeyHash(apiKey),
  });
  const credentialRow = async (mode: 'live' | 'sandbox', username: string, password: string) => ({
    id: username,
    accountId,
    mode,
    username,
    createdAt,
    passwordHash: await hashPassword(password),
  });
  const userId = generated.operatorUserId;
  return {
    marker: MARKER,
    account: { ...newAccount(ACCOUNT_NAME, 'enterprise', createdAt), id: accountId },
    keys: [keyRow(generated.apiKey, 'live'), keyRow(generated.sandboxApiKey, 'sandbox')],
    credentials: await Promise.all([
      credentialRow('live', generated.smtpUsername, generated.smtpPassword),
      credentialRow('sandbox', generated.sandboxSmtpUsername, generated.sandboxSmtpPassword),
    ]),
    user: { id: userId, email: generated.operatorEmail, emailVerified: 0, isOperator: 1, createdAt },
    token: { ...tokenRow(secretOf(generated), { purpose: 'first-run', byMail: false, nowMs }), userId },
  };
}

/**
 * The first start: creates an operator, an account (plan enterprise) that the operator owns, with a live and a sandbox key, and a live and
 * a sandbox SMTP credential. They are generated, written to `first-run.json` (mode 0600, synced), and then committed together with a mark
 * that the first run is done. A crash in between leaves a file without rows; the next start commits the credentials in that file, so they
 * are neither lost nor duplicated. If several nodes start together, one does it, and the others keep no file. The file is never part of a
 * backup, and a restored database has the mark.
 *
 * Returns the credentials to print, or undefined if the first run was already done.
 */
export async function firstRun(
  context: Context & { directory: DataDirectory; baseUrl: string },
): Promise<FirstRun | undefined> {
  const { database, clock, directory, baseUrl } = context;
  if ((await database.execute(metaOperation, MARKER)) !== null) return undefined;
  const file = firstRunFile(directory);
  if (!existsSync(file)) writeFirstRun(directory, generateFirstRun(clock.now(), baseUrl));
  const generated = readFirstRun(file);
  const changes = changedBy(database, systemOrigin(clock.now()));
  if (await changes.execute(firstRunOperation, await rowsOf(generated, clock.now()))) return generated;
  // Another node was first, so these credentials are not valid; unless this node committed them, and only the reply was lost.
  if ((await database.execute(accountOperation, generated.accountId)) === null) rmSync(file);
  return undefined;
}
