/**
 * The initial database of every scenario, created once per process: an account with its keys, a sending domain, and an endpoint for
 * its events. Triggers that only exist in simulations record every change of a message's state.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import { createAccount, createSmtpCredential } from '../../src/accounts/accounts.ts';
import { systemOrigin } from '../../src/audit/audit.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { addDomain } from '../../src/domains/domains.ts';
import { openDatabase } from '../../src/roles/open-database.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import type { Database } from '../../src/storage/database.ts';
import { migrateSqlite } from '../../src/storage/migrate.ts';
import { openDirect, openSqlite } from '../../src/storage/sqlite/connection.ts';
import '../../src/roles/operations.ts';
import { openTlsIdentity } from '../../src/smtp/smtp.ts';
import { LEASED } from '../../src/work/enqueue.ts';
import { type SharedEngine, serverOf } from './cluster.ts';
import { DATABASE_ADDRESS, DATABASE_URL, databaseLink } from './database-server.ts';
import { here } from './globals.ts';
import { seededRandom } from './random.ts';

/** An account with a key of one mode, and its sending domain. */
export interface Tenant {
  accountId: string;
  apiKey: string;
  domain: string;
}

/** A DKIM record: its selector and its text. */
export interface SigningKey {
  selector: string;
  value: string;
}

export interface Template {
  folder: string;
  databaseFile: string;
  secretKey: Buffer;
  /** The main sender, the flooding one, and the main sender's sandbox. */
  tenants: { shop: Tenant; flood: Tenant; sandbox: Tenant };
  /** The keys of the shop's domain, RSA first. */
  signing: readonly SigningKey[];
  /** Credential of the shop. */
  smtp: { username: string; password: string };
  /** For scenarios with several nodes: the database server in its initial state. */
  engine: SharedEngine | undefined;
}

export const SENDER_DOMAIN = 'shop.example';

/**
 * Records the states of messages, and which work gained a crash although it only waited and already had one;
 * `synchronous` determines what the storage keeps after a power cut.
 */
const WITNESS = `
  CREATE TABLE simulated_crash (seq INTEGER PRIMARY KEY, subject TEXT NOT NULL);
  CREATE TRIGGER simulated_crash AFTER UPDATE OF crashes ON work
  WHEN old.crashes > 0 AND old.leased = ${LEASED.taken} AND new.crashes > old.crashes BEGIN
    INSERT INTO simulated_crash (subject) VALUES (new.subject);
  END;
  CREATE TABLE simulated_change (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, before TEXT, after TEXT NOT NULL);
  CREATE TRIGGER simulated_insert AFTER INSERT ON message BEGIN
    INSERT INTO simulated_change (id, before, after) VALUES (new.id, NULL, new.status);
  END;
  CREATE TRIGGER simulated_update AFTER UPDATE OF status ON message WHEN old.status <> new.status BEGIN
    INSERT INTO simulated_change (id, before, after) VALUES (new.id, old.status, new.status);
  END;`;

/** A folder in memory, if the machine has one. */
export const scratchFolder = (base: string): string => mkdtempSync(path.join(base, 'postrider-simulation-'));

/** The same for PostgreSQL. */
const SHARED_WITNESS = `
  -- What the oracle asks of SQLite by this name: whether something is true there.
  CREATE FUNCTION json_extract(content TEXT, path TEXT) RETURNS INTEGER LANGUAGE sql AS $$
    SELECT CASE content::jsonb #>> string_to_array(substr(path, 3), '.') WHEN 'true' THEN 1 END
  $$;
  CREATE TABLE simulated_crash (seq BIGSERIAL PRIMARY KEY, subject TEXT NOT NULL);
  CREATE FUNCTION simulated_crash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO simulated_crash (subject) VALUES (new.subject);
    RETURN NULL;
  END $$;
  CREATE TRIGGER simulated_crash AFTER UPDATE OF crashes ON work FOR EACH ROW
    WHEN (old.crashes > 0 AND old.leased = ${LEASED.taken} AND new.crashes > old.crashes) EXECUTE FUNCTION simulated_crash();
  CREATE TABLE simulated_change (seq BIGSERIAL PRIMARY KEY, id TEXT NOT NULL, before TEXT, after TEXT NOT NULL);
  CREATE FUNCTION simulated_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO simulated_change (id, before, after)
      VALUES (new.id, CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE old.status END, new.status);
    RETURN NULL;
  END $$;
  CREATE TRIGGER simulated_insert AFTER INSERT ON message FOR EACH ROW EXECUTE FUNCTION simulated_change();
  CREATE TRIGGER simulated_update AFTER UPDATE OF status ON message FOR EACH ROW
    WHEN (old.status <> new.status) EXECUTE FUNCTION simulated_change();`;

/** With the product's own code, over a network without faults. */
async function openShared(engine: SharedEngine): Promise<Database> {
  const fail = (what: string): never => {
    throw new Error(what);
  };
  const { network } = here();
  const random = seededRandom('shared template');
  serverOf(engine, { network, random, faults: { stalls: 0 }, count: () => undefined, onFault: fail });
  network.links.set(DATABASE_ADDRESS, databaseLink(random));
  const options = { config: { databaseUrl: DATABASE_URL }, directory: { path: '', databaseFile: '', blobsFolder: '' } };
  const database = await openDatabase({ ...options, clock: systemClock, log: silentLog, onBroken: fail });
  engine.run(SHARED_WITNESS);
  return database;
}

function openOwn(databaseFile: string): Database {
  const migrating = openSqlite(databaseFile, { readOnly: false });
  migrateSqlite(migrating, Date.now());
  migrating.raw.exec(WITNESS);
  migrating.close();
  return openDirect(databaseFile);
}

export async function makeTemplate(base: string, engine?: SharedEngine): Promise<Template> {
  const folder = scratchFolder(base);
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const { databaseFile } = dataDirectory(folder);
  const database = engine ? await openShared(engine) : openOwn(databaseFile);
  const secretKey = Buffer.alloc(32, 7);
  const context = { database, clock: systemClock };
  const tenantOf = async (name: string, domain: string) => {
    const { account, apiKey, sandboxApiKey } = await createAccount(context, { name, plan: 'enterprise' });
    const accountId = account.id;
    const by = systemOrigin(Date.now(), accountId);
    const added = await addDomain({ ...context, secretKey, by }, { accountId, domain, verified: true });
    if (!added.ok) throw new Error('the domain was refused');
    const of = (key: string): Tenant => ({ accountId, apiKey: key, domain });
    const keys = added.value.domain.keys.toSorted((a, b) => (a.algorithm > b.algorithm ? -1 : 1));
    const signing = keys.map(({ selector, publicKey: value }) => ({ selector, value }));
    return { live: of(apiKey), sandbox: of(sandboxApiKey), signing };
  };
  const { live: shop, sandbox, signing } = await tenantOf('Shop', SENDER_DOMAIN);
  const { live: flood } = await tenantOf('Flood', 'flood.example');
  const credential = await createSmtpCredential(context, { accountId: shop.accountId, mode: 'live' });
  if (!credential.ok) throw new Error('the credential was refused');
  const hostname = 'mail.postrider.example';
  await openTlsIdentity({ files: undefined, folder, hostname, clock: systemClock, log: silentLog }).stop();
  await database.close();
  if (engine) {
    await here().timeline.wait(1_000);
    engine.run('DISCARD ALL');
    engine.keep();
  }
  const { username, password } = credential.value;
  const tenants = { shop, flood, sandbox };
  return { folder, databaseFile, secretKey, tenants, signing, smtp: { username, password }, engine };
}
