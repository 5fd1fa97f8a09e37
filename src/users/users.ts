/**
 * Users: their accounts and roles, and how they log in. A session replaces an API key on every route that accepts one.
 */
export {
  createUser,
  type FirstRun,
  firstRun,
  firstRunFile,
  moveFirstRun,
  resetPassword,
  resetTwoFactor,
} from './create.ts';
export {
  NOTICE_TOPICS,
  noticeContactsOperation,
  noticeRecipients,
  operatorEmailsOperation,
  reachable,
} from './notice-store.ts';
export type { UserMail } from './passwords.ts';
export { type OldRows, removeOldOperation } from './session-store.ts';
export { createSessions, IDLE_MS, type UserSessions } from './sessions.ts';
