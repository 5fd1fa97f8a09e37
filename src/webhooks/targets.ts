/**
 * Where requests go and with which keys they are signed. Opening a sealed secret costs more than signing with it, so that
 * opened keys are kept as long as the sealed ones in the database are the same.
 */
import { open } from '../base/seal.ts';
import { sealContext } from './endpoints.ts';
import { secretKeyOf } from './sign.ts';
import type { EndpointTarget } from './store.ts';

const KEPT = 20_000;

export interface Target {
  url: string;
  /** Keys that sign at this time, the current one first. */
  keys(nowMs: number): readonly Buffer[];
}

interface Kept extends Target {
  row: EndpointTarget;
}

export type Targets = (row: EndpointTarget) => Target;

/** The key of a sealed secret; throws when it was sealed with another secret key. */
function openKey(secretKey: Uint8Array, webhookId: string, sealed: Uint8Array): Buffer {
  const key = secretKeyOf(open(secretKey, sealed, sealContext(webhookId)).toString('utf8'));
  if (!key) throw new Error(`the sealed secret of ${webhookId} is none of the form whsec_…`);
  return key;
}

function isSame(a: EndpointTarget, b: EndpointTarget): boolean {
  return (
    a.url === b.url &&
    a.previous_secret_until === b.previous_secret_until &&
    Buffer.compare(a.secret_sealed, b.secret_sealed) === 0
  );
}

export function createTargets(secretKey: Uint8Array): Targets {
  const kept = new Map<string, Kept>();
  return (row) => {
    const known = kept.get(row.id);
    if (known && isSame(known.row, row)) return known;
    const current = openKey(secretKey, row.id, row.secret_sealed);
    const alone = [current];
    const both = row.previous_secret_sealed ? [current, openKey(secretKey, row.id, row.previous_secret_sealed)] : alone;
    const made: Kept = {
      row,
      url: row.url,
      keys: (nowMs) => (nowMs < (row.previous_secret_until ?? 0) ? both : alone),
    };
    kept.set(row.id, made);
    if (kept.size > KEPT) kept.delete(kept.keys().next().value as string);
    return made;
  };
}
