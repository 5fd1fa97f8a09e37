/** Counters of message results, by hour and day, computed from the event log in the background. */
export { acceptedMailOperation, answeredOperation, failingLatelyOperation } from './read-store.ts';
export { catchUp, countAll, type RollUp, startRollUp } from './roll-up.ts';
export { removeStatisticsOperation } from './roll-up-store.ts';
export { KEPT_DAYS as STATISTICS_DAYS } from './span.ts';
