/**
 * When a node of ours was dead, stood still or was out of touch with its database, and what that excuses: of the node itself, and of
 * nothing that another one did. A node that stands still for less than its leases last loses nothing: it is not excused.
 */
import type { Process } from './timeline.ts';

/** Of one process, virtual ms; a death is a moment. */
export interface Absence {
  fromMs: number;
  untilMs: number;
  /** Its leases outlive it: nobody takes over what it holds. */
  isShort?: boolean;
}

/** From an answer to its record, with a database that takes its time or refuses. */
export const RECORD_MS = 35_000;
/** The same with a file of the node's own, whose disk stalls now and then. */
export const OWN_RECORD_MS = 2_500;
/** Until a node that is back has read what the others wrote. */
const READ_MS = 8_000;

export function absent(process: Process, absence: Absence): void {
  process.absences ??= [];
  process.absences.push(absence);
}

/** Whether what the process learned at that time may never have been recorded. */
export function mayBeLost(process: Process | undefined, atMs: number, recordMs = RECORD_MS): boolean {
  const covers = ({ fromMs, untilMs, isShort }: Absence): boolean =>
    !isShort && atMs > fromMs - recordMs && atMs <= untilMs;
  return process?.absences?.some(covers) ?? false;
}

/** Whether something that the process began and ended between two times may never have been recorded. */
export function mayBeLostBetween(
  process: Process | undefined,
  { fromMs, untilMs }: { fromMs: number; untilMs: number },
  recordMs = RECORD_MS,
): boolean {
  const covers = (one: Absence): boolean => !one.isShort && one.fromMs < untilMs + recordMs && one.untilMs >= fromMs;
  return process?.absences?.some(covers) ?? false;
}

/** Whether the process may not have known at that time what the others wrote, or could not write what it knew. */
export function isOutOfTouch(process: Process | undefined, atMs: number): boolean {
  const covers = ({ fromMs, untilMs }: Absence): boolean => atMs > fromMs - READ_MS && atMs <= untilMs + READ_MS;
  return process?.absences?.some(covers) ?? false;
}
