/** A clock that a test sets for real programs: libfaketime reads its offset from a file at every call. */
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export interface SetClock {
  /** For the program's environment. */
  env: Record<string, string>;
  /** The time that it shows, in Unix ms. */
  now(): number;
  /** Moves it ahead. */
  advance(ms: number): void;
}

/** Debian's path; the loader replaces $LIB by the machine's library directory. */
const LIBRARY = '/usr/$LIB/faketime/libfaketimeMT.so.1';

/**
 * Starts with the current time. With `monotonic`, timers and uptimes follow as if that much time had passed; otherwise they are not
 * affected.
 */
export function setClock(folder: string, options: { monotonic?: boolean } = {}): SetClock {
  const file = path.join(folder, 'clock');
  let offsetMs = 0;
  const write = (): void => {
    writeFileSync(`${file}.next`, `+${(offsetMs / 1000).toFixed(3)}\n`, { mode: 0o644 });
    renameSync(`${file}.next`, file);
  };
  write();
  return {
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      ...(options.monotonic ? {} : { FAKETIME_DONT_FAKE_MONOTONIC: '1' }),
    },
    now: () => Date.now() + offsetMs,
    advance: (ms) => {
      offsetMs += ms;
      write();
    },
  };
}
