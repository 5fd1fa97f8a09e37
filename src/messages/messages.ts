/**
 * Messages and the emails they are copies of: the records, the transactions that create and settle them, and their API. state-machine.ts is
 * the only writer of a message's state.
 */
export {
  type Cancellation,
  type Change,
  cancelMessageOperation,
  findContentOperation,
  findMailOperation,
  findMessageOperation,
  type MessageKey,
  type StoredMail,
} from './api-store.ts';
export { readContent } from './content.ts';
export {
  findQueuedOperation,
  type QueuedMessage,
  type QueueStatus,
  queueStatusOperation,
  type RetryOutcome,
  retryOperation,
} from './control-store.ts';
export { type EmailCopy, type EmailPage, findEmailOperation, listEmailsOperation, sameEmail } from './email-store.ts';
export {
  ContentFault,
  encodedFilesBytes,
  findMissingFile,
  readLargeContent,
} from './large-content.ts';
export {
  findSentOperation,
  type LateAnswer,
  type LateResult,
  type SentCopy,
  type SentQuery,
  settleLate,
} from './late-store.ts';
export {
  ATTEMPT,
  DELIVERY_WORK,
  type DeliveryJob,
  type DirectDispatch,
  EMAIL,
  type EmailDsn,
  type EmailFile,
  type EmailOptions,
  type EmailRow,
  INLINE_BYTES,
  isUnfinished,
  MESSAGE,
  MESSAGE_STATUSES,
  type MessageDsn,
  type MessageRow,
  type MessageStatus,
  RETAIN_MS,
  type ReportKind,
  type Retain,
  type Role,
  SIMULATED_SUPPRESSED,
  SUPPRESSED,
  shownStatus,
} from './message.ts';
export {
  dropOldestWeekOperation,
  hasWeeksOperation,
  makePartitions,
  PARTITION_MS,
} from './partition-store.ts';
export { type DueReport, enqueueReports, REPORT_WORK } from './report-work.ts';
export {
  dropContents,
  hasUnfinishedMessages,
  namedBlobsOperation,
  type Removed,
  removeContentOperation,
  removeEmail,
  removeEmailsOperation,
  stillNamedBlobsOperation,
} from './retention-store.ts';
export { removeSharesOperation } from './share-store.ts';
export { appendToTimeline, type Transition, transition, transitionMany } from './state-machine.ts';
