/** Interfaces of other services; each is off unless POSTRIDER_DOORS names it. */
export { createResendDoor } from './resend/resend.ts';
export { createSesDoor } from './ses/ses.ts';
export { withForeignNames } from './smtp-names.ts';
