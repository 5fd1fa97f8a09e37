/**
 * Messages and the emails they are copies of: the records, the transactions that make and settle them, and what the
 * API shows of them. state-machine.ts is the only writer of a message's state.
 */
export {
  type Acceptance,
  type AcceptanceResult,
  type AcceptedEmail,
  type AcceptedRecipient,
  acceptOperation,
  type IdempotencyRecord,
  type RecipientAnswer,
  sendAnswer,
} from './accept-store.ts';
export {
  type AttemptRecord,
  backlogOperation,
  type ClaimRequest,
  claimOperation,
  crashOperation,
  extendOperation,
  heldLanesOperation,
  holdOperation,
  type LeaseChange,
  releaseOperation,
  type SettledEvent,
  type Settlement,
  type SettleResult,
  settleOperation,
  unholdOperation,
} from './delivery-store.ts';
export {
  DELIVERY_WORK,
  type DeliveryJob,
  type EmailOptions,
  type Handover,
  isUnfinished,
  type MessageRow,
  type MessageStatus,
  messageBody,
  type Retain,
  type Role,
} from './message.ts';
export { type Transition, transition } from './state-machine.ts';
