/**
 * Accounts, API keys, and SMTP credentials, and the authentication of callers over HTTP and SMTP. Secrets are stored only as hashes.
 */
export {
  ACCOUNT_COLUMNS,
  ACCOUNT_NAME,
  type Account,
  type AccountRow,
  type AccountSettings,
  type AccountStatus,
  accountOf,
  type Caller,
  type DeliveryReports,
  listColumn,
  listOf,
  MAXIMUM_EMAIL_BYTES,
  type MissingVariables,
  maySendAs,
  ownerOf,
  type Plan,
  type ProtectionStatus,
  readAccount,
  type Scope,
  STANDARD_EMAIL_BYTES,
  SUSPENSION_REASON,
  type SubmissionPorts,
} from './account.ts';
export {
  type AgentRequest,
  type AgentRequestKey,
  agentRequestOperation,
  agentRequestsOperation,
  callerOfKeyOperation,
  type Decision,
  decideAgentRequestOperation,
  type FailedDecision,
  finishAgentRequestOperation,
  MAX_PENDING_REQUESTS,
  removeAgentRequestsOperation,
  storeAgentRequestOperation,
} from './agent-request-store.ts';
export {
  type Authenticator,
  apiKeyHash,
  type CallerCache,
  createAuthenticator,
  createSmtpAuthenticator,
  createSuspensionCheck,
  keyIdOf,
  keyPrefix,
  type LogInResult,
  type LoginCache,
  type SmtpAuthenticator,
  signingSecretOf,
} from './authenticate.ts';
export {
  createAccount,
  createKey,
  createSigningKey,
  createSmtpCredential,
  newAccount,
  newKeyRow,
  newPassword,
} from './create.ts';
export {
  type ApiKeyRecord,
  type CredentialRecord,
  credentialsOperation,
  insertCredential,
  insertKey,
  keysOperation,
  type NewCredentialRow,
  type NewKeyRow,
  revokeKeyOperation,
  type SigningKeyHolder,
} from './credential-store.ts';
export { type CredentialUses, createCredentialUses } from './credential-uses.ts';
export { type Logo, logoOperation } from './logo-store.ts';
export { allowedNetworkIssues, MAXIMUM_NETWORKS, readAllowedNetworks } from './networks.ts';
export { hashPassword, UNKNOWN_USER_PASSWORD, verifyPassword } from './passwords.ts';
export {
  type AnsweredMail,
  type CountedFrom,
  decideProtectionOperation,
  type ProtectionReason,
  protectionNoticeGivenOperation,
  protectionNoticesOperation,
  resumeSendingOperation,
  type SendingProtection,
  sendingProtectionOperation,
  warnedOperation,
} from './protection-store.ts';
export { protectionBody, reasonText } from './protection-texts.ts';
export {
  type AccountChange,
  type Approval,
  type ApprovalDecision,
  accountOperation,
  accountsOperation,
  allApprovalsOperation,
  decideApprovalOperation,
  insertAccount,
  messageCountsOperation,
  messageHolderOperation,
  setAccountOperation,
} from './store.ts';
export { type SuspensionNoticeOptions, startSuspensionNotices } from './suspension-notices.ts';
export {
  ADVICE,
  type Rates,
  reaching,
  type SetThresholds,
  type Thresholds,
  thresholdIssues,
  thresholdsOf,
} from './thresholds.ts';
export { createUsageReader, type Usage, type UsageReader } from './usage.ts';
