/**
 * How many uploads may be under way in this process: a few for each file, since one URL may be used by many connections at
 * once; a part of all for each account, so that an account that lets connections stall takes the service from nobody else; and
 * so many in all that other requests keep their share of it.
 */
import { failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';

export interface UploadLimits {
  perFile: number;
  /** Both modes of an account together. */
  perAccount: number;
  total: number;
}

/** In all, half of the requests that the service works on at once. */
export const UPLOAD_LIMITS: UploadLimits = { perFile: 8, perAccount: 100, total: 500 };
const RETRY_AFTER_SECONDS = 5;

export interface UploadKey {
  accountId: string;
  submissionId: string;
  number: number;
}

export interface UploadLimiter {
  /** Admits one more upload of this file; the value releases it again, and is to be called once. OVERLOADED otherwise. */
  acquire(key: UploadKey): Result<() => void>;
}

export function createUploadLimiter(limits: UploadLimits = UPLOAD_LIMITS): UploadLimiter {
  const { perFile, perAccount, total } = limits;
  const counts = new Map<string, number>();
  const countOf = (name: string): number => counts.get(name) ?? 0;
  const add = (name: string, change: number): void => {
    const count = countOf(name) + change;
    if (count === 0) counts.delete(name);
    else counts.set(name, count);
  };
  return {
    acquire: ({ accountId, submissionId, number }) => {
      const bounds: [name: string, most: number, message: string][] = [
        [
          `${submissionId} ${number}`,
          perFile,
          `This file is being uploaded ${perFile} times at this moment; wait for one of the uploads to end.`,
        ],
        [
          accountId,
          perAccount,
          `${perAccount} files of this account are being uploaded at this moment; upload this one when one of them has ended.`,
        ],
        [
          'all',
          total,
          'The service is at work on as many uploads as it takes at once, and has kept nothing; upload the file again.',
        ],
      ];
      for (const [name, most, message] of bounds) {
        if (countOf(name) >= most)
          return refuse(failure('OVERLOADED', { message, retryAfterSeconds: RETRY_AFTER_SECONDS }));
      }
      for (const [name] of bounds) add(name, 1);
      return ok(() => {
        for (const [name] of bounds) add(name, -1);
      });
    },
  };
}
