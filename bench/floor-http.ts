/**
 * Floors for POST /send in one process: `bare` checks a key and a body and answers; `sqlite-tick` also stores the body
 * in one row, with one transaction and sync for all requests of a turn of the event loop; `pg-group` stores what waits in
 * one statement of many rows, two of them under way at a time.
 *   node bench/floor-http.ts bare|sqlite-tick PORT FOLDER
 *   node bench/floor-http.ts pg-group PORT postgres://…
 */
import crypto from 'node:crypto';
import http from 'node:http';
import { DatabaseSync } from 'node:sqlite';

const [mode, port, folder] = process.argv.slice(2);
const hash = (text: string): string => crypto.hash('sha256', text, 'base64');
const keys = new Set([hash('bench-key-0123456789')]);
type Body = { from: unknown; to: unknown; subject: unknown };
const text = (value: unknown, limit: number): boolean => typeof value === 'string' && value.length <= limit;
const valid = (body: Body | undefined): boolean =>
  body !== undefined &&
  text(body.from, 320) &&
  (text(body.to, 320) || Array.isArray(body.to)) &&
  text(body.subject, 998);

type Store = (raw: Buffer, done: () => void) => void;

function sqliteTick(): Store {
  const db = new DatabaseSync(`${folder}/floor.db`);
  db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;
    CREATE TABLE message(id TEXT PRIMARY KEY, at INTEGER, account INTEGER, state INTEGER, sender TEXT, body BLOB) WITHOUT ROWID;
    CREATE INDEX due ON message(state, at);`);
  const insert = db.prepare('INSERT INTO message VALUES (?, ?, 1, 0, ?, ?)');
  let waiting: [Buffer, () => void][] = [];
  const flush = (): void => {
    const group = waiting;
    waiting = [];
    db.exec('BEGIN');
    for (const [raw] of group) {
      const id = Date.now().toString(36) + crypto.randomBytes(8).toString('hex');
      insert.run(id, Date.now(), 'orders@bench.example', raw);
    }
    db.exec('COMMIT');
    for (const [, done] of group) done();
  };
  return (raw, done) => {
    waiting.push([raw, done]);
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
  let waiting: [Buffer, () => void][] = [];
  let flying = 0;
  const pump = async (): Promise<void> => {
    if (flying >= 2 || waiting.length === 0) return;
    flying += 1;
    const group = waiting;
    waiting = [];
    const now = Date.now();
    const values = [
      group.map(() => now.toString(36) + crypto.randomBytes(8).toString('hex')),
      group.map(() => now),
      group.map(() => 1),
      group.map(() => 0),
      group.map(() => 'orders@bench.example'),
      group.map(([raw]) => raw),
    ];
    await pool.query({ name: 'group', text, values });
    flying -= 1;
    void pump();
    for (const [, done] of group) done();
  };
  return (raw, done) => {
    waiting.push([raw, done]);
    setImmediate(pump);
  };
}

async function storeOf(): Promise<Store> {
  if (mode === 'sqlite-tick') return sqliteTick();
  if (mode === 'pg-group') return pgGroup();
  return (_raw, done) => done();
}

const store = await storeOf();
http
  .createServer((request, response) => {
    if (request.url !== '/send' || !keys.has(hash(String(request.headers['x-api-key'])))) {
      response.writeHead(401).end();
      return;
    }
    const parts: Buffer[] = [];
    request.on('data', (data) => parts.push(data));
    request.on('end', () => {
      const raw = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
      if (!valid(JSON.parse(raw.toString()))) {
        response.writeHead(400).end();
        return;
      }
      store(raw, () => {
        const answer = '{"id":"0123456789abcdef0123456789"}';
        response.writeHead(202, { 'content-type': 'application/json', 'content-length': answer.length });
        response.end(answer);
      });
    });
  })
  .listen(Number(port), '127.0.0.1');
