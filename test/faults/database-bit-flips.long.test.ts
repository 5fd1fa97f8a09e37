/**
 * Flips one bit of the database file or of its write-ahead log before a start. The start fails with a message, or the process exits with
 * one once it reads the damage, or every acknowledged message is present. Postrider never loses mail silently.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { type Service, startService } from '../kit/start-service.ts';
import { allMessages } from './ledger.ts';

const SENDS = 60;
/** Positions of the flips, as shares of the file: its header, its schema, and the rest. */
const PLACES = [0.0001, 0.002, 0.01, 0.1, 0.23, 0.37, 0.5, 0.61, 0.74, 0.88, 0.97];

/** A data directory with queued messages, and the ids of the acknowledged ones. */
async function filled(t: { after(run: () => void): void }, signal: 'SIGKILL' | 'SIGTERM') {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-flips-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const service = await startService({ dataDir });
  const sendAt = new Date(Date.now() + 3_600_000).toISOString();
  const acknowledged: string[] = [];
  for (let at = 0; at < SENDS; at += 1) {
    const body = { from: 'a@x.example', to: 'b@x.example', subject: `s${at}`, text: 'x'.repeat(2_000), sendAt };
    const answer = await service.sandboxApi.post('/send', body);
    assert.equal(answer.status, 202);
    acknowledged.push(answer.body.data.messageId);
  }
  await service.kill(signal);
  return { dataDir, acknowledged };
}

/** The result of a start with this byte changed. */
async function startedWith(dataDir: string, { file, place }: { file: string; place: number }) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-flip-'));
  let service: Service | undefined;
  try {
    cpSync(dataDir, folder, { recursive: true });
    const damaged = path.join(folder, file);
    const bytes = readFileSync(damaged);
    const at = Math.floor(place * bytes.length);
    bytes[at]! ^= 1 << (at % 8);
    writeFileSync(damaged, bytes);
    service = await startService({ dataDir: folder });
    const stored = await allMessages(service.sandboxApi).catch(() => undefined);
    return { stored: stored?.map((one) => one.messageId), said: service.log };
  } catch (error) {
    return { stored: undefined, said: (error as Error).message };
  } finally {
    await service?.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const [file, signal] of [
  ['postrider.db', 'SIGTERM'],
  ['postrider.db-wal', 'SIGKILL'],
] as const)
  test(`bits of ${file}`, { timeout: 600_000 }, async (t) => {
    const { dataDir, acknowledged } = await filled(t, signal);
    assert.ok(statSync(path.join(dataDir, file)).size > 100_000);
    for (const place of PLACES) {
      const { stored, said } = await startedWith(dataDir, { file, place });
      if (stored) {
        const lost = acknowledged.filter((id) => !stored.includes(id));
        assert.deepEqual(lost, [], `${lost.length} are gone at ${place}, and it is served`);
      } else assert.match(said, /is damaged|not what it should be|newer version/);
      t.diagnostic(`${place}: ${stored ? 'all is there' : said.slice(0, 300)}`);
    }
  });
