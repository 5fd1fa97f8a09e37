/**
 * Attachment submissions: manifests that were registered, their upload URLs and uploaded files, and what a send and the
 * housekeeping need of them.
 */
export {
  type FileToSend,
  type SendReference,
  type SubmissionToSend,
  submissionForSend,
} from './for-send.ts';
export {
  KEEP_UNSENT_MS,
  overdueSubmissionsOperation,
  type RemovedFiles,
  removeOverdueOperation,
  removeUsedFilesOperation,
  uploadedBlobsOperation,
} from './retention-store.ts';
export { bindFiles, giveBackSubmission, type SubmissionUse, takeSubmission } from './store.ts';
export { createUploadUrls, type UploadUrls } from './upload-url.ts';
