/** Planted bugs by which something does not happen that should: nothing wrong stands anywhere, and what is missing shows only to who looks for it. */
import type { Planted } from './planted.ts';

export const PLANTED_OMISSIONS: Readonly<Record<string, Planted>> = {
  'mail over SMTP reaches its first recipient alone': {
    seed: 1,
    file: 'send/submit.ts',
    find: 'recipients: submission.recipients.map((address) => ({',
    replace: 'recipients: submission.recipients.slice(0, 1).map((address) => ({',
    finds: /^lost: mail/,
  },
};
