/**
 * What every way to send mail shares on the way from a request to accepted messages.
 */
export { createSend, type SendDependencies } from './accept.ts';
export type { Accepted } from './accept-emails.ts';
export type { ComposedEmail } from './composed-email.ts';
export { resendMessage } from './resend.ts';
export { senderFailure } from './sender.ts';
export { createSubmissionDigest } from './submission-digest.ts';
export { createSubmit, type Submit, type SubmittedContent } from './submit.ts';
export { createSystemMail, SYSTEM_ACCOUNT } from './system-mail.ts';
