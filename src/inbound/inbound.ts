/**
 * Mail that comes in from outside: bounces, feedback reports, unsubscribe mails, and mail for the routes of users. Whom it may be
 * addressed to, how it is kept, and how it comes to those who deal with it.
 */
export type {
  EndInbound,
  FindRoute,
  Found,
  Handler,
  Handlers,
  InboundLease,
  InboundMail,
  RecordedFindings,
  Taken,
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
  storeInboundOperation,
  storeKeptOperation,
} from './store.ts';
export { type InboundWorker, startInboundWorker } from './worker.ts';
