/**
 * Baselines for POST /send in one process: `bare` checks a key, an account and a body, and returns a new id; `sqlite-tick` also stores the
 * body in a row, with one transaction and sync for all requests of a turn of the event loop; `pg-group` stores waiting bodies in one
 * statement with many rows, two of them at a time.
 *
 * node bench/floor-http.ts bare|sqlite-tick PORT FOLDER
 * node bench/floor-http.ts pg-group PORT postgres://…
 */
import crypto from 'node:crypto';
import http from 'node:http';
import { DatabaseSync } from 'node:sqlite';

const [mode, port, folder] = process.argv.slice(2);
const hash = (text: string): string => crypto.hash('sha256', text, 'base64');
const keys = new Set([hash('bench-key-0123456789')]);
type Body = Record<'from' | 'to' | 'subject' | 'text' | 'html', unknown>;
const text = (value: unknown, limit: number): boolean => typeof value === 'string' && value.length <= limit;
const part = (value: unknown): boolean => value === undefined || text(value, 1_000_000);
const valid = (body: Body | undefined): boolean =>
  body !== undefined &&
  text(body.from, 320) &&
  Array.isArray(body.to) &&
  body.to.length > 0 &&
  body.to.length <= 50 &&
  body.to.every((one) => text(one, 320)) &&
  text(body.subject, 998) &&
  part(body.text) &&
  part(body.html);

let made = 0;
/** Sorts by time, and cannot be guessed. */
function newId(): string {
  made = (made + 1) % 60_466_176;
  const time = Date.now().toString(36).padStart(9, '0') + made.toString(36).padStart(5, '0');
  return time + crypto.randomBytes(4).toString('hex');
}

type Store = (row: { id: string; sender: string; raw: Buffer }, done: () => void) => void;

function sqliteTick(): Store {
  const db = new DatabaseSync(`${folder}/floor.db`);
  db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;
    CREATE TABLE message(id TEXT PRIMARY KEY, at INTEGER, account INTEGER, state INTEGER, sender TEXT, body BLOB) WITHOUT ROWID;
    CREATE INDEX due ON message(state, at);`);
  const insert = db.prepare('INSERT INTO message VALUES (?, ?, 1, 0, ?, ?)');
  let waiting: [Parameters<Store>[0], () => void][] = [];
  const flush = (): void => {
    const group = waiting;
    waiting = [];
    db.exec('BEGIN');
    for (const [{ id, sender, raw }] of group) insert.run(id, Date.now(), sender, raw);
    db.exec('COMMIT');
    for (const [, done] of group) done();
  };
  return (row, done) => {
    waiting.push([row, done]);
    if (waiting.length === 1) setImmediate(flush);
  };
}

async function pgGroup(): Promise<Store> {
  const { default: pg } = await import('pg');
  const pool = new pg.Pool({ connectionString: folder!, max: 10 });
  await pool.query(`CREATE TABLE IF NOT EXISTS message(id text PRIMARY KEY, at bigint, account int, state int, sender text, body bytea);
    CREATE INDEX IF NOT EXISTS due ON message(state, at)`);
  const text =
    'INSERT INTO message SELECT * FROM unnest($1::text[],$2::bigint[],$3::int[],$4::int[],$5::text[],$6::bytea[])';
  let waiting: [Parameters<Store>[0], () => void][] = [];
  let flying = 0;
  const pump = async (): Promise<void> => {
    if (flying >= 2 || waiting.length === 0) return;
    flying += 1;
    const group = waiting;
    waiting = [];
    const now = Date.now();
    const values = [
      group.map(([{ id }]) => id),
      group.map(() => now),
      group.map(() => 1),
      group.map(() => 0),
      group.map(([{ sender }]) => sender),
      group.map(([{ raw }]) => raw),
    ];
    await pool.query({ name: 'group', text, values });
    flying -= 1;
    void pump();
    for (const [, done] of group) done();
  };
  return (row, done) => {
    waiting.push([row, done]);
    setImmediate(pump);
  };
}

async function storeOf(): Promise<Store> {
  if (mode === 'sqlite-tick') return sqliteTick();
  if (mode === 'pg-group') return pgGroup();
  return (_row, done) => done();
}

const store = await storeOf();
http
  .createServer((request, response) => {
    const { headers } = request;
    const known = keys.has(hash(String(headers['x-api-key']))) && headers['x-id'] === 'acct_1';
    if (request.method !== 'POST' || request.url !== '/send' || !known) {
      response.writeHead(401).end();
      return;
    }
    const parts: Buffer[] = [];
    request.on('data', (data) => parts.push(data));
    request.on('end', () => {
      const raw = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      const body = JSON.parse(raw.toString()) as Body & { from: string };
      if (!valid(body)) {
        response.writeHead(400).end();
        return;
      }
      const id = newId();
      store({ id, sender: body.from, raw }, () => {
        const answer = `{"id":"${id}"}`;
        response.writeHead(202, { 'content-type': 'application/json', 'content-length': answer.length });
        response.end(answer);
      });
    });
  })
  .listen(Number(port), '127.0.0.1');
