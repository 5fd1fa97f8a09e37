/** Interfaces of other services in front of ours; each is off unless POSTRIDER_DOORS names it. */
export { createResendDoor } from './resend/resend.ts';
export { withForeignNames } from './smtp-names.ts';
