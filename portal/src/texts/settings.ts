/** Texts of an account’s settings. */
export const settings = {
  title: 'Settings',
  lead: 'Applies to Live and Sandbox. Changes take effect immediately.',
  onlyOwners: 'Only owners can change settings. Everyone chooses their own notices.',
  onlyLive: 'Live and Sandbox share these settings. Switch to Live to change them.',
  save: 'Save',
  saved: 'Settings saved',
  defaults: 'Sending',
  defaultFrom: 'Default sender',
  defaultFromHint:
    'Used when a request has no from address, e.g. Shop <orders@shop.example>. Leave blank to require one.',
  missing: 'Missing template variables',
  missingHint: 'What Postrider does when a variable has no value. A request can override this setting.',
  missingValues: {
    error: { name: 'Reject', does: 'The request fails and lists the missing variables.' },
    empty: { name: 'Leave blank', does: 'The variable is replaced with nothing.' },
    keep: { name: 'Keep placeholder', does: 'The recipient sees {{ name }}.' },
  },
  retain: 'Content retention',
  retainHint:
    'How long Postrider stores bodies and attachments after a message is delivered or fails. Events and metadata are kept.',
  retainValues: {
    none: { name: 'Don’t store', does: 'Deleted once the message is delivered or fails. It can’t be resent.' },
    '7d': { name: '7 days', does: 'Recommended for troubleshooting and resending.' },
    '30d': { name: '30 days', does: 'The maximum. Your operator can set a shorter limit.' },
  },
};

export const identity = {
  title: 'Account',
  lead: 'Shown in the portal, and in notices by email to the users of this account.',
  name: 'Account name',
  timeZone: 'Time zone',
  timeZoneHint: 'For times in notices. The portal uses the time zone of your browser.',
  noTimeZone: 'No time zone has this name',
  logo: 'Logo',
  logoHint: 'Shown at the top of notices, 40 pixels high. PNG, JPEG, GIF, or WebP, up to 64 KiB.',
  logoAlt: 'Logo of the account',
  noLogo: 'No logo',
  uploadLogo: 'Upload logo',
  replaceLogo: 'Replace logo',
  removeLogo: 'Remove logo',
  logoSaved: 'Logo saved',
  logoRemoved: 'Logo removed',
  logoTooLarge: 'The image is larger than 64 KiB. Choose a smaller one.',
};

export const notices = {
  title: 'Notices by email',
  lead: 'Choose which notices Postrider sends you about this account. Other users choose their own.',
  notYours: 'You don’t receive notices about this account because you’re not a member of it.',
  kinds: {
    sendingProtection: {
      name: 'Sending protection',
      about: 'Live email is held, or may soon be held, because of bounces or complaints.',
    },
    quotas: { name: 'Quotas', about: '80% or 100% of a quota is used.' },
    domains: { name: 'Domains', about: 'A DKIM record is missing, or new DKIM keys are ready to publish.' },
    webhooks: { name: 'Webhooks', about: 'A webhook was disabled because its endpoint kept failing.' },
  },
  sentTo: (emails: readonly string[], more: number) =>
    `Sent to ${emails.join(', ')}${more > 0 ? `, and ${more} more` : ''}`,
  none: 'No one receives these notices. At least one user should turn them on.',
  operators: 'No user who wants these notices has a reachable email address. Your operator receives them.',
  unreachable: (email: string) => `Email can’t reach ${email}, so you receive no notices.`,
};

export const variables = {
  title: 'Account variables',
  lead: 'Available in every template. Values in a request take precedence.',
  known: {
    company_address_html: {
      name: 'Company address',
      does: 'Postal address for the footer, as HTML. Many countries require it by law.',
    },
    report_abuse_email_html: {
      name: 'Abuse contact',
      does: 'Where recipients can report abuse, as HTML, e.g. a link to abuse@shop.example.',
    },
  },
  unsubscribe: 'unsubscribe_email_html is built in: it contains each recipient’s unsubscribe link.',
  own: 'Custom variables',
  ownNone: 'No custom variables yet',
  nameOf: 'Variable name',
  nameHint: 'Letters, digits, and _',
  nameTaken: 'This name is already in use',
  nameWrong: 'Use letters, digits, and _. The name can’t start with a digit.',
  addNow: 'Add',
  remove: 'Remove',
  removeOf: (name: string) => `Remove ${name}`,
};
