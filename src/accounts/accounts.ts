/**
 * Accounts and who acts for them: API keys, SMTP credentials, users, and the authentication of callers on both
 * protocols. Secrets are stored as hashes only.
 */
export {
  type Account,
  type AccountSettings,
  type AccountStatus,
  type Caller,
  MAXIMUM_EMAIL_BYTES,
  type MissingVariables,
  type Plan,
  type Scope,
  STANDARD_EMAIL_BYTES,
} from './account.ts';
export { maySendAs } from './allowed-senders.ts';
export {
  type Approval,
  allApprovalsOperation,
  type Decided,
  decideApprovalOperation,
} from './approval-store.ts';
export { type Authenticator, createAuthenticator, type KnownCallers } from './authenticate.ts';
export { createAccount, createKey, createSmtpCredential, createUser, resetPassword } from './create.ts';
export { contactsOperation } from './credential-store.ts';
export { type FirstRun, firstRun, firstRunFile } from './first-run.ts';
export { revokeKeyOperation } from './key-store.ts';
export { createSmtpAuthenticator, type KnownLogins, type SmtpAuthenticator } from './smtp-authenticate.ts';
export {
  type AccountChange,
  accountOperation,
  accountsOperation,
  messageHolderOperation,
  setAccountOperation,
} from './store.ts';
export { createSuspensionCheck } from './suspension.ts';
