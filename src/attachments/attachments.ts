/**
 * Attachment submissions: registered manifests, their upload URLs and uploaded files, and the functions that sends and housekeeping need.
 */
export { type CompleteBatch, type FileToSend, type SendReference, useBatch } from './for-send.ts';
export {
  type BatchUse,
  bindFiles,
  KEEP_UNSENT_MS,
  markBatchUsed,
  overdueBatchesOperation,
  type RemovedFiles,
  removeOverdueOperation,
  removeUsedFilesOperation,
  unmarkBatchUsed,
  uploadedBlobsOperation,
} from './store.ts';
export { createUploadUrls, type UploadUrls } from './upload.ts';
