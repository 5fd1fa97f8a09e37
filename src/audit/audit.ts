/** The audit log: who changed what, when, and from where. change.ts defines operations that write to it. */
export { change, changedBy, type Origin, recordChangeOperation } from './change.ts';
export { commandOrigin, requestedChanges, requestOrigin, systemOrigin } from './origin.ts';
export { removeAuditOperation } from './store.ts';
