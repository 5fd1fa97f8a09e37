/** Sending protection: accounts whose live mail bounces or is complained about too much are warned, and then their live mail is held. */
export { startSendingProtection } from './protection.ts';
export { resumeSending } from './resume.ts';
