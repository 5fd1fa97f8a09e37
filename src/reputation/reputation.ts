/** Sending protection: accounts with too many bounces or complaints of live mail are warned, and then their live mail is held. */
export { startSendingProtection } from './protection.ts';
export { resumeSending } from './resume.ts';
