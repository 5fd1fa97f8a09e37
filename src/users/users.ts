/**
 * Users: who signs in, what they are in which account, and how they prove who they are. Sessions stand for an API key on every
 * route that takes one.
 */
export { createUser, type FirstRun, firstRun, firstRunFile, resetPassword } from './create.ts';
export type { UserMail } from './passwords.ts';
export { type OldRows, removeOldOperation } from './session-store.ts';
export { createSessions, IDLE_MS, type UserSessions } from './sessions.ts';
export { contactsOperation } from './store.ts';
