/**
 * The database that every simulated world begins with, made once in a process: an account with its keys, a domain it sends from,
 * and an endpoint for its events. Triggers that only simulations have write down every change of a message's state.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createAccount, createSmtpCredential } from '../../src/accounts/accounts.ts';
import { systemOrigin } from '../../src/audit/audit.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { addDomain } from '../../src/domains/domains.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import { migrateSqlite } from '../../src/storage/migrate.ts';
import { openDirect, openSqlite } from '../../src/storage/sqlite/connection.ts';
import '../../src/roles/operations.ts';
import { openTlsIdentity } from '../../src/smtp/smtp.ts';

/** An account with a key of one mode, and the domain it sends from. */
export interface Tenant {
  accountId: string;
  apiKey: string;
  domain: string;
}

export interface Template {
  folder: string;
  databaseFile: string;
  secretKey: Buffer;
  /** Who sends most of the mail, who floods, and the first one's sandbox. */
  tenants: { shop: Tenant; flood: Tenant; sandbox: Tenant };
  /** Of the shop. */
  smtp: { username: string; password: string };
}

export const SENDER_DOMAIN = 'shop.example';

/** What the oracle knows of the states of messages; `synchronous` says what the storage would keep of it. */
const WITNESS = `
  CREATE TABLE simulated_change (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, before TEXT, after TEXT NOT NULL);
  CREATE TRIGGER simulated_insert AFTER INSERT ON message BEGIN
    INSERT INTO simulated_change (id, before, after) VALUES (new.id, NULL, new.status);
  END;
  CREATE TRIGGER simulated_update AFTER UPDATE OF status ON message WHEN old.status <> new.status BEGIN
    INSERT INTO simulated_change (id, before, after) VALUES (new.id, old.status, new.status);
  END;`;

/** Where files cost no disk, if the machine has such a place. */
export const scratchFolder = (base: string): string => mkdtempSync(path.join(base, 'postrider-simulation-'));

export async function makeTemplate(base: string): Promise<Template> {
  const folder = scratchFolder(base);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const { databaseFile } = dataDirectory(folder);
  const migrating = openSqlite(databaseFile, { readOnly: false });
  migrateSqlite(migrating, Date.now());
  migrating.raw.exec(WITNESS);
  migrating.close();
  const database = openDirect(databaseFile);
  const secretKey = Buffer.alloc(32, 7);
  const context = { database, clock: systemClock };
  const tenantOf = async (name: string, domain: string) => {
    const { account, apiKey, sandboxApiKey } = await createAccount(context, { name, plan: 'enterprise' });
    const accountId = account.id;
    const by = systemOrigin(Date.now(), accountId);
    const added = await addDomain({ ...context, secretKey, by }, { accountId, domain, verified: true });
    if (!added.ok) throw new Error('the domain was refused');
    const of = (key: string): Tenant => ({ accountId, apiKey: key, domain });
    return { live: of(apiKey), sandbox: of(sandboxApiKey) };
  };
  const { live: shop, sandbox } = await tenantOf('Shop', SENDER_DOMAIN);
  const { live: flood } = await tenantOf('Flood', 'flood.example');
  const credential = await createSmtpCredential(context, { accountId: shop.accountId, mode: 'live' });
  if (!credential.ok) throw new Error('the credential was refused');
  const hostname = 'mail.postrider.example';
  await openTlsIdentity({ files: undefined, folder, hostname, clock: systemClock, log: silentLog }).stop();
  await database.close();
  const { username, password } = credential.value;
  return { folder, databaseFile, secretKey, tenants: { shop, flood, sandbox }, smtp: { username, password } };
}
