/**
 * How many uploads may be under way in this process: a few for each file, since one URL may be used by many connections at
 * once, and so many in all that other requests keep their share of the service.
 */
import { type Failure, failure } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';

const PER_FILE = 8;
/** Half of the requests that the service works on at once. */
const IN_ALL = 500;

export interface UploadGate {
  /** Lets one more upload of this file in; the value lets it out again. */
  enter(file: string): Result<() => void>;
}

export function createUploadGate(): UploadGate {
  const inside = new Map<string, number>();
  let inAll = 0;
  return {
    enter: (file) => {
      const before = inside.get(file) ?? 0;
      if (before >= PER_FILE) return refuse(tooManyOfFile());
      if (inAll >= IN_ALL) return refuse(failure('OVERLOADED'));
      inside.set(file, before + 1);
      inAll += 1;
      return ok(() => {
        const left = (inside.get(file) ?? 1) - 1;
        if (left === 0) inside.delete(file);
        else inside.set(file, left);
        inAll -= 1;
      });
    },
  };
}

function tooManyOfFile(): Failure {
  return failure('RATE_LIMITED', {
    message: `This file is being uploaded ${PER_FILE} times at this moment; wait for one of the uploads to end.`,
    retryAfterSeconds: 5,
  });
}
