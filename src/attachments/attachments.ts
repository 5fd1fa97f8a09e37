/**
 * Attachment submissions: manifests that were registered, their upload URLs and uploaded files, and what a send and the
 * housekeeping need of them.
 */
export { type CompleteBatch, type FileToSend, type SendReference, useBatch } from './for-send.ts';
export {
  KEEP_UNSENT_MS,
  overdueBatchesOperation,
  type RemovedFiles,
  removeOverdueOperation,
  removeUsedFilesOperation,
  uploadedBlobsOperation,
} from './retention-store.ts';
export { type BatchUse, bindFiles, markBatchUsed, unmarkBatchUsed } from './store.ts';
export { createUploadUrls, type UploadUrls } from './upload-url.ts';
