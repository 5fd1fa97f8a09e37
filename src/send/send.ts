/** Public interface of sending: acceptance over HTTP and SMTP, resending, and the service's own mail. */
export { createSend, type SendDependencies } from './accept.ts';
export { type Accepted, type ComposedEmail, originOf } from './accept-emails.ts';
export { contentIdIssue, lineBreakIssue } from './check.ts';
export { startDeliveryReports } from './delivery-reports.ts';
export { type DryRun, refusalAfter } from './dry-run.ts';
export { senderFailure } from './mail-header.ts';
export { resendMessage } from './resend.ts';
export { createSubmissionDigest } from './submission-digest.ts';
export { createSubmit, type Submit, type SubmittedContent } from './submit.ts';
export { createSystemMail, SYSTEM_ACCOUNT, type SystemMailer } from './system-mail.ts';
