/**
 * How many uploads may be under way in this process: a few for each file, since one URL may be used by many connections at
 * once; a part of the places for each account, so that whoever lets connections stall takes the service from nobody else; and
 * so many in all that other requests keep their share of it.
 */
import { type Failure, failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';

export interface UploadPlaces {
  ofFile: number;
  /** Both modes of an account together. */
  ofAccount: number;
  inAll: number;
}

/** In all, half of the requests that the service works on at once. */
export const UPLOAD_PLACES: UploadPlaces = { ofFile: 8, ofAccount: 100, inAll: 500 };
const RETRY_AFTER_SECONDS = 5;

export interface UploadedTo {
  accountId: string;
  submissionId: string;
  number: number;
}

export interface UploadGate {
  /** Lets one more upload of this file in; the value lets it out again, once. */
  enter(to: UploadedTo): Result<() => void>;
}

export function createUploadGate(places: UploadPlaces = UPLOAD_PLACES): UploadGate {
  const files = createCounts();
  const accounts = createCounts();
  let inAll = 0;
  return {
    enter: ({ accountId, submissionId, number }) => {
      const file = `${submissionId} ${number}`;
      if (files.of(file) >= places.ofFile) return refuse(tooManyOfFile(places));
      if (accounts.of(accountId) >= places.ofAccount) return refuse(tooManyOfAccount(places));
      if (inAll >= places.inAll) return refuse(tooManyInAll());
      files.add(file, 1);
      accounts.add(accountId, 1);
      inAll += 1;
      return ok(() => {
        files.add(file, -1);
        accounts.add(accountId, -1);
        inAll -= 1;
      });
    },
  };
}

/** Counts by name; a name without a count takes no room. */
function createCounts(): { of(name: string): number; add(name: string, change: number): void } {
  const counts = new Map<string, number>();
  const of = (name: string): number => counts.get(name) ?? 0;
  return {
    of,
    add: (name, change) => {
      const count = of(name) + change;
      if (count === 0) counts.delete(name);
      else counts.set(name, count);
    },
  };
}

function tooManyOfFile({ ofFile }: UploadPlaces): Failure {
  return failure('OVERLOADED', {
    message: `This file is being uploaded ${ofFile} times at this moment; wait for one of the uploads to end.`,
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function tooManyOfAccount({ ofAccount }: UploadPlaces): Failure {
  return failure('OVERLOADED', {
    message: `${ofAccount} files of this account are being uploaded at this moment; upload this one when one of them has ended.`,
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

function tooManyInAll(): Failure {
  return failure('OVERLOADED', {
    message:
      'The service is at work on as many uploads as it takes at once, and has kept nothing; upload the file again.',
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}
