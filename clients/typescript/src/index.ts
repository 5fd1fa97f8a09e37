/** Public exports of @postrider/client. */
export type { Answer, Body, OperationId, Query } from './call.ts';
export { Postrider } from './client.ts';
export type { BatchResult, Email, EmailAttachment } from './emails.ts';
export { type ErrorCode, type ErrorDetail, PostriderError } from './error.ts';
export type { EventStream, StreamOptions } from './event-stream.ts';
export type { CallOptions, ClientOptions, KeyOptions, SessionOptions } from './http.ts';
export type { Page, Pages } from './pages.ts';
export type * from './schema.ts';
export type { Uploaded, UploadFile, UploadOptions, UploadProgress } from './uploads.ts';
export { type VerifyOptions, verifyWebhook, verifyWebhookBatch } from './webhook.ts';
