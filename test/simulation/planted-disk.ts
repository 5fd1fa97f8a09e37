/** Planted bugs of what is written to the disk, and of what is read from it. */
import type { Planted } from './planted.ts';

export const PLANTED_DISK: Readonly<Record<string, Planted>> = {
  'damaged mail that came in is read again and again': {
    file: 'inbound/worker.ts',
    find: 'if (error instanceof BlobDamaged || job.attempts >= MOST_RETRIES)',
    replace: 'if (job.attempts >= MOST_RETRIES)',
  },
};
