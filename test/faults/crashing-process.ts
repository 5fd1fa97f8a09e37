/**
 * A delivery in a separate process in which signing the mail of one account kills the process, or hangs it. Started by
 * crash-parking.long.test.ts as `node crashing-process.ts <data directory> <relay port> <kill|hang>`; prints `serving` and `hanging` to
 * stdout.
 */
import { writeSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { startDelivery } from '../../src/delivery/delivery.ts';
import { openDns } from '../../src/net/dns.ts';
import { openSourceAddresses } from '../../src/net/source-addresses.ts';
import { openDiskBlobs } from '../../src/storage/blobs/disk.ts';
import { dataDirectory } from '../../src/storage/data-directory.ts';
import { openSqliteDatabase } from '../../src/storage/sqlite/database.ts';
import { recoverOperation } from '../../src/work/work.ts';

const [folder = '', port = '', deadly = ''] = process.argv.slice(2);
const database = await openSqliteDatabase({
  file: dataDirectory(folder).databaseFile,
  operationsModule: new URL('../../src/roles/operations.ts', import.meta.url).href,
  log: silentLog,
  onBroken: (reason) => {
    throw new Error(reason);
  },
});
await database.execute(recoverOperation, systemClock.now());

startDelivery({
  database,
  blobs: openDiskBlobs(path.join(folder, 'rig-blobs')),
  clock: systemClock,
  log: silentLog,
  routing: {
    route: { kind: 'relay', relay: { host: '127.0.0.1', port: Number(port), implicitTls: false } },
    dns: openDns({ servers: [], timeoutMs: 500 }),
    mxPort: 25,
    mxAllow: [],
    own: { name: 'postrider.test', addresses: [], hasRoutes: async () => false, inbound: () => undefined },
    sources: openSourceAddresses([]),
  },
  hostname: 'postrider.test',
  keysFor: async (accountId) => {
    if (accountId !== 'acc_guilty') return undefined;
    if (deadly === 'kill') process.kill(process.pid, 'SIGKILL');
    writeSync(1, 'hanging\n');
    for (;;);
  },
  pollMs: 20,
  quarantineAfterMs: 6_000,
});
writeSync(1, 'serving\n');
