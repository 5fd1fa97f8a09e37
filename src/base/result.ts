/**
 * An expected outcome as a value: either what was asked for, or the refusal that explains why not. Nothing here throws;
 * exceptions are kept for bugs and broken infrastructure.
 */
import type { Failure } from './failure.ts';

export type Result<T> = { ok: true; value: T } | { ok: false; failure: Failure };

export function ok<T>(value: T): { ok: true; value: T } {
  return { ok: true, value };
}

export function refuse(failure: Failure): { ok: false; failure: Failure } {
  return { ok: false, failure };
}
