/** Planted bugs in reads and writes of the disk. */
import type { Planted } from './planted.ts';

export const PLANTED_DISK: Readonly<Record<string, Planted>> = {
  'corrupt inbound mail is parsed forever': {
    file: 'inbound/worker.ts',
    find: 'if (error instanceof BlobDamaged || error instanceof ContentMissing || job.attempts >= MOST_RETRIES)',
    replace: 'if (job.attempts < 0)',
    finds: /not come to its end/,
  },
  'a new directory is not synced in its parent': {
    file: 'storage/blobs/disk.ts',
    find: 'const parentSynced = syncFolder(syncs, folder).catch(throwUnavailable);',
    replace: 'const parentSynced = Promise.resolve();',
    finds: /is named by a row, and gone/,
  },
  'the sync of a directory is not awaited': {
    file: 'storage/blobs/disk.ts',
    find: '    parentSynced.catch(() => undefined);\n',
    replace: '',
    finds: /^thrown: Unavailable: blob storage/,
  },
};
