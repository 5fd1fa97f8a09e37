/**
 * When a node was dead, paused or disconnected from its database, and what that excuses: failures of the node itself, but not of other
 * nodes. A node that is paused for less than the duration of its leases loses nothing and is not excused.
 */
import type { Process } from './timeline.ts';

/** An absence of one process, virtual ms; a death is a moment. */
export interface Absence {
  fromMs: number;
  untilMs: number;
  /** Its leases outlive the absence: no node takes over its work. */
  isShort?: boolean;
}

/** Maximum time from a reply to its record, with a database that stalls or refuses. */
export const RECORD_MS = 35_000;
/** The same for a node with its own database file, whose disk stalls occasionally. */
export const OWN_RECORD_MS = 2_500;
/** Time until a returning node has read what the others wrote. */
const READ_MS = 8_000;

export function absent(process: Process, absence: Absence): void {
  process.absences ??= [];
  process.absences.push(absence);
}

/** Whether what the process learned at that time may not have been recorded. */
export function mayBeLost(process: Process | undefined, atMs: number, recordMs = RECORD_MS): boolean {
  const covers = ({ fromMs, untilMs, isShort }: Absence): boolean =>
    !isShort && atMs > fromMs - recordMs && atMs <= untilMs;
  return process?.absences?.some(covers) ?? false;
}

/** Whether something that the process started and ended between two times may not have been recorded. */
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
