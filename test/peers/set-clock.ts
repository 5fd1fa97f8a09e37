/** A clock that a test sets for real programs: libfaketime reads its offset from a file at every look. */
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export interface SetClock {
  /** For the program's environment. */
  env: Record<string, string>;
  /** What it shows, in Unix ms. */
  now(): number;
  /** Moves it ahead. */
  advance(ms: number): void;
}

/** Debian's place; the loader puts the machine's library folder in the place of $LIB. */
const LIBRARY = '/usr/$LIB/faketime/libfaketimeMT.so.1';

/** Begins with the time as it is. With `monotonic` timers and what else counts from a start go with it, as if so much time had passed; else they go on as they do. */
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
