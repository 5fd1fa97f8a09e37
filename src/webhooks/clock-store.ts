/** After the clock was set back: what is due too late comes nearer. */
import { WEBHOOK_WORK } from '../events/events.ts';
import { operation } from '../storage/operation.ts';
import { type ClampDue, clampDue } from '../work/work.ts';

/** Brings forward what is due later than its schedule can have said; answers how many. */
export const clampDueOperation = operation('webhooks.clampDue', 'write', (tx, clamp: ClampDue) =>
  clampDue(tx, { kind: WEBHOOK_WORK, notBefore: '0' }, clamp),
);
