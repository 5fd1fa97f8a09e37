/** After the clock was set back: what is due too late comes nearer, but for what a user scheduled. */
import { DELIVERY_WORK } from '../messages/messages.ts';
import { operation } from '../storage/operation.ts';
import { type ClampDue, clampDue } from '../work/work.ts';

const NOT_BEFORE = `(SELECT coalesce(m.send_at, 0) FROM message m WHERE m.account_id = work.account_id
  AND m.mode = work.mode AND m.id = work.subject AND m.status IN ('queued', 'scheduled'))`;

/** Brings forward what is due later than its schedule can have said; answers how many. */
export const clampDueOperation = operation('delivery.clampDue', 'write', (tx, clamp: ClampDue) =>
  clampDue(tx, { kind: DELIVERY_WORK, notBefore: NOT_BEFORE }, clamp),
);
