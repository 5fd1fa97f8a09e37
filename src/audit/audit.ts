/** The audit log: who changed what, when and from where; defining operations that leave a row in it (change.ts). */
export { change, changedBy, type Origin, recordChangeOperation } from './change.ts';
export { commandOrigin, requestedChanges, requestOrigin, systemOrigin } from './origin.ts';
export { removeAuditOperation } from './store.ts';
