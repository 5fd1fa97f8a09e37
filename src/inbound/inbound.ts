/**
 * Mail from outside: bounces, feedback reports, unsubscribe emails, and mail for inbound routes. Which recipients are accepted, how
 * messages are stored, and how they reach their handlers.
 */
export type {
  EndInbound,
  FindRoute,
  Found,
  Handler,
  Handlers,
  InboundLease,
  InboundMail,
  InboundUse as Taken,
  RecordedFindings,
  Use,
} from './inbound-mail.ts';
export { createIntake, type Intake } from './intake.ts';
export { FORWARDED_IN_AN_HOUR, type ForwardedMail, type OperatorMailOptions } from './operator-mail.ts';
export {
  FORWARDING,
  findOperatorMailOperation,
  listOperatorMailOperation,
  type OperatorMail,
} from './operator-mail-store.ts';
export { createRecipients, type Recipients, type RecipientsOptions } from './recipients.ts';
export { createReportHandlers } from './report-handlers.ts';
export {
  findInboundOperation,
  INBOUND_WORK,
  type InboundFacts,
  inboundBlobsOperation,
  keepInboundOperation,
  type NewInbound,
  removeInboundOperation,
  type removeRecordedOperation,
  storeInboundOperation,
  storeKeptOperation,
} from './store.ts';
export { type InboundWorker, startInboundWorker } from './worker.ts';
