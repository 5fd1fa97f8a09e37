/** Planted bugs of what is written to the disk, and of what is read from it. */
import type { Planted } from './planted.ts';

export const PLANTED_DISK: Readonly<Record<string, Planted>> = {
  'damaged mail that came in is read again and again': {
    file: 'inbound/worker.ts',
    find: 'if (error instanceof BlobDamaged || job.attempts >= MOST_RETRIES)',
    replace: 'if (job.attempts < 0)',
    seed: 204,
  },
  'a new folder is not synced in its parent': {
    file: 'storage/blobs/disk.ts',
    find: 'const named = syncFolder(syncs, folder).catch(refuse);',
    replace: 'const named = Promise.resolve();',
  },
  'a sync of content that failed is passed over': {
    file: 'storage/blobs/disk.ts',
    find: 'await syncs.run(() => file.datasync());\n      } finally {\n        await file.close();\n      }\n      await named;',
    replace:
      'await file.datasync().catch(() => undefined);\n      } finally {\n        await file.close();\n      }\n      await named;',
  },
  'nobody waits for the name of a folder': {
    file: 'storage/blobs/disk.ts',
    find: '    named.catch(() => undefined);\n',
    replace: '',
  },
};
