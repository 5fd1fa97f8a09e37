/** Counters of what became of messages, by hour and day, made from the log of events behind the hot path. */
export { answeredOperation, failingLatelyOperation, tookMailOperation } from './read-store.ts';
export { countAll, type RollUp, startRollUp } from './roll-up.ts';
export { removeStatisticsOperation } from './roll-up-store.ts';
export { KEPT_DAYS as STATISTICS_DAYS } from './span.ts';
