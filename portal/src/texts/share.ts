/** Texts of links that show something to anyone who has them, for messages and templates. */
export const sharing = {
  valid: 'Expires after',
  durations: { '3600': '1 hour', '86400': '1 day', '604800': '7 days', '2592000': '30 days' },
  make: 'Create link',
  link: 'Link',
  madeUntil: (at: string) => `Expires ${at}. Copy it now: it won’t be shown again.`,
  copyLink: 'Copy link',
  done: 'Done',
  validUntil: (at: string) => `This link expires ${at}.`,
  invalid: 'This link is invalid or has expired',
  invalidHint: 'Copy the complete link, or ask the sender for a new one.',
};

export const shareList = {
  label: 'Valid links, newest first',
  valid: 'Valid links',
  creator: 'Created by',
  createdBy: (who: string) => `Created by ${who}`,
  created: 'Created',
  expires: 'Expires',
  revoke: 'Revoke',
  revokeEffect: 'The link stops working immediately, for everyone who has it. You can’t undo this.',
  revokeConfirm: 'Revoke link',
  revoked: 'Link revoked',
  more: 'Show more',
  none: 'No valid links',
};
