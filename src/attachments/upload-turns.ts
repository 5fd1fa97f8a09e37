/**
 * Turns of uploads. However many are under way, only a few move bytes at the same time, each with memory of its own place:
 * memory stays flat, and files come through one after the other instead of all of them late. A place is held while its
 * client keeps it busy; whoever waits for a slow client gives it up (see Inflow), and so does, now and then, whoever
 * others wait for. Places are handed on in the order of asking: nobody starves, fast or slow.
 */
import { collectYoung } from '../base/collector.ts';

/** Uploads that move bytes at once: one less than the threads of Node's pool, so that other files and signatures find one. */
const PLACES = 3;
/** Bytes that are written at once: 29 MB cost 44 ms of processor time in such pieces, and 57 in those that a socket makes. */
const PIECE_BYTES = 512 * 1024;
/** How long a place is kept while others wait for one. A file of 29 MB needs less, where nothing is in its way. */
const TURN_MS = 250;

/**
 * After so many bytes the garbage is collected. Node makes a buffer of its own of every 64 KiB that a socket reads; V8 lets
 * them pile up until it has to go through the whole heap for them, for each file once: 105 ms of processor time for 29 MB,
 * against 37 ms so (86 ms with 8 MiB), and with 64 uploads at once 40 MB more of memory (bench/upload.ts, bench/large-memory.ts).
 */
const COLLECT_BYTES = 4 * 1024 * 1024;

/** Two pieces of memory: one is written while the other is filled. */
export type Memory = [present: Buffer, next: Buffer];

/** One upload's claim to a place. */
export interface Seat {
  /** Resolves with the memory of a place once there is one. Not to be called while a place is held. */
  take(): Promise<Memory>;
  /** Whether others wait for a place. */
  isWanted(): boolean;
  /** Whether the place has been held for long enough, seeing that others wait. */
  isTurnOver(): boolean;
  /** Told of bytes that came from the socket, with or without a place. */
  moved(bytes: number): void;
  /** Gives the place up; nothing when none is held. */
  leave(): void;
}

export interface UploadTurns {
  seat(): Seat;
}

export function createUploadTurns(places = PLACES): UploadTurns {
  const queue: ((memory: Memory) => void)[] = [];
  let spare: Memory[] = [];
  let taken = 0;
  let garbageBytes = 0;

  const moved = (bytes: number): void => {
    garbageBytes += bytes;
    if (garbageBytes < COLLECT_BYTES) return;
    garbageBytes = 0;
    collectYoung();
  };
  const take = (): Promise<Memory> => {
    if (taken >= places) return new Promise((resolve) => queue.push(resolve));
    taken += 1;
    return Promise.resolve(spare.pop() ?? [Buffer.allocUnsafeSlow(PIECE_BYTES), Buffer.allocUnsafeSlow(PIECE_BYTES)]);
  };
  const leave = (memory: Memory): void => {
    const next = queue.shift();
    if (next) {
      next(memory);
      return;
    }
    taken -= 1;
    // Memory is kept only as long as there are uploads.
    spare = taken === 0 ? [] : [...spare, memory];
  };

  return {
    seat: () => {
      let memory: Memory | undefined;
      let sinceMs = 0;
      return {
        take: async () => {
          memory = await take();
          sinceMs = performance.now();
          return memory;
        },
        moved,
        isWanted: () => queue.length > 0,
        isTurnOver: () => queue.length > 0 && performance.now() - sinceMs >= TURN_MS,
        leave: () => {
          const held = memory;
          memory = undefined;
          if (held) leave(held);
        },
      };
    },
  };
}
