/** Planted bugs in reads and writes of the disk. */
import type { Planted } from './planted.ts';

export const PLANTED_DISK: Readonly<Record<string, Planted>> = {
  'damaged mail that came in is read again and again': {
    seed: 204,
    file: 'inbound/worker.ts',
    find: 'if (error instanceof BlobDamaged || job.attempts >= MOST_RETRIES)',
    replace: 'if (job.attempts < 0)',
    finds: /not come to its end/,
  },
  'a new folder is not synced in its parent': {
    seed: 4,
    file: 'storage/blobs/disk.ts',
    find: 'const named = syncFolder(syncs, folder).catch(refuse);',
    replace: 'const named = Promise.resolve();',
    finds: /is named by a row, and gone/,
  },
  'nobody waits for the name of a folder': {
    seed: 2,
    file: 'storage/blobs/disk.ts',
    find: '    named.catch(() => undefined);\n',
    replace: '',
    finds: /^thrown: Unavailable: blob storage/,
  },
};
